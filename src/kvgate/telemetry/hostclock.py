"""A host's clock against the controller's, by questions over the sampler's own channel.

As NTP has it (RFC 5905, sections 8 and 10): of several questions the quickest counts, and the
host's answer lies somewhere within its round trip.
"""

from __future__ import annotations

import dataclasses
import itertools
import threading
import time
from collections.abc import Callable

QUESTIONS = 6
"""Asked one after the other, each time."""

AGAIN_S = 600.0
LATE_S = 10.0
"""A question that is not answered by then is given up."""


class ControllerClock:
    """UTC in ms that never steps: the clock at the beginning, and monotonic time since."""

    def __init__(self) -> None:
        self._utc_ms = time.time_ns() / 1e6
        self._mono_ns = time.monotonic_ns()

    def ms(self) -> float:
        """Return the time now, in ms since 1970 UTC."""
        return self._utc_ms + (time.monotonic_ns() - self._mono_ns) / 1e6


@dataclasses.dataclass(frozen=True, slots=True)
class Reckoned:
    """What some questions told: the host's clock less ours, the round trip, and its boot (µs, ms).

    ``boot_ms`` is when the host's uptime was 0 by the controller's clock. The offset is known to
    half the round trip.
    """

    offset_us: int
    round_trip_us: int
    boot_ms: float


class Reckoning:
    """Asks a host for the time now and then; `say` sends a question, `told` takes what came out."""

    def __init__(
        self,
        clock: ControllerClock,
        say: Callable[[str], None],
        told: Callable[[Reckoned], None],
    ) -> None:
        self._clock, self._say, self._told = clock, say, told
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._asked: tuple[int, float] | None = None
        self._left = 0
        self._best: Reckoned | None = None
        self._due = 0.0

    def tend(self) -> None:
        """Begin where it is time; give up what is not answered."""
        now = time.monotonic()
        with self._lock:
            late = self._asked is not None and self._clock.ms() - self._asked[1] > 1000 * LATE_S
            if now < self._due and not late:
                return
            self._due, self._left, self._best = now + AGAIN_S, QUESTIONS, None
        self._ask()

    def answered(self, number: int, uptime_ns: int, clock_ns: int) -> None:
        """Take an answer, and ask again until it was enough."""
        came = self._clock.ms()
        with self._lock:
            if self._asked is None or self._asked[0] != number:
                return  # late, or to nobody's question
            went = self._asked[1]
            self._asked = None
            middle, trip_us = (went + came) / 2, int((came - went) * 1000)
            if self._best is None or trip_us < self._best.round_trip_us:
                offset_us = round(clock_ns / 1000 - middle * 1000)
                self._best = Reckoned(offset_us, trip_us, middle - uptime_ns / 1e6)
            self._left -= 1
            best, left = self._best, self._left
        if left > 0:
            self._ask()
        else:
            self._told(best)

    def _ask(self) -> None:
        number = next(self._numbers)
        with self._lock:
            self._asked = (number, self._clock.ms())
        self._say(f"q {number}")
