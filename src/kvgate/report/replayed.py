"""Draws what replays restored: a session's time, and bytes a second against the path's ceiling."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from kvgate.model.record import Measurement
from kvgate.report import bars
from kvgate.report.series import Grouped, grouped
from kvgate.report.views import Chart

TIME, RATE = "replay.restore_time", "replay.restore_bw"
_TITLES = {
    TIME: "A session's restore time by concurrency and arm, replay's p50",
    RATE: "Bytes restored a second by concurrency and arm, replay",
}
_NONE = bars.Ceilings({}, {})


def by_path(taken: Sequence[Measurement]) -> tuple[str, ...]:
    """Return the labels that tell the paths of replays apart: the arm, and the host of several."""
    several = len({each.host for each in taken if each.name in _TITLES}) > 1
    return ("arm", "host") if several else ("arm",)


def charts(
    gate: str, taken: Sequence[Measurement], ceilings: bars.Ceilings | None
) -> Iterator[Chart]:
    """Yield both charts where a run has replayed; `ceilings` are those of reads, `by_path`."""
    for measure, title in _TITLES.items():
        data = grouped(taken, measure, "concurrency", "reads", *by_path(taken))
        name = f"{gate}-{measure}".lower().replace(".", "-").replace("_", "-")
        if not data.groups:
            if data.missing:
                why = f"{data.missing} measurements of {measure} without a value"
                yield Chart(name, title, f"Nothing to draw: {why}.", None)
            continue
        most = (ceilings or _NONE) if measure == RATE else None
        yield bars.draw(
            name, title, _named(data), {}, what=data.rounds, ceilings=most, column="Sessions"
        )


def _named(data: Grouped) -> Grouped:
    """Return `data` with concurrency and way to read as one name: ``16 at once, serial``."""
    groups = tuple(
        dataclasses.replace(group, key=(f"{group.key[0]} at once, {group.key[1]}", *group.key[2:]))
        for group in data.groups
    )
    return dataclasses.replace(data, groups=groups)
