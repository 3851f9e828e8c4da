"""Sorts a window's requests by what the soak was doing to them: nothing, a fault, or recovering."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from kvgate.judge.percentile import SampleTooSmallError, percentile
from kvgate.load.rows import Row
from kvgate.model.quantity import Quantity
from kvgate.model.record import Reading

NORMAL, FAULT, RECOVERY = "normal", "fault", "recovery"
PHASES = {NORMAL: "steady_state", FAULT: "fault", RECOVERY: "recovery"}
"""State of the soak → phase of what is measured in it."""

MARGIN_S = 0.5
"""A fault's span is widened by this much: client and faults keep time by clocks read apart."""


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    """A fault from its begin to its proven repair, in seconds of the window."""

    begun_s: float
    repaired_s: float


def state_of(row: Row, faults: Iterable[Span]) -> str:
    """Return ``fault`` for a request under way during one, ``recovery`` after it, else ``normal``.

    `row.sent_s` counts from the start of the window, as the spans do. Recovery lasts to the end
    of the window.
    """
    after = False
    for fault in faults:
        begun_s, repaired_s = fault.begun_s - MARGIN_S, fault.repaired_s + MARGIN_S
        if row.sent_s <= repaired_s and row.sent_s + row.end_s >= begun_s:
            return FAULT
        after = after or row.sent_s > repaired_s
    return RECOVERY if after else NORMAL


def window_state(faults: Sequence[Span]) -> str:
    """Return the state of a window as a whole: ``fault`` where it saw one."""
    return FAULT if faults else NORMAL


def request_readings(
    rows: Sequence[Row], faults: Sequence[Span]
) -> list[tuple[str, tuple[Reading, ...]]]:
    """Return (state, readings) of a window's requests.

    Counts stand for each state (fault and recovery only where there was a fault); the answers
    and their median TTFT stand for the window as a whole, under its state.
    """
    states = (NORMAL, FAULT, RECOVERY) if faults else (NORMAL,)
    sorted_rows: dict[str, list[Row]] = {state: [] for state in states}
    for row in rows:
        sorted_rows[state_of(row, faults)].append(row)
    found = [(state, _counts(state, sorted_rows[state])) for state in states]
    answered = sum(row.failure is None for row in rows)
    whole = Reading(name="soak.answered", value=Quantity.of(answered, ""))
    return [*found, (window_state(faults), (whole, _ttft(rows, bool(faults))))]


def _counts(state: str, rows: Sequence[Row]) -> tuple[Reading, ...]:
    """Return requests and errors of one state; no request in a recovery proves no recovery."""
    failed = sum(row.failure is not None for row in rows)
    errors = Reading(name="soak.request_errors", value=Quantity.of(failed, ""))
    if state == RECOVERY and not rows:
        errors = Reading(name=errors.name, value=None, problem="no request was sent after it")
    return (Reading(name="soak.requests", value=Quantity.of(len(rows), "")), errors)


def _ttft(rows: Sequence[Row], faulty: bool) -> Reading:
    """Return the median TTFT; survivors of errors are no sample, but for a window with a fault."""
    name = "soak.ttft_p50"
    failed = [row for row in rows if row.failure is not None]
    if failed and not faulty:
        problem = f"{len(failed)} of {len(rows)} requests failed; the first: {failed[0].error}"
        return Reading(name=name, value=None, problem=problem)
    values = [row.ttft_s for row in rows if row.failure is None and row.ttft_s is not None]
    try:
        return Reading(name=name, value=Quantity.of(round(percentile(values, 50), 6), "s"))
    except SampleTooSmallError as err:
        return Reading(name=name, value=None, problem=err.message)
