"""Soaks made up: noise as services have it, faults that are part of the plan, and what is planted.

72 h in windows of 10 minutes. The noise of each series: AR(1) of its own φ from 0.3 to 0.9 with
steps of Student's t with 3 degrees of freedom, an outlier now and then, and a daily cycle.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable

from kvgate.judge.counted import clock, flapping, stuck
from kvgate.judge.peers import slow
from kvgate.judge.soaked import courses
from kvgate.judge.windows import Broken, Judged, Period, Series, Worse
from kvgate.model.verdict import Verdict

HOUR, WIDTH = 3600.0, 600.0
WINDOWS = 432
TIMES = tuple((number + 0.5) * WIDTH for number in range(WINDOWS))
PERIOD = Period(
    0.0,
    WINDOWS * WIDTH,
    WIDTH,
    faults=tuple(Broken(at * HOUR, at * HOUR + 300) for at in (9, 21, 33, 50, 61)),
    recovery=900.0,
)
SPREAD, DAILY = 0.03, 0.05
Values = list[float | None]


def seeded(text: str) -> random.Random:
    return random.Random(text)  # noqa: S311  a simulation


def noise(rng: random.Random, spread: float = SPREAD, phi: float | None = None) -> list[float]:
    """Return shares around 0 whose deviation is about `spread`, each like the one before."""
    phi = rng.uniform(0.3, 0.9) if phi is None else phi
    state, made = 0.0, []
    for _ in range(50 + WINDOWS):
        chi = rng.gammavariate(1.5, 2.0) / 3
        heavy = rng.gauss(0, 1) / math.sqrt(chi) / math.sqrt(3)
        state = phi * state + math.sqrt(1 - phi**2) * spread * heavy
        made.append(state + (rng.random() < 0.01) * rng.expovariate(1 / 0.3))
    return made[50:]


def service(
    rng: random.Random, name: str, level: float, worse: Worse, spread: float = SPREAD
) -> Series:
    """Return a series that is healthy: noise and day, three times as high while it is broken."""
    phase, shares = rng.uniform(0, 2 * math.pi), noise(rng, spread)
    values: Values = []
    for at, share in zip(TIMES, shares, strict=True):
        day = DAILY * math.sin(2 * math.pi * at / 86_400 + phase)
        values.append(level * (1 + day + share) * (1 if PERIOD.counts(at) else 3))
    values[rng.randrange(WINDOWS)] = None
    return Series(name, TIMES, tuple(values), worse)


@dataclasses.dataclass(frozen=True)
class Made:
    """All series of one soak, by what they are judged for."""

    services: tuple[Series, ...]
    drives: tuple[Series, ...]
    port: Series
    counter: Series
    clock: Series

    def judged(self) -> list[Judged]:
        return [
            *courses(self.services, PERIOD),
            *slow(self.drives, PERIOD),
            flapping(self.port, PERIOD),
            stuck(self.counter, PERIOD),
            clock(self.clock, PERIOD),
        ]

    def failed(self) -> set[str]:
        return {each.name for each in self.judged() if each.verdict is Verdict.FAIL}


def healthy(rng: random.Random, spread: float = SPREAD) -> Made:
    """Return a soak that has nothing but noise and its own faults."""
    services = (
        service(rng, "ttft p99", 0.8, Worse.UP, spread),
        service(rng, "itl p99", 0.03, Worse.UP, spread),
        service(rng, "throughput", 9e9, Worse.DOWN, spread),
        service(rng, "memory", 4e10, Worse.UP, spread),
        service(rng, "temperature", 60.0, Worse.EITHER, spread),
    )
    together = noise(rng)
    drives = tuple(
        Series(
            f"drive {number}",
            TIMES,
            tuple(
                level * (1 + both + own)
                for both, own in zip(together, noise(rng, spread), strict=True)
            ),
            Worse.UP,
        )
        for number in range(8)
        for level in [2e-4 * (1 + rng.gauss(0, 0.015))]
    )
    total, reads = 0.0, []
    for share in noise(rng, 0.2):
        total += max(1.0, 1e6 * (1 + share))
        reads.append(total)
    states = tuple(1.0 if PERIOD.counts(at) else float(rng.random() < 0.5) for at in TIMES)
    drift, offset = rng.gauss(0, 2e-5), rng.gauss(0, 1)
    offsets = tuple(offset + drift * at + rng.gauss(0, 0.002) for at in TIMES)
    return Made(
        services,
        drives,
        Series("port", TIMES, states),
        Series("counter", TIMES, tuple(reads), counter=True),
        Series("clock", TIMES, offsets),
    )


def _changed(series: Series, change: Callable[[float, float], float]) -> Series:
    values = tuple(
        None if value is None else change(at, value)
        for at, value in zip(series.times, series.values, strict=True)
    )
    return dataclasses.replace(series, values=values)


def leak(made: Made, rng: random.Random) -> tuple[Made, str]:
    """Let memory grow by 1 % of what it began with an hour."""
    *others, memory, warm = made.services
    grown = _changed(memory, lambda at, value: value + 4e10 * 0.01 * at / HOUR)
    return dataclasses.replace(made, services=(*others, grown, warm)), "memory"


def stepped(made: Made, rng: random.Random) -> tuple[Made, str]:
    """Raise latency by 15 % at once, somewhere in the middle three fifths."""
    when = rng.uniform(0.2, 0.8) * TIMES[-1]
    first = _changed(made.services[0], lambda at, value: value * (1.15 if at >= when else 1))
    return dataclasses.replace(made, services=(first, *made.services[1:])), "ttft p99"


def slow_drive(made: Made, rng: random.Random) -> tuple[Made, str]:
    """Let one drive take a quarter longer for everything."""
    which = rng.randrange(8)
    drives = list(made.drives)
    drives[which] = _changed(drives[which], lambda _, value: value * 1.25)
    return dataclasses.replace(made, drives=tuple(drives)), f"drive {which}"


def flapping_port(made: Made, rng: random.Random) -> tuple[Made, str]:
    """Take a port down in three windows that no fault explains."""
    quiet = [at for at in TIMES if PERIOD.counts(at - 2 * WIDTH) and PERIOD.counts(at + 2 * WIDTH)]
    down = set(rng.sample(quiet[1:-1], 3))
    port = _changed(made.port, lambda at, value: 0.0 if at in down else value)
    return dataclasses.replace(made, port=port), "port"


def stuck_counter(made: Made, rng: random.Random) -> tuple[Made, str]:
    """Hold a counter where it is for three hours."""
    start = rng.uniform(0, TIMES[-1] - 3 * HOUR)
    held = next(
        value
        for at, value in zip(TIMES, made.counter.values, strict=True)
        if at >= start and value is not None
    )
    counter = _changed(
        made.counter, lambda at, value: held if start <= at <= start + 3 * HOUR else value
    )
    return dataclasses.replace(made, counter=counter), "counter"


def clock_step(made: Made, rng: random.Random) -> tuple[Made, str]:
    """Set a host's clock by 2 s, either way."""
    when, by = rng.uniform(0.05, 0.95) * TIMES[-1], rng.choice((-2.0, 2.0))
    steps = _changed(made.clock, lambda at, value: value + (by if at >= when else 0))
    return dataclasses.replace(made, clock=steps), "clock"


PLANTED = (leak, stepped, slow_drive, flapping_port, stuck_counter, clock_step)
