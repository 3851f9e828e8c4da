"""The self-test that an NVMe drive runs by itself: started, watched, aborted when cancelled.

It goes on in the drive when we are gone, and stands in its log: a resumed run waits for the test
that it finds running instead of starting a second one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import threading
import time

from kvgate.errors import HarnessError, KvgateError, NotRunError
from kvgate.model.quantity import Quantity
from kvgate.model.record import EvidenceRef, Reading
from kvgate.parse import nvme_selftest
from kvgate.parse.nvme_selftest import Entry, SelfTestLog
from kvgate.witness import Answer, Testimony, Witness
from kvgate.workloads.base import OnProgress
from kvgate.workloads.diagnostics import PLAIN, Around, require

KINDS = {"short": 1, "extended": 2}
"""Codes of the two kinds (NVMe Base Specification, Device Self-test command)."""

_ABORT = 0xF
_ASK_S = 20.0
_DEVICE = re.compile(r"nvme[0-9]{1,4}n[0-9]{1,4}")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """How a self-test is waited for: at most ``most_s``, its log asked every ``every_s``.

    ``settle_s`` is how long a drive may take to show what was started.
    """

    most_s: float
    every_s: float = 5.0
    settle_s: float = 20.0
    on_progress: OnProgress | None = None
    around: Around = contextlib.nullcontext
    cancel: threading.Event | None = None


def run(witness: Witness, device: str, item: str, *, kind: str, watching: Watching) -> Answer:
    """Let the drive `device` (``nvme0n1``) test itself; return readings of `item`, the drive's id.

    1. A test that runs already, of this kind or a longer one, is waited for; any other is waited
    out first. 2. Unless there was one, one is started. 3. The log is asked until none runs. 4. Its
    newest entry decides (``nvme.self_test_passed``, ``nvme.self_test_result``,
    ``nvme.self_test_hours``).

    What was started here is aborted on the drive when it is cancelled or hangs, or this ends by any
    other error; what ran already is left alone. Raises NotRunError (no nvme-cli, no such device, a
    drive that can't), HarnessError (cancelled, or it hangs), ParseError, TransportError.
    """
    refs = [require(witness, "nvme", "nvme-cli")]
    if not _DEVICE.fullmatch(device):
        raise NotRunError((f"{witness.host.name}: '{device}' is no NVMe namespace",))
    code = KINDS[kind]
    log, told = _log(witness, device)  # 1.
    refs.append(told.ref)
    with watching.around(), contextlib.ExitStack() as started:
        if log.running and not code <= log.running <= max(KINDS.values()):
            log = _waited(witness, device, watching, ())[0]
        before = log.entries
        if not log.running:  # 2.
            refs.append(_command(witness, device, code))
            started.callback(_abort, witness, device)
        log, told = _waited(witness, device, watching, before)  # 3.
        started.pop_all()
    newest = _newest(f"{witness.host.name}: {device}", log, before, code)
    return Answer(_readings(newest, item), (*refs, told.ref))  # 4.


def _waited(
    witness: Witness, device: str, watching: Watching, before: tuple[Entry, ...]
) -> tuple[SelfTestLog, Testimony]:
    """Ask the log until no test runs, and return it. Raises HarnessError as `run`.

    A log that is as it was `before` gets some time to tell of what was just started.
    """
    begun = time.monotonic()
    waiting = watching.cancel or threading.Event()
    log, told = _log(witness, device)
    while log.running or (log.entries == before and time.monotonic() < begun + watching.settle_s):
        if waiting.wait(watching.every_s):
            raise HarnessError(f"{witness.host.name}: the self-test of {device} was cancelled")
        if time.monotonic() > begun + watching.most_s:
            raise HarnessError(
                f"{witness.host.name}: the self-test of {device} hangs: it still runs after "
                f"{watching.most_s:.0f} s, at {log.done_pct} %"
            )
        log, told = _log(witness, device)
        if watching.on_progress and log.running:
            watching.on_progress(f"self-test of {device}: {log.done_pct} %")
    return log, told


def _abort(witness: Witness, device: str) -> None:
    """End the test that runs on the drive; an error that is under way matters more."""
    with contextlib.suppress(KvgateError):
        _command(witness, device, _ABORT)


def _newest(where: str, log: SelfTestLog, before: tuple[Entry, ...], code: int) -> Entry:
    """Return the entry of the test that has run; a log without a new one proves nothing."""
    if not log.entries or log.entries == before:
        raise HarnessError(f"{where} tells in its log of no self-test after one was started")
    newest = log.entries[0]
    if newest.kind is not None and not code <= newest.kind <= max(KINDS.values()):
        raise HarnessError(f"{where}: the newest self-test in its log is of kind {newest.kind}")
    return newest


def _readings(newest: Entry, item: str) -> tuple[Reading, ...]:
    hours = newest.power_on_hours
    aborted = newest.result not in (0, 5, 6, 7)
    return (
        Reading(
            name="nvme.self_test_passed",
            value=None if aborted else newest.passed,
            item=item,
            problem=newest.text if aborted else "",
        ),
        Reading(name="nvme.self_test_result", value=newest.text, item=item),
        Reading(
            name="nvme.self_test_hours",
            value=None if hours is None else Quantity.of(hours, "h"),
            item=item,
            problem="the drive tells no hours" if hours is None else "",
        ),
    )


def _log(witness: Witness, device: str) -> tuple[SelfTestLog, Testimony]:
    argv = ("nvme", "self-test-log", f"/dev/{device}", "-o", "json")
    told = witness.ask(witness.host.as_root(*argv), timeout_s=_ASK_S, env=PLAIN)
    return nvme_selftest.self_test_log(told.stdout), told


def _command(witness: Witness, device: str, code: int) -> EvidenceRef:
    """Start a self-test, or abort the one that runs."""
    argv = ("nvme", "device-self-test", f"/dev/{device}", "-s", f"{code:#x}")
    told = witness.ask(witness.host.as_root(*argv), timeout_s=_ASK_S, env=PLAIN)
    if not told.result.ok:
        raise NotRunError(
            (f"{witness.host.name}: {told.result.describe()}",),
            hint="the drive may have no self-test (OACS bit 4), or nvme needs root",
        )
    return told.ref
