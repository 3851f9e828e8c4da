"""Injects a window's scheduled faults into one host's engine, and says how each went."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Sequence

from kvgate.engine.soak_states import Span
from kvgate.errors import HarnessError, RepairError
from kvgate.faults.base import Engine, Injection, Target, fault_named
from kvgate.model.quantity import Quantity
from kvgate.model.record import Evidence, EvidenceRef, Reading
from kvgate.spec.workload import SoakFault
from kvgate.witness import Witness

Journal = Callable[[str, Injection], None]
"""Told ``fault_begin``, ``fault_proven`` and ``fault_repaired`` as they happen."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """A fault of this window, `offset_s` after the window's start."""

    fault: SoakFault
    offset_s: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Suffered:
    """A fault that was injected: its readings and, once begun, when it was under way."""

    name: str
    readings: tuple[Reading, ...]
    span: Span | None
    evidence: tuple[EvidenceRef, ...]  # what its host answered meanwhile


def scheduled(faults: Sequence[SoakFault], window: int, window_s: float) -> tuple[Scheduled, ...]:
    """Return the faults that fall into `window` (the first is 0), in order."""
    start_s = window * window_s
    due = [
        Scheduled(fault=fault, offset_s=fault.at.to("s") - start_s)
        for fault in faults
        if start_s <= fault.at.to("s") < start_s + window_s
    ]
    return tuple(sorted(due, key=lambda each: each.offset_s))


def suffer(
    due: Sequence[Scheduled],
    witness: Witness,
    engine: Engine,
    *,
    origin: float,
    stop: threading.Event,
    journal: Journal,
) -> list[Suffered]:
    """Inject each fault at its time (`origin` is the window's start, monotonic) and undo it.

    Returns early once `stop` is set. Raises RepairError where a repair is not proven: then the
    bench is not as it was found, and the soak must not go on.
    """
    done = []
    for each in due:
        if stop.wait(max(0.0, origin + each.offset_s - time.monotonic())):
            break
        done.append(_inject(each.fault, witness, engine, origin, journal))
    return done


def _inject(
    fault: SoakFault, witness: Witness, engine: Engine, origin: float, journal: Journal
) -> Suffered:
    """Inject one fault and undo it at once; the time between is the outage."""
    moments: dict[str, float] = {}
    evidence: list[EvidenceRef] = []

    def keep(piece: Evidence) -> EvidenceRef:
        evidence.append(witness.keep(piece))
        return evidence[-1]

    def note(kind: str, injection: Injection) -> None:
        moments[kind] = time.monotonic() - origin
        journal(kind, injection)

    problem = ""
    try:
        made = fault_named(fault.fault).inject
        asked = dataclasses.replace(witness, store=keep)
        with made(asked, Target(engine=engine), fault.back_within.to("s"), note):
            pass
    except RepairError:
        raise
    except HarnessError as err:
        problem = err.message
    return Suffered(
        name=fault.fault,
        readings=_readings(moments, problem),
        span=_span(moments),
        evidence=tuple(evidence),
    )


def _readings(moments: dict[str, float], problem: str) -> tuple[Reading, ...]:
    """Return whether the fault was proven, and how long until its repair was."""
    proven, time_ = "soak.fault_proven", "soak.recovery_time"
    if problem or not {"fault_begin", "fault_proven", "fault_repaired"} <= moments.keys():
        why = problem or "the fault was not journalled from its begin to its repair"
        return tuple(Reading(name=name, value=None, problem=why) for name in (proven, time_))
    took_s = moments["fault_repaired"] - moments["fault_begin"]
    return (
        Reading(name=proven, value=True),
        Reading(name=time_, value=Quantity.of(round(took_s, 3), "s")),
    )


def _span(moments: dict[str, float]) -> Span | None:
    if "fault_begin" not in moments:
        return None
    return Span(moments["fault_begin"], moments.get("fault_repaired", moments["fault_begin"]))
