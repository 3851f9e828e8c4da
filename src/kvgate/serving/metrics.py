"""Counts and times what the engine does, and speaks Prometheus' text format about it, both ways.

Names are vLLM's where it has them (``vllm:…``), ``kvgate:…`` otherwise.
"""

from __future__ import annotations

import contextlib
import pathlib
import re
import threading
from collections.abc import Mapping

from kvgate.errors import ParseError

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

COUNTERS = {
    "vllm:prompt_tokens_total": "Prompt tokens of finished requests",
    "vllm:generation_tokens_total": "Tokens generated",
    "vllm:prefix_cache_queries_total": "Prompt tokens looked for in the hot tier in memory",
    "vllm:prefix_cache_hits_total": "Prompt tokens taken from the hot tier in memory",
    "vllm:external_prefix_cache_queries_total": "Prompt tokens looked for in the KV tier",
    "vllm:external_prefix_cache_hits_total": "Prompt tokens taken from the KV tier",
    "vllm:request_success_total": "Requests answered to their end",
    "kvgate:requests_cancelled_total": "Requests whose client went away",
    "kvgate:requests_refused_total": "Requests answered with an error",
    "kvgate:hot_chunks_hit_total": "Chunks used from memory",
    "kvgate:tier_read_bytes_total": "Bytes of chunk files delivered to requests",
    "kvgate:tier_written_bytes_total": "Bytes of chunk files published",
    "kvgate:tier_chunks_hit_total": "Chunks read, checked and used",
    "kvgate:tier_chunks_missed_total": "Full chunks of prompts that were not in the tier",
    "kvgate:tier_chunks_damaged_total": "Chunks that failed their check and were not used",
    "kvgate:tier_chunks_written_total": "Chunks published",
    "kvgate:tier_chunks_deduplicated_total": "Chunks whose payload was stored already",
    "kvgate:tier_chunks_compressed_total": "Chunks published compressed; others would not shrink",
    "kvgate:tier_chunks_evicted_total": "Chunks removed to make room",
    "kvgate:tier_chunks_refused_total": "Chunks for which there was no room within the bound",
    "kvgate:tier_write_errors_total": "Chunks that could not be published",
}

HISTOGRAMS = {
    "vllm:time_to_first_token_seconds": "From a request's arrival to its first token",
    "vllm:inter_token_latency_seconds": "From a token to the next one of the same request",
    "vllm:e2e_request_latency_seconds": "From a request's arrival to its last token",
    "vllm:request_queue_time_seconds": "From a request's arrival to its slot",
    "kvgate:tier_restore_seconds": "Time to bring one prompt's chunks from the disk into its cache",
}


class _Histogram:
    """Counts of seconds by bucket, and their sum."""

    def __init__(self) -> None:
        self.buckets = [0] * len(_SECONDS)
        self.count = 0
        self.sum_s = 0.0

    def add(self, seconds: float) -> None:
        self.count += 1
        self.sum_s += seconds
        for index, bound in enumerate(_SECONDS):
            self.buckets[index] += seconds <= bound


class Metrics:
    """Counters and histograms from 0, safe in many threads."""

    def __init__(self, model: str) -> None:
        self._labels = f'{{model_name="{model}"}}'
        self._model = model
        self._lock = threading.Lock()
        self._counts: dict[str, float] = dict.fromkeys(COUNTERS, 0)
        self._histograms = {name: _Histogram() for name in HISTOGRAMS}

    def add(self, name: str, amount: float = 1) -> None:
        """Raise counter `name`, one of COUNTERS."""
        with self._lock:
            self._counts[name] += amount

    def count(self, name: str) -> float:
        """Return counter `name`."""
        with self._lock:
            return self._counts[name]

    def observe(self, name: str, seconds: float) -> None:
        """Put a time into histogram `name`, one of HISTOGRAMS."""
        with self._lock:
            self._histograms[name].add(seconds)

    def render(self, gauges: Mapping[str, float]) -> str:
        """Return everything as text; `gauges` are values of this moment."""
        with self._lock:
            lines = []
            for name, about in COUNTERS.items():
                lines += [f"# HELP {name} {about}", f"# TYPE {name} counter"]
                lines.append(f"{name}{self._labels} {self._counts[name]:.17g}")
            for name in HISTOGRAMS:
                lines += self._buckets(name)
        for name, value in gauges.items():
            lines += [f"# TYPE {name} gauge", f"{name}{self._labels} {value:.15g}"]
        device = device_bytes_read()
        if device is not None:
            name = "kvgate:device_read_bytes_total"
            lines += [f"# TYPE {name} counter", f"{name}{self._labels} {device}"]
        return "\n".join(lines) + "\n"

    def _buckets(self, name: str) -> list[str]:
        one = self._histograms[name]
        lines = [f"# HELP {name} {HISTOGRAMS[name]}", f"# TYPE {name} histogram"]
        bounds = [f"{bound:g}" for bound in _SECONDS] + ["+Inf"]
        for bound, count in zip(bounds, [*one.buckets, one.count], strict=True):
            lines.append(f'{name}_bucket{{model_name="{self._model}",le="{bound}"}} {count}')
        lines.append(f"{name}_sum{self._labels} {one.sum_s:.6f}")
        lines.append(f"{name}_count{self._labels} {one.count}")
        return lines


def device_bytes_read() -> int | None:
    """Return the bytes this process made the storage layer fetch (proc(5): io, read_bytes).

    What the page cache served is not in it. None where the kernel does not tell.
    """
    with contextlib.suppress(OSError):
        text = pathlib.Path("/proc/self/io").read_text(encoding="ascii")
        if match := re.search(r"^read_bytes: (\d+)$", text, re.MULTILINE):
            return int(match[1])
    return None


_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(\{.*\})?\s+(\S+)(?:\s+\S+)?")


def parse(text: str) -> dict[str, float]:
    """Return name → value, summed over label sets; histogram buckets are left out.

    Raises ParseError for a line that is no sample.
    """
    found: dict[str, float] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _SAMPLE.fullmatch(line.strip())
        try:
            name, value = (match[1], float(match[3])) if match else ("", float("nan"))
        except ValueError as err:
            raise ParseError(f"metrics: line {number}: {err}") from err
        if not match:
            raise ParseError(f"metrics: line {number} is not a sample: {line[:80]!r}")
        if not name.endswith("_bucket"):
            found[name] = found.get(name, 0.0) + value
    return found
