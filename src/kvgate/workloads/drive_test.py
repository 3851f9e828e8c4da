"""The self-test that an NVMe drive runs by itself: started, watched, aborted when cancelled.

It goes on in the drive when we are gone, and stands in its log: a resumed run waits for the test
that it finds running instead of starting a second one.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time

from kvgate.errors import HarnessError, NotRunError
from kvgate.model.quantity import Quantity
from kvgate.model.record import EvidenceRef, Reading
from kvgate.parse import nvme_selftest
from kvgate.parse.nvme_selftest import Entry, SelfTestLog
from kvgate.witness import Answer, Testimony, Witness
from kvgate.workloads.base import OnProgress
from kvgate.workloads.diagnostics import PLAIN, Around, as_root, require

SHORT, EXTENDED = 1, 2
"""Codes of the two kinds (NVMe Base Specification, Device Self-test command)."""

MOST_S = {SHORT: 15 * 60.0, EXTENDED: 12 * 3600.0}
"""After what time a test hangs: a short one takes two minutes at most, by the specification."""

_ABORT = 0xF
_ASK_S = 20.0
_DEVICE = re.compile(r"nvme[0-9]{1,4}n[0-9]{1,4}")


def run(
    witness: Witness,
    device: str,
    item: str,
    *,
    kind: int = SHORT,
    every_s: float = 5.0,
    on_progress: OnProgress | None = None,
    around: Around = contextlib.nullcontext,
    cancel: threading.Event | None = None,
) -> Answer:
    """Let the drive `device` (``nvme0n1``) test itself; return readings of `item`, the drive's id.

    1. A test that runs already, of this kind or a longer one, is waited for. 2. Else one is
    started. 3. The log is asked until none runs. 4. Its newest entry decides
    (``nvme.self_test_passed``, ``nvme.self_test_result``, ``nvme.self_test_hours``).

    Cancelling aborts the test on the drive. Raises NotRunError (no nvme-cli, no such device, a
    drive that can't), HarnessError (cancelled, or it hangs), ParseError, TransportError.
    """
    require(witness, "nvme", "nvme-cli")
    if not _DEVICE.fullmatch(device):
        raise NotRunError((f"{witness.host.name}: '{device}' is no NVMe namespace",))
    log, told = _log(witness, device)
    kept = [told.ref]
    if log.running < kind:  # 1. and 2.
        kept.append(_command(witness, device, kind))
    with around():
        newest, ref = _watched(witness, device, kind, every_s, on_progress, cancel)  # 3.
    return Answer(_readings(newest, item), (*kept, ref))  # 4.


def _watched(
    witness: Witness,
    device: str,
    kind: int,
    every_s: float,
    on_progress: OnProgress | None,
    cancel: threading.Event | None,
) -> tuple[Entry, EvidenceRef]:
    """Ask the log until no test runs; return its newest entry. Raises HarnessError as `run`."""
    deadline = time.monotonic() + MOST_S[kind]
    waiting = cancel or threading.Event()
    log, told = _log(witness, device)
    while log.running:
        if waiting.wait(every_s) or time.monotonic() > deadline:
            how = "was cancelled" if waiting.is_set() else "hung and was aborted"
            _command(witness, device, _ABORT)
            raise HarnessError(f"{witness.host.name}: the self-test of {device} {how}")
        log, told = _log(witness, device)
        if on_progress:
            on_progress(f"self-test of {device}: {log.done_pct} %")
    if not log.entries:
        raise HarnessError(f"{witness.host.name}: {device} holds no self-test after one has run")
    return log.entries[0], told.ref


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
    told = witness.ask(as_root(witness.host, argv), timeout_s=_ASK_S, env=PLAIN)
    return nvme_selftest.self_test_log(told.stdout), told


def _command(witness: Witness, device: str, code: int) -> EvidenceRef:
    """Start a self-test, or abort the one that runs."""
    argv = ("nvme", "device-self-test", f"/dev/{device}", "-s", f"{code:#x}")
    told = witness.ask(as_root(witness.host, argv), timeout_s=_ASK_S, env=PLAIN)
    if not told.result.ok:
        raise NotRunError(
            (f"{witness.host.name}: {told.result.describe()}",),
            hint="the drive may have no self-test (OACS bit 4), or nvme needs root",
        )
    return told.ref
