"""The picture of an assessment: the share of input tokens hit, by capacity."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from kvgate.kv.assess import INFINITE, Assessment
from kvgate.report.svg import Drawing, Scale, number

_WIDE, _HIGH = 640.0, 340.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, 610.0, 30.0, 292.0
_POINTS = 240


def by_capacity(found: Assessment) -> Markup:
    """Return the hit curve over capacity on a scale of decades, with the levels' sizes marked.

    A sample's curve has its interval as an area.
    """
    x, unit, by = _capacities(found)
    points = np.unique(np.geomspace(x.low, x.high, _POINTS))
    shares = [found.share_at(float(each) / by) for each in points]
    top = max([share + error for share, error in shares] + [0.05])
    y = Scale(0.0, min(1.0, np.ceil(top * 10 + 0.5) / 10), _BOTTOM, _TOP)
    drawing = Drawing(
        "hits", _WIDE, _HIGH, title="Hits by capacity", description=f"input tokens hit by {unit}"
    )
    _axes(drawing, x, y, unit)
    spots = [(x(at), y(share)) for at, (share, _) in zip(points, shares, strict=True)]
    if found.parts:
        high = [(x(at), y(s + e)) for at, (s, e) in zip(points, shares, strict=True)]
        low = [(x(at), y(max(0.0, s - e))) for at, (s, e) in zip(points, shares, strict=True)]
        drawing.area([*high, *reversed(low)], "s1 band-area")
    drawing.path(spots, "s1 stroked")
    _levels(drawing, found, x, y, by)
    return drawing.markup()


def _capacities(found: Assessment) -> tuple[Scale, str, float]:
    """Return the scale of capacities, its unit, and how much of the unit a block is."""
    size = found.bytes_of(float(found.block_tokens))
    unit, by = ("blocks", 1.0) if size is None else ("TB", size / 1e12)
    last = float(found.curve.distances[-1]) if len(found.curve.distances) else 10.0
    sizes = [each.blocks for each in found.levels if 0 < each.blocks < INFINITE]
    last = max([last, *sizes]) * by
    low = 10.0 ** np.floor(np.log10(max(last / 1e5, by)))
    high = 10.0 ** np.ceil(np.log10(last) + 1e-9)
    return Scale(float(low), float(max(high, low * 10)), _LEFT, _RIGHT, log=True), unit, by


def _axes(drawing: Drawing, x: Scale, y: Scale, unit: str) -> None:
    for tick in y.ticks():
        drawing.line(_LEFT, y(tick), _RIGHT, y(tick), "grid")
        drawing.text(_LEFT - 8, y(tick) + 4, f"{100 * tick:.0f}", "tick", "end")
    for tick in x.ticks():
        drawing.line(x(tick), _BOTTOM, x(tick), _BOTTOM + 4, "axis")
        drawing.text(x(tick), _BOTTOM + 18, number(tick), "tick", "middle")
    drawing.line(_LEFT, _BOTTOM, _RIGHT, _BOTTOM, "axis")
    drawing.text(_RIGHT, _BOTTOM + 36, f"capacity, {unit}", "unit", "end")
    drawing.text(_LEFT, _TOP - 14, "input tokens hit, %", "unit")


def _levels(drawing: Drawing, found: Assessment, x: Scale, y: Scale, by: float) -> None:
    """Mark each level's size by a line from the axis to the curve, and its name."""
    for row, level in enumerate(found.levels):
        if not 0 < level.blocks < INFINITE:
            continue
        at = x(level.blocks * by)
        share = found.share_at(level.blocks)[0]
        drawing.line(at, _BOTTOM, at, _TOP, "limit")
        drawing.point(at, y(share), "circle", "s1", f"{level.name}: {share:.2%}")
        told = f"{level.name} {share:.1%}"  # sizes may be near: each name has a row of its own
        drawing.text(at - 5, _TOP + 12 + 16 * row, told, "note", "end")
