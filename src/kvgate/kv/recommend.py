"""How deep deduplication should go for a workload, and why.

The rule is that of the layers of KV tiering: prefix reuse where prefixes are shared; on top of it
storage dedup and compression where hits are cold, as only storage can serve those; on top of that
a direct device path where restoring the cold ones takes more than the ordinary path carries. With
no shared prefix, or with everything resident, storage has nothing to give.
"""

from __future__ import annotations

import dataclasses

from kvgate.kv.assess import Assessment

SHARED_LEAST = 0.01
"""Shared-prefix ratio below which prefixes count as not shared."""

COLD_LEAST = 0.01
"""Share of the hits that is cold below which everything counts as resident."""

LOCAL_PATH = 6.94e9
"""B/s that a restore gets without a device path: one local NVMe drive of the joint test (R2)."""

DEPTHS = (
    "none",
    "semantic prefix reuse",
    "semantic prefix reuse + storage dedup and compression",
    "semantic prefix reuse + storage dedup and compression + device path",
)
"""What is recommended, by depth from 0."""


@dataclasses.dataclass(frozen=True, slots=True)
class Recommendation:
    """A depth from 0, its reasons, and what could not be told (with what to give)."""

    depth: int
    reasons: tuple[str, ...]
    open: tuple[str, ...] = ()

    @property
    def named(self) -> str:
        """Return what is recommended."""
        return DEPTHS[self.depth]


def recommend(found: Assessment) -> Recommendation:
    """Return how deep to go; what isn't told is left open, never taken for good or bad."""
    shared = found.shared
    if shared < SHARED_LEAST:
        return Recommendation(
            0,
            (
                f"{shared:.2%} of the input tokens repeat an earlier prefix (below "
                f"{SHARED_LEAST:.0%}): there is nothing to reuse",
            ),
        )
    reasons = [f"{shared:.1%} of the input tokens repeat an earlier prefix"]
    if found.cold is None:
        told = (
            "what is cold can't be told without the sizes of HBM and DRAM: --model, --hbm, --dram"
        )
        return Recommendation(1, tuple(reasons), (told,))
    if found.cold < COLD_LEAST:
        reasons.append(
            f"HBM and DRAM serve all but {found.cold:.2%} of the hits (below {COLD_LEAST:.0%}): "
            "everything is resident, storage would add nothing"
        )
        return Recommendation(1, tuple(reasons))
    reasons.append(f"{found.cold:.1%} of the hits are cold: neither HBM nor DRAM can serve them")
    if not found.levels[2].tokens:
        told = "the tier as sized serves none of them: give it a larger --tier"
        return Recommendation(1, tuple(reasons), (told,))
    return _path(found, reasons)


def _path(found: Assessment, reasons: list[str]) -> Recommendation:
    """Return whether restoring what is cold takes a device path."""
    path = found.question.path or LOCAL_PATH
    window = found.windows[-1]
    needed = found.bytes_of(window.restored[1])
    if needed is None:
        return Recommendation(2, tuple(reasons))
    told = (
        f"p95 of {window.width_s} s windows restores {needed / 1e9:.2f} GB/s from the tier, "
        f"the ordinary path carries {path / 1e9:.2f} GB/s"
    )
    return Recommendation(3 if needed > path else 2, (*reasons, told))
