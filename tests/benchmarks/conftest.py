"""Benchmarks side by side: ours and a peer take turns in the same run, and the ratio is printed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator

import pytest

LINES = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LINES] = []


@pytest.fixture
def told(request: pytest.FixtureRequest) -> list[str]:
    """Return the lines that are shown at the end, to add to."""
    return request.config.stash[LINES]


@pytest.fixture
def held(told: list[str]) -> Iterator[Callable[..., None]]:
    """Return what holds a value against its bar and tells it in a line; the test fails at its end.

    ``held(what, value, bar, detail, most=True)`` where the bar is the most that may be.
    """
    missed: list[str] = []

    def judge(what: str, value: float, bar: float, detail: str, *, most: bool = False) -> None:
        met = value <= bar if most else value >= bar
        line = f"{what}: {value:,.2f} ({detail}); bar {'<=' if most else '>='} {bar:g}: "
        told.append(line + ("met" if met else "MISSED"))
        if not met:
            missed.append(told[-1])

    yield judge
    assert not missed, "\n".join(missed)


@pytest.fixture
def beside(benchmark: pytest.FixtureRequest, request: pytest.FixtureRequest) -> Callable[..., None]:
    """Return a function that times `ours` and `peer` in turns and prints rates and their ratio.

    `count` things are done by `ours` in a call and `peer_count` by `peer`; `unit` names them.
    """

    def run(
        what: str,
        ours: Callable[[], object],
        peer_name: str,
        peer: Callable[[], object],
        *,
        count: float,
        unit: str,
        peer_count: float | None = None,
        rounds: int = 5,
        bar: str = "",
    ) -> None:
        peer_s: list[float] = []

        def turn() -> None:
            start = time.perf_counter()
            peer()
            peer_s.append(time.perf_counter() - start)

        benchmark.pedantic(ours, setup=turn, rounds=rounds)
        ours_s = benchmark.stats.stats.median
        rate, peer_rate = count / ours_s, (peer_count or count) / statistics.median(peer_s)
        benchmark.extra_info.update({"rate": rate, "peer": peer_name, "peer_rate": peer_rate})
        request.config.stash[LINES].append(
            f"{what}: {rate:,.0f} {unit}/s ({count:,.0f} in {ours_s:.2f} s"
            f"{', bar: ' + bar if bar else ''}) | {peer_name}: {peer_rate:,.0f} {unit}/s"
            f" | ratio {rate / peer_rate:.2f}"
        )

    return run


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if config.stash[LINES]:
        terminalreporter.section("side by side (medians of turns)")
        for line in config.stash[LINES]:
            terminalreporter.write_line(line)
