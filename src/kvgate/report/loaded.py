"""A load as a sheet: figures with intervals, levels, failures, and how far they can be trusted."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

from kvgate.load.outcome import Loaded
from kvgate.load.parts import Done, Traced
from kvgate.load.rows import Row
from kvgate.load.shape import Closed
from kvgate.load.slo import Level
from kvgate.load.summary import Figure, Figures
from kvgate.report.sheet import Line, Part, Sheet, Table

MOST_DETAILED = 8
"""Parts that have a table of their own; of more, only the overview."""

_OVERVIEW = ("TTFT p50", "TTFT p90", "TTFT p99", "TPOT p50", "ITL p99", "end to end p50")

NOTES = (
    "latencies count from when a request was due (open loop) or sent (closed loop); a failed one "
    "counts as later than any other. Percentiles are nearest ranks, of samples that carry them",
    "95 % intervals: of a percentile by order statistics, as if requests were independent; of a "
    "rate by Student's t over ten equal parts of the time",
)

ADVICE = (
    "late with little CPU of its own means that others had its cores: run the client on cores "
    "(taskset -c) or a host that the engine leaves alone; late and full means that it is too "
    "much for one: several clients share a load (--dask)"
)


def sheet(loaded: Loaded) -> Sheet:
    """Return the sheet of a load."""
    done = loaded.counting
    parts = [Part("Overview", tables=(_overview(loaded),))] if len(done) > 1 else []
    if loaded.found is not None or loaded.levels:
        parts.append(_service_level(loaded))
    if len(done) <= MOST_DETAILED:
        parts += [_part(loaded, each) for each in done]
    parts.append(_failures(loaded))
    limited = any(each.result.bottleneck for each in loaded.done)
    advice = (ADVICE,) if limited else ()
    parts.append(Part("The client", tables=(_clients(loaded),), notes=advice))
    return Sheet(
        title=f"Load on {loaded.url}, model {loaded.model}",
        banner=_banner(loaded),
        facts=tuple(_facts(loaded)),
        parts=tuple(each for each in parts if each.tables or each.facts or each.notes),
        notes=NOTES,
    )


def _banner(loaded: Loaded) -> str:
    if not loaded.untold:
        return ""
    more = f" (and {len(loaded.untold) - 1} more)" if len(loaded.untold) > 1 else ""
    return f"INCONCLUSIVE: {loaded.untold[0]}{more}"


def _facts(loaded: Loaded) -> Iterator[tuple[str, str]]:
    yield "verdict", verdict(loaded)
    requests = sum(len(each.result.rows) for each in loaded.counting)
    failed = sum(len(each.result.failed) for each in loaded.counting)
    yield "requests", f"{requests:,}, {failed:,} of them failed" if failed else f"{requests:,}"
    yield "workload", f"{_workload(loaded)}; seed {loaded.seed}"
    if (came := loaded.came) is not None:
        asked = "" if came.asked is None else f" ({came.asked:.4f} asked for)"
        lengths = f"{came.compared_lengths - came.wrong_lengths} of {came.compared_lengths}"
        told = f"shared-prefix ratio {came.shared:.4f}{asked}"
        if came.compared_lengths:
            told += f"; {lengths} prompts of the length asked for, by the engine's count"
        yield "as issued", told
    if loaded.clients:
        yield "clients", ", ".join(loaded.clients)
    yield from (("inconclusive", each) for each in loaded.untold)
    yield from (
        ("note", f"{each.part.name}: {note}") for each in loaded.done for note in each.notes
    )


def verdict(loaded: Loaded) -> str:
    """Return in a line what the load came to."""
    if loaded.found is not None:
        found = loaded.found
        told = f"inconclusive, at least {found.kept}" if found.kept else "inconclusive"
        return f"highest concurrency that keeps {loaded.slo}: {told if found.problem else found}"
    if loaded.untold:
        return "inconclusive"
    missed = [each for each in loaded.levels if each.kept is False]
    if missed:
        at = ", ".join(str(each.concurrency) for each in missed)
        return f"{loaded.slo} is not kept (concurrency {at})"
    if loaded.code:
        return "requests failed"
    return f"{loaded.slo} is kept" if loaded.slo else "all requests were answered, whole"


def _workload(loaded: Loaded) -> str:
    what = loaded.done[-1].part.what
    if isinstance(what, Traced):
        return f"trace {', '.join(each.rpartition('/')[2] for each in what.paths)}"
    told = [f"prompts of {what.input_tokens:,} tokens, answers of {what.output_tokens:,}"]
    if what.turns > 1:
        told.append(f"{what.turns} turns of {what.turn_tokens:,} more, {what.think_s:g} s apart")
    if what.pool is not None:
        told.append(f"{what.pool} of them again and again")
    if what.text is not None:
        told.append("chat" if what.chat else "texts")
    return ", ".join(told)


def _overview(loaded: Loaded) -> Table:
    head = ("part", "requests", "failed", *_OVERVIEW, "requests/s", "output", "cached", "")
    lines = []
    for each in loaded.counting:
        found = loaded.figures(each)
        times = [_short(found.find(name)) for name in _OVERVIEW]
        rates = [_short(found.find(name)) for name in ("requests", "output tokens")]
        failed = found.requests - found.good
        look = "inconclusive" if each.untold else "fail" if failed else ""
        told = {"fail": "FAILED", "": ""}.get(look, look.upper())
        cells = (each.part.name, f"{found.requests:,}", f"{failed:,}", *times, *rates)
        lines.append(Line((*cells, _cached(found), told), look=look))
    return Table("each part", head, tuple(lines), numbers=tuple(range(1, len(head) - 1)))


def _part(loaded: Loaded, done: Done) -> Part:
    """Return one part's figures with their intervals."""
    found = loaded.figures(done)
    lines = [_line(each) for each in (*found.times, *found.rates)]
    if found.goodput is not None:
        lines.append(_line(found.goodput))
    facts = [
        ("time", f"{done.result.elapsed_s:,.1f} s, {_how(done)}"),
        ("tokens in", f"{found.input_tokens:,}; cached, by the engine's count: {_cached(found)}"),
        ("tokens out", f"{found.output_tokens:,}"),
    ]
    if found.within_slo is not None:
        facts.append(("within the level", f"{found.within_slo:,} of {found.requests:,} requests"))
    if done.result.held_back:
        facts.append(("held back", f"{done.result.held_back:,} requests: too many under way"))
    table = Table("figures", ("", "value", "95 % interval"), tuple(lines), numbers=(1, 2))
    return Part(done.part.name, facts=tuple(facts), tables=(table,) if lines else ())


