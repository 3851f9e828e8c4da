"""Pictures of predictions: TTFT by concurrency, and predicted against published TTFT."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from kvgate.kv.predict_run import Forecast, Point
from kvgate.kv.predict_table import BAR, Section
from kvgate.report.svg import SHAPES, Drawing, Scale, number, spread

_WIDE, _HIGH = 640.0, 340.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, 460.0, 24.0, 300.0
_STYLES = ("s1", "s2", "s3")


def by_concurrency(forecasts: Sequence[Forecast], limit_s: float | None) -> Markup:
    """Return p90 TTFT by concurrency: a line an arm with its interval, and the limit."""
    points = [point for each in forecasts for point in each.points]
    values = [point.middle.value("ttft_p90") for point in points]
    values += [limit_s] if limit_s is not None else []
    values += [end.value("ttft_p90") for p in points for end in (p.slow, p.fast) if end]
    y = spread(values, _BOTTOM, _TOP)
    levels = sorted({point.concurrency for point in points})
    x = Scale(0.0, max(len(levels) - 1.0, 1.0), _LEFT + 12, _RIGHT - 12)
    drawing = _board("ttft-curve", "TTFT p90 by concurrency", "concurrency", "TTFT p90, s", y)
    for at, level in enumerate(levels):
        drawing.text(x(at), _BOTTOM + 16, number(level), "tick", "middle")
    if limit_s is not None:
        drawing.line(_LEFT, y(limit_s), _RIGHT, y(limit_s), "limit")
        drawing.text(_RIGHT + 8, y(limit_s) + 4, f"limit {limit_s:g} s", "note")
    for row, each in enumerate(forecasts):
        _arm(drawing, each, row, levels, x, y)
    return drawing.markup()


def _arm(
    drawing: Drawing, each: Forecast, row: int, levels: Sequence[int], x: Scale, y: Scale
) -> None:
    """Draw one arm: its intervals, its line, its points, and its name at the right."""
    style, shape = _STYLES[row % len(_STYLES)], SHAPES[row % len(SHAPES)]
    name = f"{each.host} {each.arm}".strip()
    spots = []
    for point in each.points:
        at = x(levels.index(point.concurrency))
        spots.append((at, y(point.middle.value("ttft_p90"))))
        if point.slow and point.fast:
            ends = (y(point.slow.value("ttft_p90")), y(point.fast.value("ttft_p90")))
            drawing.line(at, ends[0], at, ends[1], "interval")
    drawing.path(spots, f"{style} stroked")
    for (left, top), point in zip(spots, each.points, strict=True):
        drawing.point(left, top, shape, style, _tip(name, point))
    key = _TOP + 14 + 20 * row
    drawing.point(_RIGHT + 16, key - 4, shape, style)
    drawing.text(_RIGHT + 28, key, name, "label")


def _tip(name: str, point: Point) -> str:
    return f"{name}, concurrency {point.concurrency}: {point.middle.value('ttft_p90'):.4g} s"


def against(sections: Sequence[Section]) -> Markup:
    """Return predicted against published TTFT p50, a mark a row, with the bar around equality."""
    pairs = [
        (section.report.report, row.row.named, cell.published, cell.predicted)
        for section in sections
        for row in section.rows
        for cell in row.cells
        if cell.figure == "ttft_p50"
    ]
    values = [value for pair in pairs for value in pair[2:]]
    x, y = spread(values, _LEFT, _RIGHT), spread(values, _BOTTOM, _TOP)
    drawing = _board(
        "predicted-published",
        "TTFT p50, published and predicted",
        "published, s",
        "predicted, s",
        y,
    )
    for tick in x.ticks():
        drawing.text(x(tick), _BOTTOM + 16, number(tick), "tick", "middle")
    low, high = x.low if x.log else 0.0, x.high
    for by, style in ((1 - BAR, "bound"), (1.0, "axis"), (1 + BAR, "bound")):
        first, last = max(low, low / by), min(high, high / by)
        drawing.line(x(first), y(first * by), x(last), y(last * by), style)
    reports = list(dict.fromkeys(pair[0] for pair in pairs))
    for report, named, published, predicted in pairs:
        at = reports.index(report)
        tip = f"{report}, {named}: published {published:.4g} s, predicted {predicted:.4g} s"
        spot = (x(published), y(predicted))
        drawing.point(*spot, SHAPES[at % len(SHAPES)], _STYLES[at % len(_STYLES)], tip)
    for at, report in enumerate(reports):
        key = _TOP + 14 + 20 * at
        drawing.point(_RIGHT + 16, key - 4, SHAPES[at % len(SHAPES)], _STYLES[at % len(_STYLES)])
        drawing.text(_RIGHT + 28, key, report, "label")
    drawing.text(_RIGHT + 8, _TOP + 24 + 20 * len(reports), f"dashed: ±{BAR:.0%}", "note")
    return drawing.markup()


def _board(name: str, title: str, x_unit: str, y_unit: str, y: Scale) -> Drawing:
    """Return a drawing with both axes' names, and the grid of `y`."""
    drawing = Drawing(name, _WIDE, _HIGH, title=title, description=f"{y_unit} by {x_unit}")
    for tick in y.ticks():
        drawing.line(_LEFT, y(tick), _RIGHT, y(tick), "grid")
        drawing.text(_LEFT - 8, y(tick) + 4, number(tick), "tick", "end")
    drawing.line(_LEFT, _BOTTOM, _RIGHT, _BOTTOM, "axis")
    drawing.text(_RIGHT, _BOTTOM + 34, x_unit, "unit", "end")
    drawing.text(_LEFT, _TOP - 10, y_unit, "unit")
    return drawing
