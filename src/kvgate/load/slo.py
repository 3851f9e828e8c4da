"""The highest concurrency that keeps a service level, by bracketing, bisection and repeats."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from kvgate.judge.percentile import least_sample, rank
from kvgate.load.rows import LoadResult, Row

LEAST_REQUESTS = 3
"""Requests a level takes for each that is under way, so that it is seen at its full load."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Slo:
    """Limits that ``percent`` of all requests have to keep; seconds, None: no such limit.

    A request that failed has kept none. Raises ValueError where there is no limit, or no such
    percentile.
    """

    ttft_s: float | None = None
    tpot_s: float | None = None
    percent: float = 90

    def __post_init__(self) -> None:
        """Refuse a level that everything keeps."""
        limits = [each for each in (self.ttft_s, self.tpot_s) if each is not None]
        if not limits or not all(0 < each < math.inf for each in limits):
            raise ValueError("a service level has a limit of TTFT or of TPOT, above 0 s")
        if not 50 <= self.percent <= 99.9:
            raise ValueError(f"p{self.percent:g}: a service level is of p50 to p99.9")

    def __str__(self) -> str:
        told = [
            f"{name} at most {limit:g} s"
            for name, limit in (("TTFT", self.ttft_s), ("TPOT", self.tpot_s))
            if limit is not None
        ]
        return f"p{self.percent:g} of {' and '.join(told)}"

    def late(self, row: Row) -> tuple[bool, bool]:
        """Tell which limits `row` has not kept: of TTFT, of TPOT."""
        if row.failure is not None:
            return True, True
        return _over(row.ttft_s, self.ttft_s), _over(row.tpot_s, self.tpot_s)

    def requests_at(self, concurrency: int) -> int:
        """Return how many requests decide a level: what the percentile takes, or more."""
        return max(least_sample(self.percent), LEAST_REQUESTS * concurrency)

    def hopeless(self, requests: int) -> Callable[[Row], bool]:
        """Return what is shown the rows one by one: True once `requests` can't keep it any more."""
        allowed = requests - rank(requests, self.percent)
        counts = [0, 0]

        def seen(row: Row) -> bool:
            for place, late in enumerate(self.late(row)):
                counts[place] += late
            return max(counts) > allowed

        return seen


def _over(value: float | None, limit: float | None) -> bool:
    return limit is not None and value is not None and value > limit


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """What came of one concurrency: kept or not, None where the load can't tell (``told`` why)."""

    concurrency: int
    kept: bool | None
    told: str
    requests: int = 0
    good: int = 0


def level_of(result: LoadResult, slo: Slo, *, concurrency: int, untold: str = "") -> Level:
    """Return how `result` stands to `slo`; `untold` says why nothing can be concluded from it."""
    rows = result.rows
    late = [slo.late(row) for row in rows]
    good = sum(not any(each) for each in late)
    kept: bool | None
    if untold:
        kept, told = None, untold
    elif len(rows) < least_sample(slo.percent):
        kept, told = None, f"{len(rows)} requests are too few for p{slo.percent:g}"
    else:
        allowed = len(rows) - rank(len(rows), slo.percent)
        over = [sum(column) for column in zip(*late, strict=True)]
        kept = max(over) <= allowed
        told = f"{over[0]} late by TTFT, {over[1]} by TPOT, of {len(rows)}; {allowed} may be"
    return Level(concurrency=concurrency, kept=kept, told=told, requests=len(rows), good=good)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The answer of a search: ``kept`` is the highest concurrency that keeps the level, 0 none.

    ``missed`` is the lowest that does not (None: the highest allowed still keeps it); the truth
    lies between them. ``problem`` says why it can't be concluded from, else "".
    """

    kept: int
    missed: int | None
    levels: tuple[Level, ...]
    problem: str = ""

    def __str__(self) -> str:
        if self.problem:
            return f"inconclusive: {self.problem}"
        if not self.kept:
            return f"none: {self.missed} does not keep it"
        return f"{self.kept}" + (
            f" ({self.missed} does not keep it)" if self.missed else " or more"
        )


def search(
    measure: Callable[[int], Level],
    *,
    most: int,
    least: int = 1,
    tolerance: float = 0.1,
    repeats: int = 3,
) -> Found:
    """Return the highest concurrency from `least` to `most` that keeps the level.

    Doubles until a level misses, then bisects until both ends are apart by `tolerance` of the lower
    one (or by 1); each end is measured `repeats` times and goes by its majority (a tie has missed).
    At last one level beyond the end is looked at: were it kept, concurrency would not be what
    decides, and that is the problem told. Raises ValueError for bounds that are none.
    """
    if not 1 <= least <= most or not 0 < tolerance <= 1 or repeats < 1:
        raise ValueError(f"a search from {least} to {most}, by {tolerance:g}, {repeats} times")
    votes = _Votes(least, most, tolerance, repeats)
    levels: list[Level] = []
    while (concurrency := votes.next()) is not None:
        level = measure(concurrency)
        levels.append(level)
        if level.kept is None:
            problem = f"at concurrency {concurrency}: {level.told}"
            return Found(
                kept=votes.edges()[0],
                missed=votes.edges()[1],
                levels=tuple(levels),
                problem=problem,
            )
        votes.add(concurrency, kept=level.kept)
    kept, missed = votes.edges()
    return Found(kept=kept, missed=missed, levels=tuple(levels), problem=votes.contradiction())


class _Votes:
    """What each concurrency came to so far, and which one to measure next."""

    def __init__(self, least: int, most: int, tolerance: float, repeats: int) -> None:
        self._least, self._most = least, most
        self._tolerance, self._repeats = tolerance, repeats
        self._votes: dict[int, list[bool]] = {}

    def add(self, concurrency: int, *, kept: bool) -> None:
        self._votes.setdefault(concurrency, []).append(kept)

    def edges(self) -> tuple[int, int | None]:
        """Return the highest level kept below the lowest that missed (0: none), and that one."""
        missed = min((each for each in self._votes if not self._keeps(each)), default=None)
        below = [
            each for each in self._votes if self._keeps(each) and (missed is None or each < missed)
        ]
        return max(below, default=0), missed

    def next(self) -> int | None:
        """Return the concurrency to measure next; None when all is known."""
        kept, missed = self.edges()
        if missed is None and kept < self._most:
            return min(self._most, max(self._least, 2 * kept))
        if missed is not None and missed - kept > self._gap(kept) and missed > self._least:
            return max(self._least, (kept + missed) // 2)
        ends = [each for each in (kept, missed) if each]
        again = [each for each in ends if len(self._votes[each]) < self._repeats]
        return again[0] if again else self._beyond(missed)

    def contradiction(self) -> str:
        """Say which level was kept above one that missed; "" where none was."""
        _, missed = self.edges()
        above = [each for each in self._votes if missed and each > missed and self._keeps(each)]
        if not above:
            return ""
        return f"concurrency {missed} misses and {min(above)} keeps it: it is not monotone"

    def _gap(self, kept: int) -> int:
        return max(1, int(self._tolerance * kept))

    def _beyond(self, missed: int | None) -> int | None:
        """Return a level above all ends that was not looked at yet."""
        if missed is None or any(each > missed for each in self._votes):
            return None
        beyond = min(self._most, missed + max(1, missed // 2))
        return beyond if beyond > missed else None

    def _keeps(self, concurrency: int) -> bool:
        votes = self._votes[concurrency]
        return 2 * sum(votes) > len(votes)
