"""Watches the paths of one subsystem on one host for a block, and answers what they did when."""

from __future__ import annotations

import threading
import time
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Self

from kvgate.errors import HarnessError, KvgateError
from kvgate.model.record import EvidenceRef
from kvgate.telemetry import paths_script
from kvgate.telemetry.paths_seen import LINE_CAP_BYTES, Follower, Moment, PathId
from kvgate.transport.base import HostProcess
from kvgate.witness import Witness, as_evidence

SILENT_S = 20.0
"""Without a line for so long the watcher is silent: it prints two a second."""

_LOOK_S = 0.05


class PathWatch:
    """The paths of a subsystem from ``with`` to its end; ``moments`` are what was seen, in order.

    Times are the host's uptime. Waiting raises HarnessError where the watcher ended or fell
    silent: what was not seen is not known.
    """

    def __init__(
        self,
        witness: Witness,
        nqn: str,
        namespace: int = 1,
        *,
        every_s: float = 0.1,
        deadline_s: float = 3600,
        sys: str = "/sys",
        proc: str = "/proc",
    ) -> None:
        self.host = witness.host.name
        self.nqn = nqn
        self.every_s = every_s
        self.moments: list[Moment] = []
        self.evidence: tuple[EvidenceRef, ...] = ()
        self._witness = witness
        self._argv = paths_script.command(nqn, namespace, every_s=every_s, sys=sys, proc=proc)
        self._deadline_s = deadline_s
        self._process: HostProcess | None = None
        self._held = b""
        self._follower = Follower()
        self._heard = time.monotonic()
        self._ahead_s: float | None = None  # of our monotonic clock's time, the host's uptime
        self._trouble: KvgateError | None = None
        self._came = threading.Condition()

    def __enter__(self) -> Self:
        self._heard = time.monotonic()
        self._process = self._witness.transport.start(
            self._argv, deadline_s=self._deadline_s, on_stdout=self._take
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        if self._process is None:
            return
        try:
            result = self._process.stop(grace_s=1.0)
            self.evidence = (self._witness.keep(as_evidence(result)),)
        except KvgateError:
            if error is None:
                raise

    def now_s(self) -> float:
        """Return the host's uptime now, by the line that came the fastest."""
        with self._came:
            if self._ahead_s is None:
                raise HarnessError(f"{self.host}: the watcher of paths has not said anything yet")
            return time.monotonic() + self._ahead_s

    def latest(self) -> Moment:
        """Return the last moment that was seen; raises HarnessError where none was."""
        with self._came:
            if not self.moments:
                raise HarnessError(f"{self.host}: the watcher of paths has not said anything yet")
            return self.moments[-1]

    def since(self, uptime_s: float) -> tuple[Moment, ...]:
        """Return what was seen at or after `uptime_s`."""
        with self._came:
            return tuple(each for each in self.moments if each.uptime_s >= uptime_s)

    def wait(self, holds: Callable[[Moment], bool], within_s: float) -> Moment | None:
        """Return the first moment from now on (the latest, too) for which `holds`; None: none was.

        Raises HarnessError where the watcher ends, is silent, or says what is none of its lines.
        """
        until = time.monotonic() + within_s
        with self._came:
            seen = max(len(self.moments) - 1, 0)
            while True:
                self._well()
                for each in self.moments[seen:]:
                    if holds(each):
                        return each
                seen = len(self.moments)
                if time.monotonic() >= until:
                    return None
                self._came.wait(_LOOK_S)

    def check(self) -> None:
        """Raise HarnessError where the watcher ended, is silent or says what is no line of its."""
        with self._came:
            self._well()

    def _well(self) -> None:
        if self._trouble is not None:
            raise self._trouble
        silent_s = time.monotonic() - self._heard
        if self._process is None or self._process.poll() or silent_s > SILENT_S:
            raise HarnessError(
                f"{self.host}: the watcher of the paths of {self.nqn} "
                + ("is silent" if silent_s > SILENT_S else "ended"),
                hint="nothing can be said of the paths: see the host, and start again",
            )

    def _take(self, piece: bytes) -> None:
        """Take bytes as they come, in the transport's thread, which no error may leave."""
        arrived = time.monotonic()
        with self._came:
            *lines, self._held = (self._held + piece).split(b"\n")
            try:
                for line in lines:
                    self._note(self._follower.moment(line), arrived)
                if len(self._held) > LINE_CAP_BYTES:
                    raise HarnessError(f"{self.host}: the watcher of paths prints without end")
            except KvgateError as err:
                self._trouble = self._trouble or err
            self._came.notify_all()

    def _note(self, seen: Moment, arrived: float) -> None:
        self._heard = arrived
        ahead = seen.uptime_s - arrived
        self._ahead_s = ahead if self._ahead_s is None else max(self._ahead_s, ahead)
        self.moments.append(seen)


def away(now: Moment, before: Moment) -> frozenset[PathId]:
    """Return the paths of `before` that are gone now, or in a worse state than they were."""
    return frozenset(
        name
        for name, was in before.paths.items()
        if (state := now.paths.get(name)) is None or not (state.best or state.told == was.told)
    )


def departures(
    moments: Iterable[Moment], before: Moment, paths: frozenset[PathId]
) -> Iterator[tuple[PathId, float]]:
    """Yield (path, uptime) of each time that one of `paths` left the state it had `before`."""
    gone: frozenset[PathId] = frozenset()
    for each in moments:
        now = away(each, before) & paths
        yield from ((path, each.uptime_s) for path in sorted(now - gone))
        gone = now
