"""Holds a value against what its path can carry at most: what is above it was not measured there.

A figure beyond the physical ceiling came from a cache, another device, or data that was never
moved (zeros, deduplicated blocks): it proves nothing, neither good nor bad.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from kvgate.judge.limits import Check, percent
from kvgate.model.quantity import Quantity
from kvgate.model.record import Measurement
from kvgate.model.verdict import Verdict


def against(found: Check, taken: Measurement, ceilings: Sequence[Measurement]) -> Check:
    """Return `found`, with the share of the path's ceiling that it is; above it, INCONCLUSIVE.

    `ceilings` are all measurements of the criterion's ceiling; those of the same host that carry
    no other item and no other label than `taken` are its path's, and the lowest one counts.
    """
    if not isinstance(taken.value, Quantity):
        return found
    near = [each for each in ceilings if _of_path(each, taken)]
    known = [
        each.value
        for each in near
        if isinstance(each.value, Quantity) and each.value.dimension == taken.value.dimension
    ]
    if not known or not min(known).base > 0:
        why = next((each.problem for each in near if each.problem), "none was measured")
        return _with(found, f"no ceiling of its path is known ({why})")
    lowest = min(known)
    share = taken.value.base / lowest.base
    if share > 1:
        told = (
            f"{percent(share - 1)} over the {lowest} that its path can carry: it came from a cache "
            "or another device, or was never moved (zeros, deduplicated data)"
        )
        return Check(Verdict.INCONCLUSIVE, found.shown, told, found.off)
    return _with(found, f"{percent(share)} of its path's ceiling of {lowest}")


def _with(found: Check, told: str) -> Check:
    because = f"{found.because}; {told}" if found.because else told
    return dataclasses.replace(found, because=because)


def _of_path(ceiling: Measurement, taken: Measurement) -> bool:
    return (
        ceiling.host == taken.host
        and ceiling.item in ("", taken.item)
        and all(taken.labels.get(key) == value for key, value in ceiling.labels.items())
    )
