"""Runs a soak from its first window to its last, or goes on with the first that is not finished."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from kvgate.engine.countersign import Nights
from kvgate.engine.soak import END_BLOCK
from kvgate.engine.soak_faults import scheduled
from kvgate.engine.soak_station import station
from kvgate.engine.soak_window import Station, Taken, soak_window
from kvgate.engine.workspace import Setup, frozen_setup
from kvgate.errors import KvgateError, NotRunError, UsageError
from kvgate.faults.base import Injection, fault_named
from kvgate.model.quantity import Quantity
from kvgate.model.record import ALL_HOSTS, Measurement, Reading
from kvgate.spec.workload import SoakWorkload
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter
from kvgate.telemetry.channel import Settings
from kvgate.telemetry.watching import Watching
from kvgate.transport.connect import Connections
from kvgate.witness import Witness


class OnProgress(Protocol):
    """Is told what goes on, and what is awaited."""

    def __call__(self, text: str, awaits: str = "") -> None:
        """Show `text`."""
        ...


def soak(path: Path, gate: str, *, stop: threading.Event, on_progress: OnProgress) -> bool:
    """Soak for `gate` of the run at `path`; return whether it came to its end.

    1. take the run's lock and its frozen plan; 2. start a sampler on every host; 3. start engines
    and fio's file on every serving host, and warm the tier up; 4. window by window, each a
    measurement block, skip what is finished, load, break, repair, record; 5. stop everything;
    6. record the end. Setting `stop` ends it in order after 4, to be resumed.

    Raises RepairError where a fault can't prove its repair, and other KvgateErrors where what it
    needs is lost. Requirements that are not met are recorded as ``soak.refused``, and end it.
    """
    setup = frozen_setup(RunReader(path))  # 1
    load = setup.plan.value.workloads.soak
    if load is None:
        raise UsageError(f"plan '{setup.plan.value.plan}' has no workloads.soak: nothing to do")
    with RunWriter.open(path) as run, contextlib.ExitStack() as opened:
        running = Soak(
            run=run,
            setup=setup,
            load=load,
            gate=gate,
            stop=stop,
            on_progress=on_progress,
            opened=opened,
        )
        try:
            return running.to_its_end()
        except NotRunError as err:
            running.refuse(err.reasons)
            return True
        except KvgateError as err:
            run.event("note", text=f"the soak broke off: {err.message}")
            raise


def window_key(number: int) -> str:
    """Return the key of a window's block; the first window is 1."""
    return f"soak/window={number:05d}"


def window_count(load: SoakWorkload) -> int:
    """Return how many whole windows the soak's duration holds, at least one."""
    return max(1, int(load.duration.base / load.window.base))


