"""Assessments of workloads as a sheet and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kvgate.kv.assess import INFINITE, Assessment, Interval, Level
from kvgate.kv.recommend import Recommendation, recommend
from kvgate.kv.windows import SHARES, WindowStatistics
from kvgate.report.reuse_curves import by_capacity
from kvgate.report.sheet import Line, Part, Sheet, Table

RULE = (
    "a block hits only if all before it in its request hit; LRU, of a request the tail is evicted "
    "first; whole blocks take the room, tokens count as they are"
)


def sheet(found: Assessment, names: Sequence[str], notes: Sequence[str] = ()) -> Sheet:
    """Return an assessment of the files `names` as a sheet."""
    advice = recommend(found)
    return Sheet(
        title="What the workload reuses",
        banner="",
        facts=(
            ("trace", ", ".join(names[:4]) + (f" and {len(names) - 4} more" * (len(names) > 4))),
            ("recommended", advice.named),
            *((("because" if not at else ""), told) for at, told in enumerate(advice.reasons)),
            *(("open", told) for told in advice.open),
        ),
        parts=(_reuse(found), _capacity(found), *_tiers(found)),
        notes=(RULE, *_caveats(found), *notes),
    )


def _reuse(found: Assessment) -> Part:
    totals = found.totals
    share, error = found.share_at(np.inf)
    facts = [
        ("requests", f"{totals.requests:,} in {totals.span_s:,.0f} s"),
        ("tokens", f"{totals.input_tokens:,} in, {totals.output_tokens:,} out"),
        ("blocks", f"{totals.references:,} of {found.block_tokens} tokens, {_distinct(found)}"),
        ("used at least twice", f"{totals.used_again:.1%} of the distinct blocks"),
        ("shared-prefix ratio", f"{share:.2%}{_error(error)} of input tokens, infinite tier"),
    ]
    if totals.sharing is not None:
        facts.append(("requests with a hit", f"{totals.sharing / totals.requests:.1%}"))
    if found.intervals:
        told = ", ".join(map(_interval, found.intervals))
        facts.append(("a block is used again after", told))
    return Part("Reuse", facts=tuple(facts))


def _interval(each: Interval) -> str:
    told = f"{each.name} {_time(each.value_s)}"
    if each.parts_s:
        told += f" ({_time(min(each.parts_s))} to {_time(max(each.parts_s))} in the parts)"
    return told


def _distinct(found: Assessment) -> str:
    distinct = found.totals.distinct
    about = "about " if found.rate < 1 else ""
    size = found.bytes_of(distinct * found.block_tokens)
    told = f" ({_size(size)})" if size is not None else ""
    return f"{about}{distinct:,.0f} distinct{told}"


def _capacity(found: Assessment) -> Part:
    lines = []
    for blocks in capacities(found):
        share, error = found.share_at(blocks)
        size = found.bytes_of(float(blocks) * found.block_tokens)
        told = _size(size) if size is not None else ""
        lines.append(Line((f"{blocks:,}", told, f"{share:.2%}{_error(error)}")))
    table = Table(
        "LRU of one level", ("blocks", "bytes", "input tokens hit"), tuple(lines), (0, 1, 2)
    )
    return Part(
        "Hits by capacity",
        tables=(table,),
        picture=by_capacity(found),
        picture_told="Share of input tokens hit, by capacity",
    )


def capacities(found: Assessment) -> tuple[int, ...]:
    """Return capacities in blocks to tell hits at: 1, 2 and 5 by decades, up to what all need."""
    last = float(found.curve.distances[-1]) if len(found.curve.distances) else 1.0
    steps = [unit * 10**power for power in range(2, 15) for unit in (1, 2, 5)]
    return (*(step for step in steps if step < last), int(np.ceil(last)))


def _tiers(found: Assessment) -> Iterator[Part]:
    """Yield what needs a model: each level's share, bytes and bandwidth."""
    question = found.question
    if question.geometry is None or question.token_bytes is None:
        return
    lines = tuple(_level(found, each) for each in found.levels)
    hits = found.curve.most[1]
    beyond = max(0.0, hits - sum(each.tokens for each in found.levels))
    rows = (*lines, Line(("in none", "", "", *_shares(beyond, hits, found))))
    head = ("level", "size", "blocks", "of hits", "of input", "served")
    facts = [
        (
            "model",
            f"{question.geometry.name}, {question.dtype}: {question.token_bytes:,} B a token",
        ),
        ("levels", "exclusive: sizes add up" if question.exclusive else "each holds what it saw"),
    ]
    if found.cold is not None:
        facts.append(("cold data", f"{found.cold:.2%} of the hits"))
    yield Part(
        "Tiers", facts=tuple(facts), tables=(Table("Served by", head, rows, (1, 2, 3, 4, 5)),)
    )
    yield _bandwidth(found)


def _level(found: Assessment, level: Level) -> Line:
    size = "not told" if level.size is None else _size(level.size)
    blocks = "no end" if level.blocks >= INFINITE else f"{level.blocks:,}"
    shares = _shares(level.tokens, found.curve.most[1], found)
    return Line((level.name, size, blocks, *shares))


