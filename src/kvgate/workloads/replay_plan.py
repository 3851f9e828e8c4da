"""A plan's replay as what is done on a host, and what that takes."""

from __future__ import annotations

from collections.abc import Mapping

from kvgate.kv.geometry import Geometry
from kvgate.kv.models import known, named
from kvgate.spec.replay import ReplayWorkload
from kvgate.workloads.base import Estimate
from kvgate.workloads.replay import Reads, Spec

_B_S = 1e9  # what a path is reckoned to carry, for estimates
_EACH_S = 2.0  # to send the program, make and remove its folder, measured over SSH on loopback


def spec_of(
    workload: ReplayWorkload, seed: int, *, models: Mapping[str, Geometry] | None = None
) -> Spec:
    """Return the replay of one round: every session at each concurrency, serial and parallel.

    Raises UsageError for a model that is not known, GeometryError for ranks that don't divide.
    """
    model = named(workload.model, dict(models) if models is not None else known())
    levels = tuple(
        Reads(concurrency=concurrency, readers=readers)
        for concurrency in workload.concurrency
        for readers in (1, workload.readers)
    )
    return Spec(
        seed=seed,
        sessions=workload.sessions,
        chunks=-(-workload.tokens // workload.chunk_tokens),
        chunk_bytes=model.shard(workload.tp, workload.dtype).chunk_bytes(workload.chunk_tokens),
        ranks=workload.ranks or workload.tp,
        compressed_pct=workload.compressible,
        drop_caches=workload.drop_caches,
        store_readers=workload.readers,
        levels=levels,
    )


def estimate(workload: ReplayWorkload) -> Estimate:
    """Return what a plan's replay takes on a host: seconds about, bytes written at most."""
    spec = spec_of(workload, 0)
    stored = spec.sessions * spec.session_bytes
    runs = workload.rounds * len(workload.runs)
    written = runs * stored
    moved = written * (1 + len(spec.levels))
    if workload.dedup_rounds:
        runs += 2 * workload.dedup_rounds
        written += 2 * workload.dedup_rounds * stored
        moved += 6 * workload.dedup_rounds * stored
    if workload.plant:
        runs, written, moved = runs + 1, written + stored, moved + 3 * stored
    if workload.tier:
        capacity = int(workload.tier.capacity.base)
        more = capacity + len(workload.tier.percent) * stored
        runs, written, moved = runs + 1, written + more, moved + 2 * more
    return Estimate(runs * _EACH_S + moved / _B_S, written)
