"""The kernel log since boot: what it says of PCIe, GPUs, drives, links, memory and itself."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from kvgate.model.quantity import Quantity
from kvgate.model.record import Reading
from kvgate.parse import dmesg
from kvgate.parse.dmesg import Event, KernelLog
from kvgate.parse.kernel_patterns import patterns
from kvgate.probes.base import PLAIN, SHORT_S, Command, Probe, answer, reading, untold
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
_ODDS = b"0123456789abcdef :;,.[]()-+_/=<>#'\"*@"
"""What a line is looked through without: digits, and what stands between words."""
_BAD = ("warning", "error", "fatal")
_BOOT = "Linux version "


def _argv(host: Host) -> tuple[str, ...]:
    return host.as_root("sh", "-c", SCRIPT)


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
    found = dmesg.kernel_log(telling(told.stdout))
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


def telling(log: bytes) -> bytes:
    """Return the lines of `log` that a pattern could match, whole messages of them, and its first.

    A server's boot has thousands of lines that differ in numbers and addresses, and tells of
    trouble in few: what they have in common is looked through once, without digits (hexadecimal
    ones too), blanks and points, and what could match there is read. Lines that go on (both
    journalctl and dmesg indent them) stay with theirs.
    """
    lines = log.split(b"\n")
    kinds = log.translate(None, _ODDS).split(b"\n")
    likely = _likely(b"\n".join(set(kinds)))
    kept: set[int] = set()
    for number, kind in enumerate(kinds if likely else ()):
        if kind in likely and number not in kept:
            line = lines[number]
            if any(word in line for word in likely[kind]):
                kept |= _message_of(lines, number)
    return b"\n".join(lines[number] for number in sorted(kept | {0})) + b"\n"


def _likely(kinds: bytes) -> dict[bytes, tuple[bytes, ...]]:
    """Return the lines of `kinds` that have, but for `_ODDS`, what patterns need; and what that is.

    Found in all text at once, in C.
    """
    found: dict[bytes, tuple[bytes, ...]] = {}
    for bare, words in _needed().items():
        at = kinds.find(bare)
        while at >= 0:
            end = kinds.find(b"\n", at)
            end = len(kinds) if end < 0 else end
            kind = kinds[kinds.rfind(b"\n", 0, at) + 1 : end]
            found[kind] = found.get(kind, ()) + words
            at = kinds.find(bare, end)
    return found


@functools.cache
def _needed() -> dict[bytes, tuple[bytes, ...]]:
    """Return what patterns need in a line, by what is left of it without `_ODDS`."""
    found: dict[bytes, tuple[bytes, ...]] = {}
    for word in sorted({pattern.needs.encode() for pattern in patterns()}):
        bare = word.translate(None, _ODDS)
        found[bare] = (*found.get(bare, ()), word)
    return found


def _message_of(lines: Sequence[bytes], number: int) -> set[int]:
    """Return the numbers of the lines that make the message in which line `number` is."""
    first = last = number
    while first and lines[first][:1].isspace():
        first -= 1
    while last + 1 < len(lines) and lines[last + 1][:1].isspace():
        last += 1
    return set(range(first, last + 1))


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
