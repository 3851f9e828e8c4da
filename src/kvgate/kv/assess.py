"""A workload's reuse of KV, from its trace: what is shared, what each tier serves, what it takes.

Levels are looked at in order: HBM, DRAM, tier. Each is an LRU of its own that has seen every
request (everything is written through), so a level serves the hits at distances up to its size
that no level before it serves; with ``exclusive`` a level holds what the one before evicts, and
the sizes add up. *Cold* are hits that neither HBM nor DRAM can serve.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from kvgate.errors import UsageError
from kvgate.kv.geometry import Geometry
from kvgate.kv.reuse import A_DECADE, Curve, Tracker
from kvgate.kv.reuse_sampled import Estimates, Sampler, Sampling, middle
from kvgate.kv.trace import Batch, Floats, Ints
from kvgate.kv.windows import Windows, WindowStatistics

LEVELS = ("HBM", "DRAM", "tier")
INFINITE = 2**61
"""Blocks of a level without an end."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked: sizes are bytes, None where not told (a tier then has no end).

    ``rate`` or ``size`` ask for a sample (see `reuse_sampled`); neither is exact.
    """

    geometry: Geometry | None = None
    dtype: str = "bf16"
    hbm: int | None = None
    dram: int | None = None
    tier: int | None = None
    exclusive: bool = False
    path: float | None = None
    rate: float | None = None
    size: int | None = None

    @property
    def token_bytes(self) -> int | None:
        """Return the bytes of a token, None without a model."""
        return self.geometry.token_bytes(self.dtype) if self.geometry else None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What was counted in a whole trace: tokens, requests, blocks, seconds."""

    requests: int
    sharing: int | None
    input_tokens: int
    output_tokens: int
    references: int
    distinct: float
    used_again: float
    span_s: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One level: its size, the tokens it serves, and of all hits and all input the share."""

    name: str
    size: int | None
    blocks: int
    tokens: float
    of_hits: float
    of_input: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A percentile of the time until a block is used again, and as a sample's parts tell it."""

    name: str
    value_s: float
    parts_s: tuple[float, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """The answers to a Question; shares are from 0 to 1, errors halves of 95 % intervals."""

    question: Question
    block_tokens: int
    totals: Totals
    curve: Curve
    parts: tuple[Curve, ...]
    rate: float
    levels: tuple[Level, ...]
    windows: tuple[WindowStatistics, ...]
    intervals: tuple[Interval, ...]
    written_tokens: float
    step_s: float

    @property
    def shared(self) -> float:
        """Return the shared-prefix ratio: input tokens that an infinite cache hits, of all."""
        return self.share_at(np.inf)[0]

    @property
    def cold(self) -> float | None:
        """Return the share of all hits that is cold; None where neither HBM nor DRAM is told."""
        if self.question.hbm is None and self.question.dram is None:
            return None
        hits = self.curve.most[1]
        warm = sum(each.tokens for each in self.levels[:2])
        return (hits - warm) / hits if hits else 0.0

    @property
    def write_amplification(self) -> float | None:
        """Return (prefill KV + decode KV) ÷ prefill KV written; None where nothing is."""
        if not self.written_tokens:
            return None
        return 1 + self.totals.output_tokens / self.written_tokens

    def share_at(self, blocks: float) -> tuple[float, float]:
        """Return the share of input tokens hit by a cache of `blocks`, and its error (0: exact)."""
        if self.parts:
            share, error = middle(list(self.parts), blocks)
            return share, 0.0 if self.rate == 1 and blocks == np.inf else error
        return self.curve.hits(blocks)[1] / max(self.curve.input_tokens, 1.0), 0.0

    def bytes_of(self, tokens: float) -> float | None:
        """Return the KV bytes of `tokens`, None without a model."""
        each = self.question.token_bytes
        return None if each is None else tokens * each


class Assessor:
    """Takes a trace batch by batch, answers at the end; by `sampler` where others followed it."""

    def __init__(self, question: Question, block: int, sampler: Sampling | None = None) -> None:
        self.question, self.block = question, block
        self.sizes = level_blocks(question, block)
        rate, size = question.rate, question.size
        if sampler is None and (rate is not None or size is not None):
            sampler = Sampler(block, np.array(self.sizes, np.int64), rate=rate, size=size)
        self._sampler = sampler
        self._tracker = Tracker(block, self.sizes)
        self._windows = Windows()
        self._sums = np.zeros(len(LEVELS) + 1)
        self._requests = self._sharing = self._input = self._output = self._references = 0

    def feed(self, batch: Batch) -> None:
        """Look at a batch."""
        if batch.block_tokens != self.block:
            raise UsageError(
                f"{batch.file}: blocks of {batch.block_tokens} tokens after ones of {self.block}"
            )
        if self._sampler:
            served = self._sampler.feed(batch)
        else:
            served = self._tracker.feed(batch, batch.ids).astype(np.float64)
        self._sums += served.sum(axis=0)
        self._sharing += int((served.sum(axis=1) > 0).sum())
        kept = served[:, : len(LEVELS)].sum(axis=1)
        self._windows.add(batch.times_s, served[:, 2], np.maximum(0, batch.input_tokens - kept))
        self._requests += len(batch)
        self._references += len(batch.ids)
        self._input += int(batch.input_tokens.sum())
        self._output += int(batch.output_tokens.sum())

    def result(self) -> Assessment:
        """Return the answers to what was fed, at least one request."""
        sample = self._sampler.estimates() if self._sampler else None
        curves = sample.curves if sample else [self._tracker.curve()]
        curves = [dataclasses.replace(c, input_tokens=float(self._input)) for c in curves]
        curve = _mean(curves) if sample else curves[0]
        levels = self._levels(curve)
        return Assessment(
            question=self.question,
            block_tokens=self.block,
            totals=self._totals(sample),
            curve=curve,
            parts=tuple(curves) if sample else (),
            rate=sample.rate if sample else 1.0,
            levels=levels,
            windows=self._windows.statistics(),
            intervals=self._intervals(sample),
            written_tokens=self._input - sum(each.tokens for each in levels),
            step_s=self._windows.step_s,
        )

    def _intervals(self, sample: Estimates | None) -> tuple[Interval, ...]:
        """Return p50, p90 and p99 of the reuse intervals, and what a sample's parts say of them."""
        told = _percentiles((sample or self._tracker).intervals)
        parts = [_percentiles(each) for each in sample.intervals_of_parts] if sample else []
        return tuple(
            Interval(name=name, value_s=value, parts_s=tuple(p[name] for p in parts if p))
            for name, value in told.items()
        )

    def _totals(self, sample: Estimates | None) -> Totals:
        tracker = self._tracker
        again = tracker.used_again / max(tracker.distinct, 1)
        return Totals(
            requests=self._requests,
            sharing=None if sample else self._sharing,
            input_tokens=self._input,
            output_tokens=self._output,
            references=self._references,
            distinct=sample.distinct if sample else tracker.distinct,
            used_again=sample.used_again if sample else again,
            span_s=self._windows.span_s,
        )

    def _levels(self, curve: Curve) -> tuple[Level, ...]:
        """Return what each level serves: read off the curve, so that a sample is corrected too."""
        hits, reached = curve.most[1], 0.0
        found = []
        told = (self.question.hbm, self.question.dram, self.question.tier)
        for name, size, blocks in zip(LEVELS, told, self.sizes, strict=True):
            up_to = max(reached, curve.hits(blocks)[1])
            tokens, reached = up_to - reached, up_to
            found.append(
                Level(
                    name=name,
                    size=size,
                    blocks=blocks,
                    tokens=tokens,
                    of_hits=tokens / hits if hits else 0.0,
                    of_input=tokens / max(self._input, 1),
                )
            )
        return tuple(found)


def level_blocks(question: Question, block: int) -> tuple[int, ...]:
    """Return the sizes of HBM, DRAM and tier in whole blocks; raises UsageError without a model."""
    told = (question.hbm, question.dram, question.tier)
    if question.token_bytes is None:
        if any(size is not None for size in told):
            raise UsageError("sizes of HBM, DRAM or tier need --model: the bytes of a token")
        return (0, 0, INFINITE)
    each = question.token_bytes * block
    hbm, dram = ((size or 0) // each for size in told[:2])
    tier = INFINITE if question.tier is None else question.tier // each
    if question.exclusive:
        return (hbm, hbm + dram, min(INFINITE, hbm + dram + tier))
    return (hbm, dram, tier)


def assess(batches: Iterable[Batch], question: Question) -> Assessment:
    """Return the assessment of a trace, at least one request; raises TraceError as reading it."""
    assessor: Assessor | None = None
    for batch in batches:
        assessor = assessor or Assessor(question, batch.block_tokens)
        assessor.feed(batch)
    if assessor is None:
        raise UsageError("no request in the trace")
    return assessor.result()


def _mean(parts: Sequence[Curve]) -> Curve:
    """Return the mean of the curves of a sample's parts."""
    distances = np.unique(np.concatenate([part.distances for part in parts]))
    blocks, tokens = (
        np.maximum(0.0, np.mean([_on(part, column, distances) for part in parts], axis=0))
        for column in ("blocks", "tokens")
    )
    return dataclasses.replace(parts[0], distances=distances, blocks=blocks, tokens=tokens)


def _on(part: Curve, column: str, distances: Floats) -> Floats:
    at = np.searchsorted(part.distances, distances, side="right")
    found: Floats = np.concatenate(([0.0], getattr(part, column)))[at]
    return found


def _percentiles(intervals: Ints | Floats) -> dict[str, float]:
    """Return p50, p90 and p99 of the reuse intervals in s, at the upper end of their bucket."""
    total = float(intervals.sum())
    if not total:
        return {}
    sums = np.cumsum(intervals)
    return {
        f"p{share}": 10.0 ** ((int(np.searchsorted(sums, total * share / 100)) + 1) / A_DECADE - 6)
        for share in (50, 90, 99)
    }
