"""One window of the soak on one host: load, fio and the window's faults side by side, measured."""

from __future__ import annotations

import dataclasses
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from kvgate.engine.soak_faults import Journal, Scheduled, Suffered, suffer
from kvgate.engine.soak_states import MARGIN_S, PHASES, request_readings, window_state
from kvgate.errors import KvgateError
from kvgate.load.client import Endpoint
from kvgate.load.loop import closed_loop
from kvgate.load.rows import LoadResult, Request, Row, as_evidence
from kvgate.model.quantity import Quantity
from kvgate.model.record import EvidenceRef, Reading
from kvgate.serving.arms import RunningEngine
from kvgate.spec.workload import SoakWorkload
from kvgate.witness import Answer, Witness

REQUEST_TIMEOUT_S = 60.0

RECOVERY_WITHIN_S = 60.0
"""How long a window waits after its faults for requests to be answered again."""

FIO_READINGS = {
    "fio.read_clat_p99": "soak.fio_read_clat_p99",
    "fio.read_clat_p50": "soak.fio_read_clat_p50",
    "fio.read_bw": "soak.fio_read_bw",
    "fio.errors": "soak.fio_errors",
}
"""What of a fio run a window records, and as what."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """One reading of a window, with what it takes to make a measurement of it."""

    host: str
    reading: Reading
    phase: str
    labels: dict[str, str] = dataclasses.field(default_factory=dict)
    evidence: tuple[EvidenceRef, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Station:
    """A host under soak: its engine, its requests, and its fio (`fio` runs it for some seconds)."""

    witness: Witness
    engine: RunningEngine
    requests: Sequence[Request]
    fio: Callable[[float], Answer]

    @property
    def name(self) -> str:
        """Return the host's name."""
        return self.witness.host.name


def soak_window(
    station: Station,
    load: SoakWorkload,
    due: Sequence[Scheduled],
    *,
    stop: threading.Event,
    journal: Journal,
) -> list[Taken]:
    """Load `station` for a window and return what was measured; the window ends with its faults.

    A window with a fault lasts until the repair is proven and requests sent after it have been
    answered, so that nothing of a fault is left to the next one. Raises RepairError where the
    repair is not proven. What was measured before `stop` was set is no whole window: the caller
    discards it.
    """
    origin = time.monotonic()
    end = _End(load, origin, stop)
    with ThreadPoolExecutor(3, thread_name_prefix=f"soak-{station.name}") as pool:
        faults = pool.submit(
            suffer, due, station.witness, station.engine, origin=origin, stop=stop, journal=journal
        )
        faults.add_done_callback(end.repaired)
        fio = pool.submit(station.fio, load.window.to("s"))
        requests = pool.submit(_load, station, load, end)
        answered = _of_requests(station, requests.result(), faults.result())
        return [
            *answered,
            *_of_fio(station, fio, window_state([e.span for e in faults.result() if e.span])),
            *_of_faults(station, faults.result()),
            _time(station, time.monotonic() - origin, answered[0].evidence),
        ]


class _End:
    """Knows when a window is over: its time is up, and what its faults did is seen to its end."""

    def __init__(self, load: SoakWorkload, origin: float, stop: threading.Event) -> None:
        self._origin = origin
        self._until = origin + load.window.to("s")
        self._wanted = 2 * load.concurrency  # requests sent after a repair
        self._stop = stop
        self._repaired_s: float | None = None  # of the window; when all faults were over
        self._faulty = False
        self._after = 0

    def repaired(self, faults: Future[list[Suffered]]) -> None:
        """Note that all faults of the window are over, by repair or by an error."""
        self._faulty = faults.exception() is None and bool(faults.result())
        self._repaired_s = time.monotonic() - self._origin

    def row(self, row: Row) -> None:
        """Count the requests that were sent after the last repair."""
        repaired_s = self._repaired_s
        if repaired_s is not None and row.sent_s > repaired_s + MARGIN_S:
            self._after += 1

    def over(self) -> bool:
        """Tell whether no further request is to be sent."""
        now = time.monotonic()
        if self._stop.is_set() or now < self._until or self._repaired_s is None:
            return self._stop.is_set()
        late = now - self._origin - self._repaired_s > RECOVERY_WITHIN_S
        return not self._faulty or late or self._after >= self._wanted


def _load(station: Station, load: SoakWorkload, end: _End) -> LoadResult:
    """Send the host's requests round and round until the window is over."""
    engine = station.engine
    endpoint = Endpoint(base_url=engine.base_url, model=engine.model, timeout_s=REQUEST_TIMEOUT_S)
    return closed_loop(
        endpoint,
        itertools.cycle(station.requests),
        concurrency=load.concurrency,
        on_row=end.row,
        stop=end.over,
    )


def _of_requests(station: Station, result: LoadResult, suffered: Sequence[Suffered]) -> list[Taken]:
    rows = station.witness.keep(as_evidence(result, station.name))
    spans = [each.span for each in suffered if each.span is not None]
    return [
        Taken(
            host=station.name,
            reading=reading,
            phase=PHASES[state],
            labels={"state": state},
            evidence=(rows,),
        )
        for state, readings in request_readings(result.rows, spans)
        for reading in readings
    ]


def _of_fio(station: Station, fio: Future[Answer], state: str) -> list[Taken]:
    """Return fio's figures; a fio that could not be run is a problem of each, and no more."""
    try:
        answer = fio.result()
        problem = "" if answer.readings else "fio gave no figures"
    except KvgateError as err:
        answer, problem = Answer((), ()), err.message
    given = {each.name: each for each in answer.readings}
    found = []
    for name, ours in FIO_READINGS.items():
        if name in given:
            reading = dataclasses.replace(given[name], name=ours, item="")
        else:
            reading = Reading(name=ours, value=None, problem=problem or f"fio gave no {name}")
        found.append(
            Taken(
                host=station.name,
                reading=reading,
                phase="steady_state",
                labels={"state": state},
                evidence=answer.evidence,
            )
        )
    return found


def _of_faults(station: Station, suffered: Sequence[Suffered]) -> list[Taken]:
    return [
        Taken(
            host=station.name,
            reading=reading,
            phase="fault",
            labels={"fault": each.name, "number": str(number)},
            evidence=each.evidence,
        )
        for number, each in enumerate(suffered, 1)
        for reading in each.readings
    ]


def _time(station: Station, elapsed_s: float, rows: tuple[EvidenceRef, ...]) -> Taken:
    """Return how long the window really loaded the host, as its requests (`rows`) show."""
    value = Quantity.of(round(elapsed_s, 3), "s")
    return Taken(
        host=station.name,
        reading=Reading(name="soak.window_time", value=value),
        phase="steady_state",
        evidence=rows,
    )
