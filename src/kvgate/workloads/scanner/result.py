"""From what was found to the result document: figures with their errors and where they are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kvgate.workloads.scanner import hashing
from kvgate.workloads.scanner.chunks import LARGEST, SMALLEST, USUAL, chunker
from kvgate.workloads.scanner.course import CDC
from kvgate.workloads.scanner.index import EVERYTHING, GROUP_BITS, GROUP_MASK
from kvgate.workloads.scanner.kinds import KINDS, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvgate.workloads.scanner.index import Index
    from kvgate.workloads.scanner.state import State
    from kvgate.workloads.scanner.totals import Totals

FORMAT = 1
MOST_PROBLEMS = 200
MOST_ROWS = 20
_Z95 = 1.96


def document(
    state: State, roots: Sequence[bytes], totals: Totals, *, elapsed_s: float
) -> dict[str, Any]:
    """Return the result as plain values, the same for the same content and settings.

    ``elapsed_s`` and ``through_cache_bytes`` are the only figures of how it was scanned.
    """
    counts, listed = totals.counts, state.meta("counts")
    sizes = totals.settings.levels()
    by_group = _Groups(totals.indexes[sizes[0]], totals.groups)
    problems = state.rows(
        f"SELECT path, what FROM problems ORDER BY path, what LIMIT {MOST_PROBLEMS}"  # noqa: S608
    )
    return {
        "scan_format": FORMAT,
        "roots": [shown(each) for each in roots],
        "listed": listed,
        "logical_bytes": counts["bytes"],
        "left_out_bytes": counts["left_out"],
        "physical_bytes": listed["used"],
        "hole_bytes": counts["hole_bytes"],
        "levels": [_level(totals, size) for size in sizes],
        "compression": [_codec(name, sums) for name, sums in sorted(totals.samples.items())],
        "looked_at_by": _name(sizes[0]),
        "kinds": _kinds(state, by_group),
        "folders": _folders(state, roots, by_group),
        "same_files": _same_files(state),
        "tensors": _tensors(state),
        "problems": {
            "count": next(state.rows("SELECT count(*) FROM problems"))[0],
            "first": [{"path": path, "what": what} for path, what in problems],
        },
        "tools": _tools(),
        "through_cache_bytes": counts["through_cache"],
        "elapsed_s": round(elapsed_s, 3),
    }


def _tools() -> dict[str, Any]:
    cutter = chunker()
    return {
        "hash": hashing.ALGORITHM,
        "chunker": cutter.name if cutter else None,
        "numpy": hashing.np is not None,
    }


def _name(size: int) -> str:
    if size == CDC:
        return f"content-defined, {SMALLEST // 1024} to {LARGEST // 1024} KiB"
    return f"{size // 1024} KiB"


def _level(totals: Totals, size: int) -> dict[str, Any]:
    """Return one block size's figures; sampled ones with their 95 % interval.

    Of n distinct blocks each is kept with probability p, so the sum of the kept blocks' bytes over
    p has the variance of a Horvitz-Thompson estimate: sum of bytes² × (1 - p) ÷ p².
    """
    index, exact = totals.indexes[size], totals.levels[size]
    part = index.below / EVERYTHING
    kept, kept_bytes, squares = _distinct(index)
    unique = min(round(kept_bytes / part), totals.counts["bytes"])
    off = _Z95 * math.sqrt(squares * (1 - part)) / part
    logical = totals.counts["bytes"]
    return {
        "name": _name(size),
        "size": size or SMALLEST + USUAL,
        "chunked": size == CDC,
        **exact,
        "unique_blocks": round(kept / part),
        "unique_bytes": unique,
        "ratio": _ratio(logical, unique),
        "sampled_part": part,
        "unique_bytes_low": max(0, round(unique - off)),
        "unique_bytes_high": min(round(unique + off), logical),
    }


def _ratio(logical: int, unique: int) -> float | None:
    return round(logical / unique, 4) if unique else None


def _distinct(index: Index) -> tuple[int, int, int]:
    """Return how many distinct digests there are, the sum of their bytes, and of bytes²."""
    keys, _, sizes = index.rows()
    if hashing.np is None:
        first = [
            at
            for at, key in enumerate(keys)
            if not at or key >> GROUP_BITS != keys[at - 1] >> GROUP_BITS
        ]
        kept = [sizes[at] for at in first]
        return len(kept), sum(kept), sum(each * each for each in kept)
    kept = sizes[_firsts(keys)].astype("u8")
    return len(kept), int(kept.sum()), int((kept * kept).sum())


def _firsts(keys: Any) -> Any:
    """Return where another digest begins: a mask over sorted keys."""
    np = hashing.np
    digests = keys >> np.uint64(GROUP_BITS)
    mask = np.ones(len(keys), dtype=bool)
    np.not_equal(digests[1:], digests[:-1], out=mask[1:])
    return mask


class _Groups:
    """By folder and kind: its bytes, what is distinct in it, and what nobody else has."""

    def __init__(self, index: Index, logical: dict[int, int]) -> None:
        self.logical = logical
        self._part = index.below / EVERYTHING
        self._unique: dict[int, int] = {}
        self._alone: dict[int, int] = {}
        keys, _, sizes = index.rows()
        last = len(keys) - 1
        if hashing.np is None:
            for at, key in enumerate(keys):
                shared = (at and keys[at - 1] >> GROUP_BITS == key >> GROUP_BITS) or (
                    at < last and keys[at + 1] >> GROUP_BITS == key >> GROUP_BITS
                )
                self._count(key & GROUP_MASK, sizes[at], 0 if shared else sizes[at])
        elif len(keys):
            self._count_all(keys, sizes)

    def _count_all(self, keys: Any, sizes: Any) -> None:
        np = hashing.np
        first = _firsts(keys)
        alone = first & np.append(first[1:], True)
        groups = (keys & np.uint64(GROUP_MASK)).astype(np.int64)
        unique = np.bincount(groups, weights=sizes)
        lonely = np.bincount(groups, weights=sizes * alone)
        for group in np.flatnonzero(unique):
            self._count(int(group), int(unique[group]), int(lonely[group]))

    def _count(self, group: int, unique: int, alone: int) -> None:
        self._unique[group] = self._unique.get(group, 0) + unique
        self._alone[group] = self._alone.get(group, 0) + alone

    def row(self, group: int) -> dict[str, int]:
        """Return a group's bytes: all, again in itself, and distinct ones that others have too."""
        logical = self.logical.get(group, 0)
        unique = min(round(self._unique.get(group, 0) / self._part), logical)
        alone = min(round(self._alone.get(group, 0) / self._part), unique)
        return {
            "logical_bytes": logical,
            "again_inside_bytes": logical - unique,
            "also_elsewhere_bytes": unique - alone,
        }


