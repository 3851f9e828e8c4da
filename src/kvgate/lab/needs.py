"""What the lab needs on this machine, by Debian package; installed only where it may be."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

from kvgate.errors import HarnessError
from kvgate.lab.progress import Say, Waiting

PATH = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"
TO_RUN = {"qemu-system-x86_64": "qemu-system-x86", "qemu-img": "qemu-utils"}
TO_BUILD = {
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "cpio": "cpio",
    "zstd": "zstd",
    "unxz": "xz-utils",
    "depmod": "kmod",
    "ssh-keygen": "openssh-client",
    "apt-get": "apt",
    "dpkg-deb": "dpkg",
}
AS_USER = {"fakeroot": "fakeroot", "newuidmap": "uidmap"}
_APT_S = 600.0


def missing(*, build: bool) -> list[str]:
    """Return the Debian packages that are missing to run the lab, and to `build` its image."""
    wanted = dict(TO_RUN)
    if build:
        wanted |= TO_BUILD | ({} if os.geteuid() == 0 else AS_USER)
    return sorted(
        package for command, package in wanted.items() if not shutil.which(command, path=PATH)
    )


def provide(*, build: bool, install: bool, say: Say) -> None:
    """See to it that nothing is missing: as root by apt, which is said, else by `install` and sudo.

    Raises HarnessError with the command that people may give where kvgate may not.
    """
    packages = missing(build=build)
    if not packages:
        return
    names = " ".join(packages)
    by_hand = f"apt-get install --no-install-recommends {names}"
    root = os.geteuid() == 0
    if not shutil.which("apt-get", path=PATH) or not (root or install):
        raise HarnessError(
            f"lab: this machine lacks {names}", hint=f"as root on Debian or Ubuntu: {by_hand}"
        )
    say(f"installing by apt, as the lab needs it: {names}")
    as_root = [] if root else ["sudo", "-n"]
    _apt([*as_root, "apt-get", "-q", "update"], say)
    _apt([*as_root, "apt-get", "-qy", "install", "--no-install-recommends", *packages], say)
    if still := missing(build=build):
        raise HarnessError(f"lab: {' '.join(still)} still missing after `{by_hand}`")


def _apt(argv: Sequence[str], say: Say) -> None:
    """Run apt, waiting for another apt that is at work; raises HarnessError where it fails."""
    waiting = Waiting(say, f"`{' '.join(argv[:3])} …`", _APT_S)
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "PATH": PATH}
    while True:
        done = _once(argv, env, waiting)
        if done.returncode == 0:
            return
        told = done.stderr.decode("utf-8", "replace").strip()
        if "Could not get lock" not in told and "Unable to lock" not in told:
            raise HarnessError(f"lab: `{' '.join(argv)}` exited {done.returncode}: {told[-800:]}")
        waiting.pause("another apt is at work", pause_s=1)


def _once(
    argv: Sequence[str], env: dict[str, str], waiting: Waiting
) -> subprocess.CompletedProcess[bytes]:
    with subprocess.Popen(
        argv,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as child:
        while True:
            try:
                _, complaint = child.communicate(timeout=0.5)
            except subprocess.TimeoutExpired:
                waiting.pause()
                continue
            return subprocess.CompletedProcess(list(argv), child.returncode, b"", complaint)
