"""The measurement model: TTFT, TPOT and throughput of recompute, local and device restores.

KV bytes of a session (`geometry`) over a shared bandwidth and a constant, or its tokens over the
prefill rate, first come, first served; then decoding. Percentiles and tok/s follow the rules of
mingxin-kvcache-bench (505f41e): percentile q is the sorted value at index int(n·q), and tok/s is
output tokens of all requests over the time of the whole batch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from kvgate.kv import predict_sim
from kvgate.kv.geometry import Geometry

RECOMPUTE = "recompute"

MOST_CONCURRENCY = 256
"""Requests at once at most that are looked at."""

SATURATED = 0.9
"""An arm is called saturated where its tok/s is this part of what MOST_CONCURRENCY bring."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What the model needs to know of a deployment, beside what a restore's bandwidth is.

    ``prefill`` is tokens/s of an instance, the others are seconds (see `predict_sim.Server`).
    """

    prefill: float
    overhead_s: float
    decode_base_s: float
    decode_each_s: float
    interference: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What every request asks for, and of how many instances on one server."""

    geometry: Geometry
    dtype: str
    tokens: int
    output_tokens: int
    instances: int = 1

    @property
    def session_bytes(self) -> int:
        """Return the bytes of one session's KV, all ranks together, each byte once."""
        return self.geometry.context_bytes(self.tokens, self.dtype)


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What one batch came to: every TTFT and TPOT in s, sorted, and the batch's time and rate."""

    ttft_s: tuple[float, ...]
    tpot_s: tuple[float, ...]
    batch_s: float
    tokens_per_s: float

    def value(self, figure: str) -> float:
        """Return a figure by name: ``ttft_p50`` … in s, ``tpot_p50`` in s, ``throughput``."""
        if figure == "throughput":
            return self.tokens_per_s
        kind, _, percent = figure.partition("_p")
        return percentile(self.ttft_s if kind == "ttft" else self.tpot_s, int(percent))


def percentile(ordered: Sequence[float], percent: int) -> float:
    """Return the sorted value at index int(n·q), the last one at most: that bench's rule."""
    return ordered[min(len(ordered) * percent // 100, len(ordered) - 1)]


def predict(
    work: Work, parameters: Parameters, concurrency: int, bandwidth: float | None
) -> Outcome:
    """Return what `concurrency` requests sent at once come to; each session is read once.

    `bandwidth` is B/s of the whole server; None: every request's KV is computed. Requests go to
    the instances in turn. Raises ValueError for nothing to reckon with.
    """
    if concurrency < 1 or (bandwidth is not None and bandwidth <= 0):
        raise ValueError(f"{concurrency} requests at {bandwidth} B/s can't be reckoned")
    restored = bandwidth is not None
    jobs = [
        predict_sim.Job(
            instance=number % work.instances,
            restore_bytes=float(work.session_bytes) if restored else 0.0,
            prefill_s=0.0 if restored else work.tokens / parameters.prefill,
            overhead_s=parameters.overhead_s if restored else 0.0,
            output_tokens=work.output_tokens,
        )
        for number in range(concurrency)
    ]
    server = predict_sim.Server(
        bandwidth=bandwidth or 0.0,
        decode_base_s=parameters.decode_base_s,
        decode_each_s=parameters.decode_each_s,
        interference=parameters.interference,
    )
    answered = predict_sim.run(jobs, server)
    between = max(work.output_tokens - 1, 1)
    batch_s = max(each.last_s for each in answered)
    return Outcome(
        ttft_s=tuple(sorted(each.first_s for each in answered)),
        tpot_s=tuple(sorted((each.last_s - each.first_s) / between for each in answered)),
        batch_s=batch_s,
        tokens_per_s=concurrency * work.output_tokens / batch_s,
    )


def saturation(work: Work, parameters: Parameters, bandwidth: float | None) -> int:
    """Return the least concurrency that brings `SATURATED` of what MOST_CONCURRENCY brings, tok/s.

    Looked for in multiples of the instances, where none of them idles.
    """

    def rate(groups: int) -> float:
        return predict(work, parameters, groups * work.instances, bandwidth).tokens_per_s

    low, high = 0, MOST_CONCURRENCY // work.instances
    target = SATURATED * rate(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if rate(middle) >= target else (middle, high)
    return high * work.instances


def most_within(
    work: Work, parameters: Parameters, bandwidth: float | None, *, limit_s: float, figure: str
) -> int:
    """Return the highest concurrency (MOST_CONCURRENCY at most) whose `figure` keeps `limit_s`.

    0 where one request alone does not.
    """
    low, high = 0, MOST_CONCURRENCY + 1
    while high - low > 1:
        middle = (low + high) // 2
        kept = predict(work, parameters, middle, bandwidth).value(figure) <= limit_s
        low, high = (middle, high) if kept else (low, middle)
    return low
