"""What an engine's own counters prove about a block of restores: hits, bytes, and how cold.

Hits are asserted from counters, never inferred from equal output: with the KV deleted the output
is equal too. Cold is proven twice: by tokens the engine says it took from the tier, and by bytes
the kernel says its process made the device deliver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvgate.model.quantity import Quantity
from kvgate.model.record import Reading
from kvgate.serving.config import model_named

HITS = "vllm:external_prefix_cache_hits_total"
DELIVERED = "kvgate:tier_read_bytes_total"
DEVICE = "kvgate:device_read_bytes_total"
DAMAGED = "kvgate:tier_chunks_damaged_total"


def restorable(prompt_tokens: int, model: str) -> int:
    """Return how many tokens of a stored prompt a tier can give: whole chunks, all but the last.

    At least one token is computed, since the answer's first comes out of it.
    """
    block = model_named(model).block
    return min(prompt_tokens // block * block, prompt_tokens - 1)


def tier_readings(
    before: Mapping[str, float],
    after: Mapping[str, float],
    *,
    cached_tokens: Sequence[int | None],
    expected_tokens: int,
    tiered: bool,
) -> tuple[Reading, ...]:
    """Return what two scrapes around a block prove; a counter that ran backwards proves nothing.

    `cached_tokens` is what each answer's usage said; `expected_tokens` what full hits would be.
    Shares are only given for a tiered arm; without a tier there is nothing to be a share of.
    """
    hits = _delta(before, after, HITS)
    delivered, device = _delta(before, after, DELIVERED), _delta(before, after, DEVICE)
    readings = [
        _hit_tokens(hits, cached_tokens),
        _reading("g3.chunks_damaged", _delta(before, after, DAMAGED), ""),
        _reading("g3.tier_bytes_read", delivered, "B"),
    ]
    if tiered:
        hit = readings[0].value
        exact = hit.to("") if isinstance(hit, Quantity) else readings[0].problem
        readings += [
            _reading("g3.device_bytes_read", device, "B"),
            _share("g3.hit_tokens_share", exact, expected_tokens),
            _share("g3.cold_share", device, delivered),
        ]
    return tuple(readings)


def _delta(before: Mapping[str, float], after: Mapping[str, float], name: str) -> float | str:
    """Return how far a counter rose, or why that is not known."""
    if name not in before or name not in after:
        return f"the engine does not report {name}"
    if after[name] < before[name]:
        return f"{name} ran backwards: {before[name]:.0f} to {after[name]:.0f}"
    return after[name] - before[name]


def _hit_tokens(hits: float | str, cached_tokens: Sequence[int | None]) -> Reading:
    """Return the tokens hit, if the engine's counter and its answers agree on them."""
    if isinstance(hits, float):
        if not cached_tokens or None in cached_tokens:
            hits = "not every answer told its cached tokens"
        elif (told := sum(each or 0 for each in cached_tokens)) != hits:
            hits = f"the engine counted {hits:.0f} hit tokens, its answers {told}"
    return _reading("g3.hit_tokens", hits, "")


def _share(name: str, part: float | str, whole: float | str) -> Reading:
    if isinstance(part, str) or isinstance(whole, str):
        problem = part if isinstance(part, str) else str(whole)
        return Reading(name=name, value=None, problem=problem)
    if whole <= 0:
        return Reading(name=name, value=None, problem="nothing was read from the tier")
    return Reading(name=name, value=Quantity.of(round(100 * part / whole, 4), "%"))


def _reading(name: str, value: float | str, unit: str) -> Reading:
    if isinstance(value, str):
        return Reading(name=name, value=None, problem=value)
    return Reading(name=name, value=Quantity.of(int(value), unit))
