"""Shows what a replay came to, as text and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kvgate.untrusted import plain

if TYPE_CHECKING:
    from kvgate.judge.ratio import Interval
    from kvgate.workloads.replay import Spec, Told
    from kvgate.workloads.replay_result import Level, Replayed
    from kvgate.workloads.replay_rounds import Rounds

PERCENTILES = (50, 90, 99, 99.9)
_MUST_BE_COLD = ("restore", "filled", "mixed")


def code(found: Sequence[Replayed]) -> int:
    """Return the exit code: 1 where a chunk came back wrong, 2 where something is not proven."""
    unhealed = any(
        each.full and each.full["reached"] and not each.full["recovered"] for each in found
    )
    if any(each.damaged or each.missed for each in found) or unhealed:
        return 1
    levels = [level for each in found for level in each.of_phase(*_MUST_BE_COLD)]
    unproven = any(_unproven(level) or _unchecked(level) for level in levels)
    unproven = unproven or any(each.full and not each.full["reached"] for each in found)
    return 2 if unproven or any(each.problems for each in found) else 0


def _unchecked(level: Level) -> bool:
    return level.rate("read") is not None and not level.line["checked"]


def _unproven(level: Level) -> str:
    """Return why a level's restores are inconclusive; "" where they count."""
    mixed = level.phase == "mixed" and level.rate("read") is None
    return "" if mixed else level.not_cold or level.disturbed


def lines(spec: Spec, told: Sequence[Told]) -> Iterator[str]:
    """Yield the whole as lines for a terminal."""
    yield (
        f"{spec.sessions} sessions of {spec.session_bytes / 1e9:.3f} GB "
        f"({spec.session_bytes / 2**30:.3f} GiB): {spec.chunks} chunks of {spec.padded_bytes:,} B "
        f"on each of {spec.ranks} ranks, {spec.shared} of them the same in all sessions; "
        f"seed {spec.seed}"
    )
    if spec.padded_bytes != spec.chunk_bytes:
        yield f"  a chunk is {spec.chunk_bytes:,} B, stored in whole pages"
    if len(told) > 1:
        yield f"  {len(told)} hosts began each phase within {1000 * apart_s(told):.1f} ms"
    for each in told:
        for line in _of_host(each):
            yield plain(line)


def apart_s(told: Sequence[Told]) -> float:
    """Return how far apart hosts began a phase at most, each by its clock less how far it is ahead.

    How far a clock is ahead is known to half a round trip, and so is this.
    """
    begun = [
        [float(level.line["started"]) - each.clock_ahead_s for level in each.found.levels]
        for each in told
    ]
    return max((max(phase) - min(phase) for phase in zip(*begun, strict=False)), default=0.0)


def _of_host(told: Told) -> Iterator[str]:
    found, begin = told.found, told.found.begin
    device = f"block device {begin['device']}" if begin["device"] else "no block device"
    yield (
        f"{found.host}: {begin['file_system']} on {begin['source']} ({device}); content by "
        f"{begin['content_by']}, checked by {begin['checked_by']}, Python {begin['python']}"
    )
    if begin["removed"]:
        yield f"  removed what a killed replay left: {', '.join(begin['removed'])}"
    for level in found.levels:
        if level.phase not in ("planted", "until_full"):
            yield from _of_level(level)
    yield from _of_ends(found)
    yield from (f"  DAMAGED {each}" for each in found.damages)
    yield from (f"  NOT DONE {each}" for each in found.problems)


def _of_level(level: Level) -> Iterator[str]:
    yield f"  {level.name}"
    line = level.line
    for what, kind, sessions in (("read", "reads", "restored"), ("written", "writes", "stored")):
        rate = level.rate(what)
        if rate is None:
            continue
        yield (
            f"    {sessions} {len(line[sessions])} sessions at {rate / 1e9:.3f} GB/s "
            f"({rate / 2**30:.3f} GiB/s); session s: {_times(level, sessions)}; "
            f"chunk ms: {_chunks(level, kind)}"
        )
    if level.rate("written") is not None:
        yield (
            f"    bytes stored {line['bytes_written']:,}, at the device "
            f"{_known(line['device_written'])}, held by the file system {line['allocated']:,}"
        )
    cpu = level.cpu_per_gb()
    if cpu is not None:
        checks = level.cpu_per_gb("check_cpu_s") or 0.0
        content = level.cpu_per_gb("make_cpu_s") or 0.0
        yield f"    CPU {cpu:.3f} s a GB, of it checks {checks:.3f}, content {content:.3f}"
    if level.rate("read") is not None:
        share = level.cold_share
        told = f"{100 * share:.1f} % of the bytes delivered came from storage" if share else "cold?"
        yield f"    {told}" + (f"; INCONCLUSIVE: {why}" if (why := _unproven(level)) else ": cold")
        if line["checked"]:
            yield f"    {line['checked']} chunks checked, {line['damaged']} damaged"
        else:
            yield "    NOT CHECKED: whether what came back is what was stored is not known"
    if line["evicted"]:
        yield f"    {line['evicted']} sessions evicted meanwhile"
    if line["full"]:
        yield f"    {line['full']} sessions met the end of the space (ENOSPC)"


