"""What the kernel has logged since a mark that was set earlier in the same boot."""

from __future__ import annotations

import dataclasses
import re

from kvgate.errors import CommandError, ParseError
from kvgate.model.quantity import Quantity
from kvgate.parse import dmesg
from kvgate.parse.text import decoded, refuse, shown
from kvgate.probes.base import PLAIN, SHORT_S, answer, reading, refusal, untold
from kvgate.probes.kernel_log import SUBJECTS, counts
from kvgate.spec.inventory import Host
from kvgate.witness import Answer, Testimony, Witness

SCRIPT = (
    "cat /proc/sys/kernel/random/boot_id && { "
    "journalctl -k -b -o short-monotonic --no-pager -q 2>/dev/null | grep . || dmesg; }"
)
NEW = {name.replace("log.", "log.new_"): kinds for name, kinds in SUBJECTS.items()}
"""Measure → kinds of patterns whose events since the mark it counts."""

MEASURES = (*NEW, "log.new_fatal", "log.first_new_fatal")
LONGEST = 8192
"""Characters that a mark may have; printk keeps 2,048 bytes, each shown as four at most."""

_BOOT = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclasses.dataclass(frozen=True, slots=True)
class BootMark:
    """A place in the log of one boot: the last message that stood there.

    Nothing is written to /dev/kmsg for it, as that would be a trace.
    """

    boot: str
    mark: dmesg.Mark


def _argv(host: Host) -> tuple[str, ...]:
    return host.as_root("sh", "-c", SCRIPT)


def _ask(witness: Witness) -> Testimony:
    return witness.ask(_argv(witness.host), timeout_s=SHORT_S, env=PLAIN)


def _split(told: Testimony) -> tuple[str, bytes]:
    first, _, log = told.stdout.partition(b"\n")
    boot = decoded(first, "boot_id").strip()
    if not _BOOT.fullmatch(boot):
        refuse("boot_id", f"{shown(boot)} is no boot's id")
    return boot, log


def mark(witness: Witness) -> BootMark:
    """Return where the log ends now. Raises CommandError and ParseError where it can't be read."""
    told = _ask(witness)
    if not told.result.ok:
        raise CommandError(witness.host.name, refusal(told, "util-linux"))
    boot, log = _split(told)
    found = dmesg.end_of(log)
    if len(found.text) > LONGEST:
        refuse(
            "kernel log", f"its last message has {len(found.text):,} characters: none is so long"
        )
    return BootMark(boot, found)


def ask_since(witness: Witness, since: BootMark) -> Answer:
    """Return how often the kernel complained after `since`, by subject, and how often fatally.

    Readings have a problem where the host has booted again, or where its log no longer holds the
    mark: lines were lost then, and silence would prove nothing.
    """
    told = _ask(witness)
    if not told.result.ok:
        return answer(untold(MEASURES, refusal(told, "util-linux")), told)
    try:
        boot, log = _split(told)
        if boot != since.boot:
            return answer(untold(MEASURES, "the host has booted again since the mark"), told)
        found = dmesg.kernel_log(log, since.mark)
    except ParseError as err:
        return answer(untold(MEASURES, err.message), told)
    fatal = [each for each in found.events if each.severity == "fatal"]
    readings = [
        reading(name, Quantity.of(sum(e.kind in kinds and counts(e) for e in found.events), ""))
        for name, kinds in NEW.items()
    ]
    readings.append(reading("log.new_fatal", Quantity.of(len(fatal), "")))
    readings.append(reading("log.first_new_fatal", fatal[0].text[:200] if fatal else "none"))
    return answer(readings, told)
