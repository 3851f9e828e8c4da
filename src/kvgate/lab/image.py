"""The guests' image: built once of Debian packages, kept by what it is made of.

Two stages, each kept by the digest of what goes into it: the Debian root tree and kernel (a minute
or two), and what is made of them (seconds), so that a changed guest script costs seconds only.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from kvgate.errors import HarnessError
from kvgate.lab import needs, runner
from kvgate.lab.places import Places
from kvgate.lab.progress import Say, Waiting, alone

SUITE = "trixie"
# fmt: off
PACKAGES = (
    "openssh-server", "nvme-cli", "fio", "rdma-core", "ibverbs-utils", "rdmacm-utils",
    "ibverbs-providers", "perftest", "iproute2", "iputils-ping", "iperf3", "pciutils",
    "smartmontools", "ethtool", "kmod", "udev", "busybox-static", "procps", "jq", "python3",
    "mdadm", "lvm2", "vdo", "dmsetup", "thin-provisioning-tools", "xfsprogs", "e2fsprogs",
    "multipath-tools", "gdisk", "psmisc",
)
# fmt: on
PARTS = ("vmlinux", "vmlinuz", "initrd", "root.img", "manifest.txt")
_BUILD_S = 1200.0
_LOCK_S = 1500.0


def built(places: Places) -> bool:
    """Tell whether the image is there and made of what it would be made of now."""
    stamp = places.image / "stamp"
    return stamp.is_file() and stamp.read_text("utf-8").strip() == _digest(places)


def build(places: Places, say: Say, *, install: bool = False, mirror: str = "") -> bool:
    """See to it that the image is there; tell whether it had to be built.

    `mirror` (else $LAB_MIRROR, else this machine's own apt's) is where Debian packages come from.
    Raises HarnessError where something is missing, or a stage ends badly.
    """
    places.cache.mkdir(parents=True, exist_ok=True, mode=0o700)
    waiting = Waiting(say, "another build of the image", _LOCK_S)
    with alone(places.cache / "build.lock", waiting):
        needs.provide(build=not built(places), install=install, say=say)
        if built(places):
            return False
        _keys(places)
        stage1 = _stage1(places, mirror or os.environ.get("LAB_MIRROR", "") or own_mirror(), say)
        _stage2(places, stage1, say)
    return True


def own_mirror() -> str:
    """Return the address of the Debian mirror that this machine's apt uses; raises HarnessError."""
    argv = ["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages"]
    told = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False).stdout
    for line in told.splitlines():
        if line.rstrip("/").endswith("/debian"):
            return line.strip()
    raise HarnessError(
        "lab: this machine's apt knows no Debian mirror",
        hint="name one: kvgate lab build --mirror ADDRESS (it must have Debian 13)",
    )


def _files(folder: str) -> dict[str, bytes]:
    """Return name → content of the package's own `folder`."""
    place = resources.files("kvgate.lab").joinpath(folder)
    return {each.name: each.read_bytes() for each in sorted(place.iterdir(), key=lambda e: e.name)}


def _digest_of(*parts: bytes) -> str:
    summed = hashlib.sha256()
    for part in parts:
        summed.update(len(part).to_bytes(8, "big") + part)
    return summed.hexdigest()[:16]


def _digest1() -> str:
    """Return the digest of what stage 1 is made of; the mirror is none of it."""
    script = _files("image")["stage1.sh"]
    return _digest_of(SUITE.encode(), " ".join(PACKAGES).encode(), script)


def _digest(places: Places) -> str:
    public = [
        (places.keys / name).read_bytes() if (places.keys / name).is_file() else b""
        for name in ("id_lab.pub", "host_key.pub")
    ]
    guest = [part for name, text in _files("guest").items() for part in (name.encode(), text)]
    return _digest_of(_digest1().encode(), _files("image")["stage2.sh"], *guest, *public)


def _keys(places: Places) -> None:
    places.keys.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name in ("id_lab", "host_key"):
        if not (places.keys / name).exists():
            argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"kvgate {name}", "-f"]
            subprocess.run(
                [*argv, str(places.keys / name)],
                check=True,
                timeout=60,
                stdin=subprocess.DEVNULL,
                capture_output=True,
            )


def _stage1(places: Places, mirror: str, say: Say) -> Path:
    """Return the folder with root tree and kernel package, as archives."""
    folder = places.cache / "stage1"
    done = folder / "done"
    if done.is_file() and done.read_text("utf-8") == _digest1():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    mode = "root" if os.geteuid() == 0 else "unshare"
    argv = [str(folder), SUITE, mirror, mode, ",".join(PACKAGES)]
    _script("stage1.sh", argv, folder, say, what="Debian packages of the image (stage 1 of 2)")
    done.write_text(_digest1(), "utf-8")
    return folder


def _stage2(places: Places, stage1: Path, say: Say) -> None:
    """Make the image in a folder beside, and put it in place once it is whole."""
    made, guest = places.cache / "image.new", places.cache / "image.new" / "guest"
    shutil.rmtree(made, ignore_errors=True)
    guest.mkdir(parents=True)
    for name, text in _files("guest").items():
        (guest / name).write_bytes(text)
    argv = [str(stage1), str(guest), str(places.keys), str(made)]
    as_root = [] if os.geteuid() == 0 else ["fakeroot", "--"]
    _script("stage2.sh", argv, made, say, what="the image (stage 2 of 2)", before=as_root)
    for part in PARTS:
        if not (made / part).is_file():
            raise HarnessError(f"lab: stage 2 made no {part}")
    shutil.rmtree(guest)
    (made / "stamp").write_text(_digest(places), "utf-8")
    old = places.cache / "image.old"  # machines that run go on with it until they are down
    shutil.rmtree(old, ignore_errors=True)
    if places.image.exists():
        places.image.rename(old)
    made.rename(places.image)


def _script(
    name: str,
    arguments: Sequence[str],
    folder: Path,
    say: Say,
    *,
    what: str,
    before: Sequence[str] = (),
) -> None:
    script = folder / name
    script.write_bytes(_files("image")[name])
    argv = [*before, "bash", str(script), *arguments]
    runner.run(argv, waiting=Waiting(say, what, _BUILD_S), say=say)
    script.unlink()