def _how(done: Done) -> str:
    shape = done.part.shape
    loop = f"closed loop of {done.result.concurrency}" if isinstance(shape, Closed) else "open loop"
    warm = len(done.result.warm_up)
    return loop + (f", {warm:,} requests of the warm-up left out" if warm else "")


def _line(figure: Figure) -> Line:
    interval = ""
    if figure.low is not None and figure.high is not None:
        interval = f"{_value(figure.low, figure.unit)} to {_value(figure.high, figure.unit)}"
    return Line((figure.name, _value(figure.value, figure.unit), interval))


def _short(figure: Figure | None) -> str:
    return "" if figure is None else _value(figure.value, figure.unit)


def _value(value: float, unit: str) -> str:
    """Return a value with its unit, to three digits or so."""
    if math.isinf(value):
        return "not answered"
    if unit == "s":
        if value < 1e-3:
            return f"{value * 1e6:,.0f} µs"
        return f"{value * 1e3:,.2f} ms" if value < 0.1 else f"{value:,.3f} s"
    return f"{value:,.2f} {unit}" if value < 100 else f"{value:,.0f} {unit}"


def _cached(found: Figures) -> str:
    if found.cached_tokens is None:
        return "not told"
    return f"{found.cached_tokens / max(1, found.input_tokens):.1%}"


def _service_level(loaded: Loaded) -> Part:
    lines = [
        Line(
            (str(each.concurrency), _kept(each), f"{each.good} of {each.requests}", each.told),
            look={True: "pass", False: "fail", None: "inconclusive"}[each.kept],
        )
        for each in loaded.levels
    ]
    caption = "in the order they were measured" if loaded.found else "each part"
    head = ("concurrency", "kept", "within all limits", "why")
    facts = [("level", str(loaded.slo))]
    if loaded.found is not None:
        facts.append(("highest concurrency", str(loaded.found)))
    return Part(
        "Service level", tuple(facts), (Table(caption, head, tuple(lines), numbers=(0, 2)),)
    )


