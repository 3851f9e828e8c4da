"""Predictions as sheets and as JSON: predicted against published, and what a site would do."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kvgate.kv.predict import MOST_CONCURRENCY, RECOMPUTE, SATURATED, Outcome, Work
from kvgate.kv.predict_data import Published
from kvgate.kv.predict_run import Bandwidth, Forecast, Measured, Point
from kvgate.kv.predict_table import BAR, Cell, Section, TableRow, within
from kvgate.report.curves import against, by_concurrency
from kvgate.report.sheet import Line, Part, Sheet, Table

_NAMES = {
    "ttft_p50": "TTFT p50",
    "ttft_p90": "TTFT p90",
    "ttft_p99": "TTFT p99",
    "tpot_p50": "TPOT p50",
    "throughput": "throughput",
}
PARAMETERS = {
    "prefill": ("prefill rate", "tok/s an instance"),
    "overhead_s": ("constant of a restore", "s"),
    "decode_base_s": ("a token's decode", "s"),
    "decode_each_s": ("and for each request decoding beside", "s"),
    "interference": ("decode beside a prefill", "s a second of prefill and request"),
    "local": ("bandwidth, local", "B/s"),
    "device": ("bandwidth, device", "B/s"),
}
"""Parameter → what a reader calls it, and its unit."""

NO_INTERFERENCE = 1e-5
"""Below it the interference is at the low end of its search: decodes wait for all prefills."""

MOST_DRAWN = 6
"""Arms in one picture: as many as there are shapes."""

_HEAD = ("row", "used to", "figure", "published", "predicted", "error", "left out", "")

RULES = (
    "that bench's rules: percentile q is the sorted value at index int(n·q); tok/s is output "
    "tokens of all requests over the time of the whole batch; every session is read once",
    "recompute is first come, first served; restores share one bandwidth; HBM is taken to hold all "
    "requests of a batch",
)


def published_sheet(value: Published, sections: Sequence[Section]) -> Sheet:
    """Return predicted against published, a part a report."""
    kept = within(tuple(sections))
    return Sheet(
        title="Predicted against published",
        banner="",
        facts=(
            ("figures", value.source),
            ("licence", f"{value.licence}, {value.attribution}"),
            ("bar", f"{BAR:.0%} on TTFT p50, p90 and throughput: {'kept' if kept else 'MISSED'}"),
        ),
        parts=(
            Part(
                title="All reports",
                picture=against(sections),
                picture_told="TTFT p50, published and predicted",
            ),
            *(_section(each) for each in sections),
        ),
        notes=(
            "'left out' is the error of a fit that goes without the row, where the others suffice",
            *RULES,
            *value.notes,
        ),
    )


def _section(section: Section) -> Part:
    worst = section.worst()
    facts = [
        ("deployment", section.report.deployment),
        ("KV of a session", _bytes_told(section.work)),
        *((f"fitted: {label}", told) for label, told in _fitted(section)),
        ("held out", "; ".join(section.held_out) or "nothing: every row was fitted on"),
        ("largest error judged", f"{worst:.1%}" if worst is not None else "none is judged"),
    ]
    lines = [line for row in section.rows for line in _row(row)]
    table = Table("Published and predicted", _HEAD, tuple(lines), numbers=(3, 4, 5, 6))
    return Part(title=section.report.report, facts=tuple(facts), tables=(table,))


def _fitted(section: Section) -> Iterator[tuple[str, str]]:
    """Yield each fitted parameter of a report, and its value with its unit."""
    for name, value in section.fitted.values.items():
        if name not in section.fitted.unfitted:
            yield PARAMETERS[name][0], parameter_told(name, value)


def parameter_told(name: str, value: float) -> str:
    """Return a parameter's value with its unit: ``1891 tok/s an instance``."""
    unit = PARAMETERS[name][1]
    if unit == "B/s":
        return f"{value / 1e9:.2f} GB/s"
    if name == "interference" and value < NO_INTERFERENCE:
        return "none"
    return f"{value:.4g} {unit}"