@dataclasses.dataclass(slots=True, kw_only=True)
class Soak:
    """A soak under way."""

    run: RunWriter
    setup: Setup
    load: SoakWorkload
    gate: str
    stop: threading.Event
    on_progress: OnProgress
    opened: contextlib.ExitStack  # what is stopped at the end, in reverse order

    def to_its_end(self) -> bool:
        """Do steps 2 to 6; see `soak`."""
        for fault in self.load.faults:
            fault_named(fault.fault)  # a misspelt one is refused before anything is loaded
        self._require_hosts_to_load()
        windows = window_count(self.load)
        left = [n for n in range(1, windows + 1) if window_key(n) not in self.run.finished_blocks()]
        if left:
            with self._child("soak: windows and their engines"), self.opened:
                ways = self.opened.enter_context(
                    Connections(self.setup.inventory.value, self.setup.recordings)
                )
                watching = self._sample(ways)  # 2
                at = self._stations(ways)  # 3
                for each in at:  # their engines' URLs are the same for the whole soak
                    watching.scrape(each.name, "soak", f"{each.engine.base_url}/metrics")
                nights = Nights(self.run, self.setup.plan.value)
                for number in left:
                    nights.passed()
                    if self.stop.is_set() or not self._window(number, windows, at, watching):  # 4
                        break
        if any(window_key(n) not in self.run.finished_blocks() for n in left):
            self.run.event("note", text="the soak was told to stop; it can be resumed")
            return False
        self._end(
            [
                Taken(
                    host=ALL_HOSTS,
                    phase="steady_state",
                    reading=Reading(name="soak.windows", value=Quantity.of(windows, "")),
                )
            ]
        )  # 6
        return True

    def _require_hosts_to_load(self) -> None:
        """Raise NotRunError for recorded hosts: a soak is what becomes of hosts under load."""
        hosts = self.setup.inventory.value.hosts.values()
        if recorded := [host.name for host in hosts if host.transport == "recorded"]:
            raise NotRunError(
                (f"a soak is time under load, which no recording has: {', '.join(recorded)}",),
                hint="what the soak found is in the run that was recorded",
            )

    def refuse(self, reasons: Sequence[str]) -> None:
        """Record why the soak can't be run; the gate's test says so for its criteria."""
        self._end(
            [
                Taken(
                    host=ALL_HOSTS,
                    phase="steady_state",
                    labels={"number": str(number)},
                    reading=Reading(name="soak.refused", value=reason),
                )
                for number, reason in enumerate(reasons, 1)
            ]
        )

    @property
    def _deadline_s(self) -> float:
        """Return when whatever was started on a host ends there by itself, at the latest."""
        return 2 * self.load.duration.to("s") + 600

    def _stations(self, ways: Connections) -> list[Station]:
        """Return every serving host, ready; raises NotRunError with the reasons of all of them."""
        found: list[Station] = []
        reasons: list[str] = []
        for host in self.setup.inventory.value.with_role("serving"):
            self.on_progress(f"making {host.name} ready for the soak", "its engine and fio's file")
            witness = Witness(host, ways.to(host), self.run.evidence)
            try:
                found.append(
                    station(
                        witness,
                        self.load,
                        seed=self.setup.plan.value.seed,
                        opened=self.opened,
                        deadline_s=self._deadline_s,
                        stop=self.stop,
                    )
                )
            except NotRunError as err:
                reasons += err.reasons
        if reasons or not found:
            raise NotRunError(tuple(reasons) or ("no host has the role serving",))
        return found

    def _sample(self, ways: Connections) -> Watching:
        hosts = self.setup.inventory.value.with_role("all")
        settings = Settings(every_s=self.load.sample_every.to("s"), deadline_s=self._deadline_s)
        watching = Watching(
            self.run.path,
            [ways.to(host) for host in hosts],
            journal=self.run.event,
            settings=settings,
            settings_of={host.name: settings.of(host) for host in hosts},
        )
        return self.opened.enter_context(watching)

    def _window(self, number: int, windows: int, at: Sequence[Station], watching: Watching) -> bool:
        """Soak one window; return whether it is whole. One that is not is discarded."""
        key = window_key(number)
        due = scheduled(self.load.faults, number - 1, self.load.window.to("s"))
        awaits = f"its end, and {due[0].fault.fault}" if due else "its end"
        self.on_progress(f"window {number} of {windows}", awaits)
        counts = watching.counts()
        self.run.begin_block(key)
        one = functools.partial(
            soak_window, load=self.load, due=due, stop=self.stop, journal=self._journal
        )
        try:
            with ThreadPoolExecutor(len(at)) as pool:
                taken = [each for found in pool.map(one, at) for each in found]
        except BaseException as err:
            self.run.discard_block(key, f"{type(err).__name__}: {err}")
            if self.stop.is_set() and isinstance(err, KvgateError):
                return False
            raise
        if self.stop.is_set():
            self.run.discard_block(key, "the soak was told to stop in mid-window")
            return False
        taken += [_samples(host, n - counts[host]) for host, n in watching.counts().items()]
        self._record(key, taken, window=str(number))
        self.run.end_block(key)
        self.on_progress(f"window {number} of {windows}, {_summary(taken)}")
        return True

    def _journal(self, kind: str, injection: Injection) -> None:
        self.run.event(kind, fault=injection.fault, host=injection.host)
        self.on_progress(f"{injection.fault} on {injection.host}: {kind.removeprefix('fault_')}")

    def _record(self, block: str, taken: Sequence[Taken], **labels: str) -> None:
        now = datetime.datetime.now(datetime.UTC)
        for each in taken:
            self.run.measure(
                Measurement(
                    name=each.reading.name,
                    value=each.reading.value,
                    host=each.host,
                    phase=each.phase,
                    taken_at=now,
                    item=each.reading.item,
                    labels=each.labels | labels,
                    evidence=each.evidence,
                    problem=each.reading.problem,
                    block=block,
                )
            )

    def _end(self, taken: Sequence[Taken]) -> None:
        self.run.begin_block(END_BLOCK)
        self._record(END_BLOCK, taken)
        self.run.end_block(END_BLOCK)

    @contextlib.contextmanager
    def _child(self, what: str) -> Iterator[None]:
        self.run.event("child_begin", id=f"{self.gate}.soak", what=what, host=ALL_HOSTS)
        try:
            yield
        finally:
            self.run.event("child_end", id=f"{self.gate}.soak")


def _samples(host: str, count: int) -> Taken:
    reading = Reading(name="soak.telemetry_samples", value=Quantity.of(count, ""))
    return Taken(host=host, reading=reading, phase="steady_state")


def _summary(taken: Sequence[Taken]) -> str:
    """Return a window in a phrase: "ttft p50 31 ms, 214 answers, 0 errors"."""
    totals = {"soak.answered": 0.0, "soak.request_errors": 0.0}
    ttft = []
    for each in taken:
        value = each.reading.value
        if isinstance(value, Quantity) and each.reading.name in totals:
            totals[each.reading.name] += value.to("")
        if isinstance(value, Quantity) and each.reading.name == "soak.ttft_p50":
            ttft.append(value.to("ms"))
    shown = f"ttft p50 {max(ttft):.0f} ms, " if ttft else ""
    return (
        f"{shown}{totals['soak.answered']:.0f} answers, {totals['soak.request_errors']:.0f} errors"
    )