def _kinds(state: State, by_group: _Groups) -> list[dict[str, Any]]:
    rows = []
    query = "SELECT kind, count(*), sum(size), sum(used) FROM files GROUP BY kind ORDER BY kind"
    for kind, files, size, used in list(state.rows(query)):
        groups = [row[0] for row in state.rows("SELECT id FROM groups WHERE kind = ?", kind)]
        told = [by_group.row(group) for group in groups]
        inside = sum(each["again_inside_bytes"] for each in told)
        rows.append(
            {
                "kind": KINDS[kind],
                "files": files,
                "listed_bytes": size,
                "physical_bytes": used,
                "again_in_their_folder_bytes": inside,
                "also_elsewhere_bytes": sum(each["also_elsewhere_bytes"] for each in told),
            }
        )
    return rows


def _folders(state: State, roots: Sequence[bytes], by_group: _Groups) -> dict[str, Any]:
    """Return the folders that most redundancy is in, and how many there are."""
    rows: list[dict[str, Any]] = []
    for group, root, folder, kind in state.rows("SELECT id, root, folder, kind FROM groups"):
        path = roots[root] + (b"/" + folder if folder else b"")
        rows.append({"path": shown(path), "kind": KINDS[kind], **by_group.row(group)})
    rows.sort(
        key=lambda row: (
            -row["again_inside_bytes"] - row["also_elsewhere_bytes"],
            row["path"],
            row["kind"],
        )
    )
    return {"count": len(rows), "first": rows[:MOST_ROWS]}


