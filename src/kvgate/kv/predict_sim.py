"""One batch of requests through one server, event by event: who waits, restores, computes, decodes.

Deterministic: rates are constant between events, so that every time is exact to rounding. An
instance computes KV one request at a time, first come, first served; restores share one
bandwidth equally, whatever instance they are for. While requests wait for an instance's
prefill, its decodes get only what the interference term gives them of its time.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

_NEARLY = 1e-9  # of a time or amount: what is left of it is rounding


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One request: bytes to restore or seconds to compute, a constant, and tokens to decode.

    Exactly one of ``restore_bytes`` and ``prefill_s`` is above 0.
    """

    instance: int
    restore_bytes: float
    prefill_s: float
    overhead_s: float
    output_tokens: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What all requests share: bytes/s, and how an instance decodes beside its prefill.

    A token of `n` requests decoding on an instance takes ``decode_base_s + n * decode_each_s``;
    beside a prefill they get ``interference * n`` seconds for each second that it gets.
    """

    bandwidth: float
    decode_base_s: float
    decode_each_s: float
    interference: float


@dataclasses.dataclass(frozen=True, slots=True)
class Answered:
    """When a request's first token came and its last, in s after the batch began."""

    first_s: float
    last_s: float


@dataclasses.dataclass(slots=True)
class _State:
    job: Job
    phase: str  # restore, prefill, overhead, decode, done
    left: float
    first_s: float = math.inf
    last_s: float = math.inf


def run(jobs: Sequence[Job], server: Server) -> tuple[Answered, ...]:
    """Return when each of `jobs`, all sent at 0 s, was answered, in their order."""
    states = [
        _State(
            job, "prefill" if job.prefill_s > 0 else "restore", job.prefill_s or job.restore_bytes
        )
        for job in jobs
    ]
    now = 0.0
    while moving := list(_rates(states, server)):
        step = min(state.left / rate for state, rate in moving)
        now += step
        for state, rate in moving:
            left = state.left - rate * step
            state.left = 0.0 if left <= _NEARLY * rate else left
            if not state.left:
                _next(state, now)
    return tuple(Answered(state.first_s, state.last_s) for state in states)


def _next(state: _State, now: float) -> None:
    """Let a request whose phase is over go on to its next one that takes any time."""
    if state.phase in ("restore", "prefill") and state.job.overhead_s > 0:
        state.phase, state.left = "overhead", state.job.overhead_s
    elif state.phase != "decode" and state.job.output_tokens > 1:
        state.phase, state.left, state.first_s = "decode", state.job.output_tokens - 1.0, now
    else:
        state.first_s = min(state.first_s, now)
        state.phase, state.last_s = "done", now


def _rates(states: Sequence[_State], server: Server) -> Iterator[tuple[_State, float]]:
    """Yield each request that moves on, and how much of what is left it does a second."""
    restoring = [state for state in states if state.phase == "restore"]
    for state in restoring:
        yield state, server.bandwidth / len(restoring)
    for state in states:
        if state.phase == "overhead":
            yield state, 1.0
    heads: dict[int, _State] = {}
    decoding: dict[int, list[_State]] = {}
    for state in states:
        if state.phase == "prefill":
            heads.setdefault(state.job.instance, state)
        elif state.phase == "decode":
            decoding.setdefault(state.job.instance, []).append(state)
    for instance, head in heads.items():
        beside = server.interference * len(decoding.get(instance, ()))
        yield head, 1 / (1 + beside)
    for instance, together in decoding.items():
        beside = server.interference * len(together)
        share = beside / (1 + beside) if instance in heads else 1.0
        token_s = server.decode_base_s + server.decode_each_s * len(together)
        if share > 0:
            yield from ((state, share / token_s) for state in together)
