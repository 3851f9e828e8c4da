"""Which acceleration QEMU can use here: KVM where a guest really boots by it, else TCG.

A /dev/kvm that opens, and even one that makes a machine, does not mean that a stock guest runs. One
is booted, once a boot of this machine, and its outcome is kept.
"""

from __future__ import annotations

import os
from pathlib import Path

from kvgate.errors import UsageError
from kvgate.lab.places import Places
from kvgate.lab.progress import Say
from kvgate.lab.vm import QEMU
from kvgate.transport.local import LocalTransport

KINDS = ("auto", "kvm", "tcg")
_PROBE_S = 12.0
_SEEN = b"Unable to mount root"  # how far a kernel without a root disk gets: all that is asked


def chosen(wanted: str, places: Places, say: Say) -> str:
    """Return ``kvm`` or ``tcg``: what is `wanted`, or $LAB_ACCEL; ``auto`` finds out and keeps it.

    Raises UsageError where it is no kind of acceleration.
    """
    kind = wanted or os.environ.get("LAB_ACCEL", "") or "auto"
    if kind not in KINDS:
        raise UsageError(f"'{kind}' is no acceleration; one of: {', '.join(KINDS)}")
    if kind != "auto":
        return kind
    kept = places.cache / "accel"
    about = _about()
    try:
        known = kept.read_text("utf-8").split()
    except OSError:
        known = []
    if len(known) == 2 and known[0] in KINDS and known[1] == about:
        return known[0]
    found = "kvm" if _boots(places, say) else "tcg"
    kept.write_text(f"{found} {about}\n", "utf-8")
    return found


def _about() -> str:
    """Return what the outcome holds for: this boot of this machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()


def _boots(places: Places, say: Say) -> bool:
    """Tell whether a guest gets as far as its root disk by KVM, within 12 s."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    say(f"awaiting whether a guest boots by KVM here, at most {_PROBE_S:.0f} s, once")
    argv = [QEMU, "-accel", "kvm", "-cpu", "host", "-M", "q35", "-m", "256", "-display", "none"]
    argv += ["-nodefaults", "-no-reboot", "-serial", "stdio"]
    argv += ["-kernel", str(places.image / "vmlinuz"), "-append", "console=ttyS0 panic=-1"]
    return _SEEN in LocalTransport("lab").run(argv, timeout_s=_PROBE_S).stdout