def _shares(tokens: float, hits: float, found: Assessment) -> tuple[str, str, str]:
    of_input = tokens / max(found.totals.input_tokens, 1)
    size = found.bytes_of(tokens) or 0.0
    return f"{tokens / hits if hits else 0:.2%}", f"{of_input:.2%}", _size(size)


def _bandwidth(found: Assessment) -> Part:
    span = max(found.totals.span_s, 1.0)
    restored = found.bytes_of(found.levels[2].tokens) or 0.0
    written = found.bytes_of(found.written_tokens) or 0.0
    decode = found.bytes_of(float(found.totals.output_tokens)) or 0.0
    facts = [
        ("restored from the tier", _volume(restored, span)),
        ("prefill KV newly written", _volume(written, span)),
        ("decode KV, if it is stored too", _volume(decode, span)),
    ]
    if found.write_amplification is not None:
        facts.append(("write amplification by decode KV", f"{found.write_amplification:.3f} ×"))
    lines = [line for each in found.windows for line in _window(found, each)]
    head = ("windows", "", *(f"p{share}" if share < 100 else "largest" for share in SHARES))
    table = Table("Bandwidth needed, GB/s", head, tuple(lines), (2, 3, 4, 5))
    return Part("Bytes", facts=tuple(facts), tables=(table,))


def _window(found: Assessment, window: WindowStatistics) -> Iterator[Line]:
    for name, rates in (("restored", window.restored), ("written", window.written)):
        told = (f"{(found.bytes_of(rate) or 0.0) / 1e9:.3f}" for rate in rates)
        yield Line((f"{window.count:,} of {window.width_s} s", name, *told))


def _volume(size: float, span: float) -> str:
    return f"{_size(size)}, {size / span / 1e9:.3g} GB/s on average"


def _size(size: float) -> str:
    return f"{size / 1e12:.4g} TB"


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def _error(error: float) -> str:
    return f" ± {100 * error:.2f} points" if error else ""


def _caveats(found: Assessment) -> Iterator[str]:
    if found.parts:
        yield (
            f"a sample of {found.rate:.3%} of the blocks (SHARDS) in {len(found.parts)} disjoint "
            "parts; ± is Student's 95 % interval of their mean"
        )
    if found.step_s > 1:
        yield (
            f"the trace's times are {found.step_s:g} s apart at least: its 1 s windows show bursts "
            f"that may not have been, those of {found.windows[-1].width_s} s are spread over a step"
        )
    geometry = found.question.geometry
    if geometry is not None and geometry.window_layers:
        yield "layers with a window are counted whole: an upper bound"


def document(found: Assessment, names: Sequence[str]) -> dict[str, Any]:
    """Return an assessment for JSON: tokens, blocks, bytes, seconds; shares from 0 to 1."""
    totals, advice = found.totals, recommend(found)
    share, error = found.share_at(np.inf)
    return {
        "trace": list(names),
        "block_tokens": found.block_tokens,
        "exact": not found.parts,
        "sample_rate": found.rate,
        "requests": totals.requests,
        "requests_with_a_hit": totals.sharing,
        "span_s": totals.span_s,
        "input_tokens": totals.input_tokens,
        "output_tokens": totals.output_tokens,
        "block_references": totals.references,
        "distinct_blocks": totals.distinct,
        "distinct_bytes": found.bytes_of(totals.distinct * found.block_tokens),
        "used_again": totals.used_again,
        "shared_prefix_ratio": share,
        "error": error,
        "cold_share": found.cold,
        "reuse_interval_s": {each.name: each.value_s for each in found.intervals},
        "reuse_interval_of_parts_s": {each.name: each.parts_s for each in found.intervals},
        "curve": [_point(found, blocks) for blocks in capacities(found)],
        "levels": [_level_document(found, each) for each in found.levels],
        "written_bytes": found.bytes_of(found.written_tokens),
        "write_amplification": found.write_amplification,
        "windows": [_window_document(found, each) for each in found.windows],
        "recommendation": _advice_document(advice),
    }


def _point(found: Assessment, blocks: int) -> dict[str, Any]:
    share, error = found.share_at(blocks)
    size = found.bytes_of(float(blocks) * found.block_tokens)
    return {"blocks": blocks, "bytes": size, "hit_ratio": share, "error": error}


def _level_document(found: Assessment, level: Level) -> dict[str, Any]:
    return {
        "level": level.name,
        "bytes": level.size,
        "served_tokens": level.tokens,
        "served_bytes": found.bytes_of(level.tokens),
        "of_hits": level.of_hits,
        "of_input": level.of_input,
    }


def _window_document(found: Assessment, window: WindowStatistics) -> dict[str, Any]:
    names = [f"p{share}" for share in SHARES]
    unit = "bytes_a_second" if found.question.token_bytes else "tokens_a_second"
    each = found.question.token_bytes or 1
    rows = (("restored", window.restored), ("written", window.written))
    return {
        "width_s": window.width_s,
        "count": window.count,
        "unit": unit,
        **{
            name: dict(zip(names, [rate * each for rate in rates], strict=True))
            for name, rates in rows
        },
    }


def _advice_document(advice: Recommendation) -> dict[str, Any]:
    return {
        "depth": advice.depth,
        "recommended": advice.named,
        "reasons": list(advice.reasons),
        "open": list(advice.open),
    }