def _row(row: TableRow) -> Iterator[Line]:
    if row.lacks:
        lacks = ", ".join(PARAMETERS[name][0] for name in row.lacks)
        yield Line(
            (row.row.named, row.row.use, "", "", "", "", "", f"not settled: {lacks}"), "fail"
        )
    for cell in row.cells:
        told = "" if cell.judged else "told only"
        look = ""
        if cell.judged:
            told, look = ("within", "pass") if cell.within else ("beyond", "fail")
        shown = (_figure(cell, cell.published), _figure(cell, cell.predicted))
        error = "" if cell.left_out_error is None else f"{cell.left_out_error:+.1%}"
        head = (row.row.named, row.row.use, _NAMES[cell.figure])
        yield Line((*head, *shown, f"{cell.error:+.1%}", error, told), look)


def _figure(cell: Cell, value: float) -> str:
    if cell.figure == "throughput":
        return f"{value:.1f} tok/s"
    return f"{1000 * value:.1f} ms" if cell.figure == "tpot_p50" else f"{value:.2f} s"


def _bytes_told(work: Work) -> str:
    size = work.session_bytes
    return (
        f"{work.tokens:,} tokens of {work.geometry.name} in {work.dtype} are {size:,} B "
        f"({size / 1e9:.3f} GB, {size / 2**30:.3f} GiB)"
    )


def published_document(value: Published, sections: Sequence[Section]) -> dict[str, Any]:
    """Return predicted against published for JSON: s, tok/s, B/s."""
    return {
        "source": value.source,
        "licence": value.licence,
        "attribution": value.attribution,
        "bar": BAR,
        "within": within(tuple(sections)),
        "reports": [
            {
                "report": each.report.report,
                "parameters": {
                    name: number
                    for name, number in each.fitted.values.items()
                    if name not in each.fitted.unfitted
                },
                "held_out": list(each.held_out),
                "rows": [_row_document(row) for row in each.rows],
            }
            for each in sections
        ],
    }


def _row_document(row: TableRow) -> dict[str, Any]:
    figures = {
        cell.figure: dataclasses.asdict(cell)
        | {"error": cell.error, "left_out_error": cell.left_out_error, "within": cell.within}
        for cell in row.cells
    }
    return {"row": row.row.named, "use": row.row.use, "lacks": list(row.lacks), "figures": figures}


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """What was asked of a site: the work, the limit, what is assumed and whence."""

    work: Work
    limit: str
    limit_s: float | None
    limit_figure: str
    assumptions: Mapping[str, float]
    source: str


def forecast_sheet(found: Measured, asked: Asked, forecasts: Sequence[Forecast]) -> Sheet:
    """Return what a site would do, a part an arm; the picture has the first few, and recompute."""
    drawn = [*forecasts[:-1][: MOST_DRAWN - 1], *forecasts[-1:]]
    return Sheet(
        title=f"{asked.work.geometry.name}: what the measured bandwidths come to",
        banner=found.mark,
        facts=(
            ("measured in", found.run),
            ("KV of a session", _bytes_told(asked.work)),
            ("instances", str(asked.work.instances)),
        ),
        parts=(
            Part(
                title="All arms",
                picture=by_concurrency(drawn, asked.limit_s),
                picture_told=f"TTFT p90 by concurrency, {len(drawn)} of {len(forecasts)} arms",
            ),
            *(_forecast(each, asked) for each in forecasts),
            Part(
                title="Assumed, not measured there",
                facts=tuple(
                    (PARAMETERS[name][0], parameter_told(name, value))
                    for name, value in asked.assumptions.items()
                ),
                notes=(f"source: {asked.source}",),
            ),
            *((Part("Missing", notes=found.missing),) if found.missing else ()),
        ),
        notes=(
            *RULES,
            "intervals are those of the measured bandwidth over rounds (Student, 95 %); what is "
            "assumed has none, and neither has the model's own error",
        ),
    )