_WHOLE = """
SELECT f.id AS id, f.kind AS kind, f.size AS size,
  coalesce((SELECT group_concat(at || ':' || digest) FROM
    (SELECT at, digest FROM parts WHERE file = f.id ORDER BY at)), '') AS digest
FROM files f WHERE f.size > 0 AND f.done"""


def _same_files(state: State) -> dict[str, Any]:
    """Return how many whole files are equal to another, and the groups that waste most."""
    state.db.execute("CREATE INDEX IF NOT EXISTS parts_of ON parts (file)")
    state.db.execute(f"CREATE TEMP TABLE whole AS {_WHOLE}")
    state.db.execute("CREATE INDEX temp.whole_by ON whole (size, digest)")
    grouped = """SELECT size, count(*) AS n, min(id), max(id) FROM whole
        GROUP BY size, digest HAVING n > 1"""
    totals = next(state.rows(f"SELECT count(*), sum(n - 1), sum((n - 1) * size) FROM ({grouped})"))  # noqa: S608  constant
    most = state.rows(f"{grouped} ORDER BY (n - 1) * size DESC, min(id) LIMIT {MOST_ROWS}")
    rows = [
        {"bytes": size, "times": n, "paths": [_path(state, first), _path(state, last)]}
        for size, n, first, last in list(most)
    ]
    kinds = state.rows(
        "SELECT kind, sum(n - 1), sum((n - 1) * size) FROM (SELECT kind, size, count(*) AS n "
        "FROM whole GROUP BY kind, size, digest HAVING n > 1) GROUP BY kind ORDER BY kind"
    )
    by_kind = {KINDS[kind]: {"again": again, "bytes": size} for kind, again, size in list(kinds)}
    state.db.execute("DROP TABLE temp.whole")
    return {
        "by_kind": by_kind,
        "groups": totals[0],
        "again": totals[1] or 0,
        "bytes": totals[2] or 0,
        "first": rows,
    }


def _path(state: State, file: int) -> str:
    return shown(next(state.rows("SELECT path FROM files WHERE id = ?", file))[0])


def _tensors(state: State) -> dict[str, Any]:
    """Return how many tensors are equal to another, and those that waste most, by name."""
    state.db.execute("CREATE INDEX IF NOT EXISTS tensors_by ON tensors (digest, bytes)")
    grouped = """SELECT digest, bytes, count(*) AS n, count(DISTINCT file) AS files,
        min(name) AS name, min(dtype) AS dtype, min(file) AS first, max(file) AS last
        FROM tensors GROUP BY digest, bytes"""
    all_of = next(state.rows("SELECT count(*), sum(bytes), count(DISTINCT file) FROM tensors"))
    unique = next(state.rows(f"SELECT count(*), sum(bytes) FROM ({grouped})"))  # noqa: S608
    most = state.rows(
        f"SELECT * FROM ({grouped}) WHERE n > 1 "  # noqa: S608
        f"ORDER BY (n - 1) * bytes DESC, name, digest LIMIT {MOST_ROWS}"
    )
    rows = [
        {
            **{"name": name, "dtype": dtype, "bytes": size, "times": n, "files": files},
            "paths": [_path(state, first), _path(state, last)],
        }
        for _, size, n, files, name, dtype, first, last in list(most)
    ]
    return {
        **{"files": all_of[2], "count": all_of[0], "bytes": all_of[1] or 0},
        **{"unique": unique[0], "unique_bytes": unique[1] or 0, "first": rows},
    }


def _codec(name: str, sums: Sequence[int]) -> dict[str, Any]:
    """Return a codec's ratio over sampled blocks with its 95 % interval (ratio estimator)."""
    blocks, raw, packed, raw2, packed2, both = sums
    row: dict[str, Any] = {"codec": name, "blocks": blocks, "raw_bytes": raw}
    if not packed:
        return {**row, "ratio": None, "ratio_low": None, "ratio_high": None}
    share = packed / raw  # the stored part, whose error is nearer to normal than the ratio's
    variance = max(packed2 - 2 * share * both + share * share * raw2, 0.0)
    off = _Z95 * math.sqrt(variance) / raw
    low, high = share + off, max(share - off, 1e-9)
    return {
        **row,
        **{"ratio": round(1 / share, 4), "ratio_low": round(1 / low, 4)},
        "ratio_high": round(1 / high, 4),
    }