def _kept(level: Level) -> str:
    return {True: "yes", False: "no", None: "?"}[level.kept]


def _failures(loaded: Loaded) -> Part:
    lines = [
        Line((each.part.name, str(kind), f"{count:,}", first[:160]), look="fail")
        for each in loaded.done
        for kind, count, first in loaded.figures(each).failures
    ]
    if not lines:
        return Part("Failures")
    head = ("part", "kind", "requests", "the first")
    return Part("Failures", tables=(Table("by kind", head, tuple(lines), numbers=(2,)),))


def _clients(loaded: Loaded) -> Table:
    lines = []
    for each in loaded.done:
        seen = each.result.watched
        if seen is None:
            continue
        why = "; ".join(each.result.bottleneck)
        cells = (
            each.part.name,
            f"{seen.lag_p99_s * 1e3:,.2f} ms",
            f"{seen.send_lag_p99_s * 1e3:,.2f} ms",
            f"{seen.cpu_share:.0%}",
            why or "not the bottleneck",
        )
        lines.append(Line(cells, look="inconclusive" if why else ""))
    head = ("part", "late p99", "sent late p99", "CPU of its loop", "")
    return Table("how the client itself fared", head, tuple(lines[-12:]), numbers=(1, 2, 3))


def document(loaded: Loaded) -> dict[str, Any]:
    """Return the whole as JSON; times are seconds, null where nothing was answered."""
    came = loaded.came
    return {
        "load": 1,
        "url": loaded.url,
        "model": loaded.model,
        "seed": loaded.seed,
        "code": loaded.code,
        "verdict": verdict(loaded),
        "inconclusive": list(loaded.untold),
        "clients": list(loaded.clients),
        "issued": None
        if came is None
        else {
            "shared": came.shared,
            "asked": came.asked,
            "wrong_lengths": came.wrong_lengths,
            "compared_lengths": came.compared_lengths,
            "totals": dataclasses.asdict(came.assessment.totals),
        },
        "slo": None if loaded.slo is None else dataclasses.asdict(loaded.slo),
        "levels": [dataclasses.asdict(each) for each in loaded.levels],
        "highest_concurrency": None
        if loaded.found is None
        else {
            "kept": loaded.found.kept,
            "missed": loaded.found.missed,
            "problem": loaded.found.problem,
        },
        "parts": [_as_json(loaded, each) for each in loaded.done],
    }


def _as_json(loaded: Loaded, done: Done) -> dict[str, Any]:
    found = loaded.figures(done)
    watched = done.result.watched
    figures = [*found.times, *found.rates, *([found.goodput] if found.goodput else [])]
    return {
        "name": done.part.name,
        "counts": done.part.counts,
        "concurrency": done.result.concurrency,
        "started_at": done.result.started_at.isoformat(),
        "elapsed_s": done.result.elapsed_s,
        "requests": found.requests,
        "good": found.good,
        "within_slo": found.within_slo,
        "input_tokens": found.input_tokens,
        "cached_tokens": found.cached_tokens,
        "output_tokens": found.output_tokens,
        "held_back": done.result.held_back,
        "unsent": done.result.unsent,
        "inconclusive": list(done.untold),
        "notes": list(done.notes),
        "figures": {
            each.name: {
                "value": _finite(each.value),
                "unit": each.unit,
                "low": _finite(each.low),
                "high": _finite(each.high),
            }
            for each in figures
        },
        "failures": [
            {"kind": str(kind), "requests": count, "first": first}
            for kind, count, first in found.failures
        ],
        "client": None if watched is None else dataclasses.asdict(watched),
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def row_as_json(part: str, row: Row) -> dict[str, Any]:
    """Return one request's row as JSON has it, with the part it is of; times are seconds."""
    fields = dataclasses.asdict(row)
    return {
        "part": part,
        **fields,
        "sent_at": row.sent_at.isoformat(),
        "failure": None if row.failure is None else str(row.failure),
    }