def _forecast(each: Forecast, asked: Asked) -> Part:
    name = each.arm if each.arm == RECOMPUTE else f"{each.host}, arm {each.arm}"
    facts = []
    if each.bandwidth is not None:
        facts.append(("measured bandwidth", bandwidth_told(each.bandwidth)))
    facts.append((f"{SATURATED:.0%} of its most tok/s", f"at concurrency {_span(each.saturates)}"))
    if each.within_limit:
        facts.append((f"{asked.limit_figure} within {asked.limit}", _kept(each.within_limit)))
    caption = "Computed anew"
    if each.bandwidth is not None:
        caption = "At the measured bandwidth (and at its interval's ends)"
    head = ("concurrency", "TTFT p50", "TTFT p90", "TPOT p50", "tok/s")
    lines = tuple(Line((str(point.concurrency), *_cells(point))) for point in each.points)
    table = Table(caption, head, lines, (0, 1, 2, 3, 4))
    return Part(title=name, facts=tuple(facts), tables=(table,))


def bandwidth_told(bandwidth: Bandwidth) -> str:
    """Return a bandwidth with its interval and rounds."""
    rounds = f"{len(bandwidth.rounds)} round{'s' if len(bandwidth.rounds) > 1 else ''}"
    if bandwidth.low is None or bandwidth.high is None:
        return f"{bandwidth.middle / 1e9:.4g} GB/s ({rounds}: no interval)"
    low, high = bandwidth.low / 1e9, bandwidth.high / 1e9
    return f"{bandwidth.middle / 1e9:.4g} GB/s ({low:.4g} to {high:.4g} GB/s, {rounds})"


def _span(found: Sequence[int]) -> str:
    low, high = min(found), max(found)
    return f"{found[0]}" + (f" ({low} to {high})" if low != high else "")


def _kept(found: Sequence[int]) -> str:
    if max(found) == 0:
        return "not even by one request"
    if found[0] == 0:
        told = f"at the interval's high end up to concurrency {max(found)}"
        return f"not by one request at the measured bandwidth; {told}"
    beyond = f"; {MOST_CONCURRENCY} is the most that is looked at"
    told = f"up to concurrency {_span(found)}"
    return told + (beyond if max(found) == MOST_CONCURRENCY else "")


def _cells(point: Point) -> Iterator[str]:
    for figure, shown in (
        ("ttft_p50", "s"),
        ("ttft_p90", "s"),
        ("tpot_p50", "ms"),
        ("throughput", ""),
    ):
        by = 1000 if shown == "ms" else 1
        told = f"{by * point.middle.value(figure):.4g}"
        if point.slow is not None and point.fast is not None:
            ends = sorted(by * each.value(figure) for each in (point.slow, point.fast))
            low, high = (f"{end:.4g}" for end in ends)
            told += f" ({low} to {high})" if low != high else ""
        yield f"{told} {shown}".rstrip()


def forecast_document(
    found: Measured, asked: Asked, forecasts: Sequence[Forecast]
) -> dict[str, Any]:
    """Return what a site would do for JSON: s, tok/s, B/s."""
    return {
        "run": found.run,
        "mark": found.mark,
        "missing": list(found.missing),
        "session_bytes": asked.work.session_bytes,
        "assumed": {"values": dict(asked.assumptions), "source": asked.source},
        "forecasts": [
            {
                "host": each.host,
                "arm": each.arm,
                "bandwidth": dataclasses.asdict(each.bandwidth) if each.bandwidth else None,
                "saturates": list(each.saturates),
                "within_limit": list(each.within_limit),
                "points": [_point_document(point) for point in each.points],
            }
            for each in forecasts
        ],
    }


def _point_document(point: Point) -> dict[str, Any]:
    def figures(outcome: Outcome | None) -> dict[str, float] | None:
        names = ("ttft_p50", "ttft_p90", "tpot_p50", "throughput")
        return {name: outcome.value(name) for name in names} if outcome else None

    return {
        "concurrency": point.concurrency,
        "measured": figures(point.middle),
        "low": figures(point.slow),
        "high": figures(point.fast),
    }
