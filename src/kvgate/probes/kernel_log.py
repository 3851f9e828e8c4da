"""The kernel log since boot: what it says of PCIe, GPUs, drives, links, memory and itself."""

from __future__ import annotations

from collections.abc import Iterable

from kvgate.model.quantity import Quantity
from kvgate.model.record import Reading
from kvgate.parse import dmesg
from kvgate.parse.dmesg import Event, KernelLog
from kvgate.probes.base import PLAIN, SHORT_S, Command, Probe, answer, as_root, reading, untold
from kvgate.spec.inventory import Host
from kvgate.witness import Answer, Witness

# The journal holds all since boot; the kernel's own buffer is a ring. Where there is neither
# journal nor permission, dmesg's complaint is the answer.
SCRIPT = (
    "journalctl -k -b -o short-iso --no-pager -q 2>/dev/null | grep . || "
    "dmesg --time-format iso 2>/dev/null || dmesg"
)
SUBJECTS: dict[str, tuple[str, ...]] = {
    "log.pcie_errors": ("aer", "pcie", "iommu"),
    "log.memory_errors": ("edac", "mce", "ghes"),
    "log.oom_kills": ("oom",),
    "log.gpu_errors": ("ras", "gpu"),
    "log.nvme_errors": ("nvme", "block", "fs"),
    "log.link_flaps": ("link",),
    "log.network_errors": ("net", "rdma"),
    "log.kernel_errors": ("kernel",),
}
"""Measure → kinds of patterns (patterns/kernel.yaml) whose events it counts."""

MEASURES = (*SUBJECTS, "log.fatal", "log.first_fatal", "log.whole")
_BAD = ("warning", "error", "fatal")
_BOOT = "Linux version "


def _argv(host: Host) -> tuple[str, ...]:
    return as_root(host, "sh", "-c", SCRIPT)


def ask_log(witness: Witness) -> Answer:
    """Return how often the kernel complained since boot, by subject, and how often fatally.

    A log whose beginning is lost proves no silence: a subject without complaint then has a problem
    instead of 0 (``log.whole`` says which).
    """
    told = witness.ask(_argv(witness.host), timeout_s=SHORT_S, env=PLAIN)
    if not told.result.ok and b"not permitted" in told.result.stderr:
        why = "reading the kernel log is not permitted: set 'sudo: passwordless', or log in as root"
        return answer(untold(MEASURES, why), told)
    if not told.result.ok:
        return answer(untold(MEASURES, told.result.describe()), told)
    found = dmesg.kernel_log(told.stdout)
    first = told.stdout[:4096].decode("utf-8", "replace")
    return answer(_told(found, whole=_BOOT in first and not found.cut), told)


def _told(found: KernelLog, *, whole: bool) -> Iterable[Reading]:
    lost = "the kernel log no longer holds the beginning of this boot: silence proves nothing"
    for name, kinds in SUBJECTS.items():
        count = sum(each.kind in kinds and counts(each) for each in found.events)
        yield reading(name, Quantity.of(count, "") if count or whole else None, lost)
    fatal = [each for each in found.events if each.severity == "fatal"]
    yield reading("log.fatal", Quantity.of(len(fatal), "") if fatal or whole else None, lost)
    yield reading("log.first_fatal", fatal[0].text[:200] if fatal else "none")
    yield reading("log.whole", whole)


def counts(event: Event) -> bool:
    """Tell whether `event` is a complaint: not a note, not a number that can't be."""
    return event.severity in _BAD and not event.implausible and event.id != "pcie.slow_link"


PROBES: tuple[Probe, ...] = (
    Probe(
        name="kernel log",
        measures=MEASURES,
        ask=ask_log,
        commands=lambda host: (Command(argv=_argv(host)),),
        tools=("dmesg",),
    ),
)