def _of_ends(found: Replayed) -> Iterator[str]:
    if found.full is not None:
        full = found.full
        if full["reached"]:
            healed = (
                "all that was left is right, and storing goes on"
                if full["recovered"]
                else "NOT HEALED"
            )
            yield f"  at ENOSPC: {full['evicted']} sessions evicted, {healed}"
        else:
            yield "  at ENOSPC: not reached within --capacity"
    if found.plants is not None:
        for kind, session, place, named in found.plants["rows"]:
            state = "found" if named == kind else f"MISSED (named {named or 'nothing'})"
            yield f"  planted {kind} in session {session}, chunk {place}: {state}"


def _known(count: int) -> str:
    return f"{count:,}" if count >= 0 else "not counted"


def _times(level: Level, sessions: str) -> str:
    told = []
    for pct in (50, 90, 99):
        if (at := level.time(pct, sessions)) is not None:
            told.append(f"p{pct} {at:.3f}")
    times = level.times(sessions)
    return ", ".join([*told, f"max {times[-1]:.3f}"]) if times else "none"


def _chunks(level: Level, kind: str) -> str:
    told = []
    for pct in PERCENTILES:
        if (at := level.chunk_s(pct, kind)) is not None:
            told.append(f"p{pct:g} {at * 1e3:.2f}")
    return ", ".join(told) or "too few"


def document(spec: Spec, told: Sequence[Told]) -> dict[str, Any]:
    """Return the whole as JSON: what was asked, and what each host said, with what follows."""
    return {
        "replay": 1,
        "spec": dataclasses.asdict(spec) | {"session_bytes": spec.session_bytes},
        "hosts": [
            {
                "host": each.found.host,
                "clock_ahead_s": each.clock_ahead_s,
                "begin": dict(each.found.begin),
                "levels": [_as_json(level) for level in each.found.levels],
                "plants": each.found.plants,
                "full": each.found.full,
                "problems": list(each.found.problems),
                "damages": each.found.damages,
            }
            for each in told
        ],
        "code": code([each.found for each in told]),
    }


def _as_json(level: Level) -> dict[str, Any]:
    return {
        **level.line,
        "name": level.name,
        "restore_bytes_per_s": level.rate("read"),
        "store_bytes_per_s": level.rate("written"),
        "restore_s": {f"p{pct}": level.time(pct) for pct in (50, 90, 99)},
        "chunk_s": {f"p{pct:g}": level.chunk_s(pct) for pct in PERCENTILES},
        "cpu_s_per_gb": level.cpu_per_gb(),
        "cold_share": level.cold_share,
        "not_cold": level.not_cold,
        "disturbed": level.disturbed,
    }


def two_lines(found: Rounds) -> list[str]:
    """Return the two factors as lines."""
    import statistics

    def mean(name: str) -> str:
        rate = statistics.geometric_mean(getattr(each, name) for each in found.cells)
        return f"{rate / 1e9:8.3f}"

    two = found.found
    return [
        f"restore GB/s, geometric mean of {two.blocks} rounds",
        "                     serial parallel",
        f"  unique data      {mean('unique_serial')} {mean('unique_parallel')}",
        f"  dedup data (80 %){mean('dedup_serial')} {mean('dedup_parallel')}",
        f"parallel over serial: {_interval(two.parallel)}",
        f"dedup over unique:    {_interval(two.dedup)}",
        f"interaction:          {_interval(two.interaction)}: {two.told}",
        *_all_alike(found),
    ]


def _all_alike(found: Rounds) -> list[str]:
    """Return in a line why restores don't count, however many levels it was."""
    if not found.not_cold:
        return []
    levels = 4 * len(found.cells)
    return [f"INCONCLUSIVE: {len(found.not_cold)} of {levels} levels, first: {found.not_cold[0]}"]


def two_document(found: Rounds) -> dict[str, Any]:
    """Return the two factors as JSON."""
    two = found.found
    return {
        "rounds": [dataclasses.asdict(each) for each in found.cells],
        "parallel": dataclasses.asdict(two.parallel),
        "dedup": dataclasses.asdict(two.dedup),
        "interaction": dataclasses.asdict(two.interaction),
        "told": two.told,
        "not_cold": list(found.not_cold),
    }


def _interval(found: Interval) -> str:
    return f"{found.ratio:.3f} x ({found.level}: {found.low:.3f} to {found.high:.3f})"
