from collections.abc import Callable
from typing import Any

from kvgate.load.finding import TRIES, OnRow, Search, Stop, find
from kvgate.load.issued import Issued
from kvgate.load.parts import Done, Part
from kvgate.load.rows import LoadResult, Row
from kvgate.load.sessions import Sessions
from kvgate.load.shape import Closed
from kvgate.load.slo import Level, Slo

Rows = Callable[..., Row]
Result = Callable[..., LoadResult]
WHAT = Sessions(seed=1, input_tokens=64, output_tokens=8)


class Engine:
    """Answers within 0.1 s up to a concurrency, later than any limit beyond it."""

    def __init__(self, row_of: Rows, result_of: Result, most: int) -> None:
        self.row_of, self.result_of, self.most = row_of, result_of, most
        self.parts: list[Part] = []
        self.untold: list[tuple[str, ...]] = []

    def run(self, part: Part, on_row: OnRow, stop: Stop) -> Done:
        assert isinstance(part.shape, Closed)
        assert isinstance(part.what, Sessions)
        self.parts.append(part)
        late = part.shape.concurrency > self.most
        rows = []
        for _ in range(part.what.count or 0):
            if stop():
                break
            rows.append(self.row_of(ttft_s=5.0 if late else 0.1))
            on_row(rows[-1])
        untold = self.untold.pop(0) if self.untold else ()
        return Done(part=part, result=self.result_of(rows), issued=Issued(), untold=untold)


def search(most: int = 64, repeats: int = 1) -> Search:
    return Search(slo=Slo(ttft_s=1.0), most=most, repeats=repeats)


def test_it_is_found_and_lost_levels_are_stopped_early(row_of: Rows, result_of: Result) -> None:
    engine = Engine(row_of, result_of, 11)
    found, done = find(search(), WHAT, engine.run)
    assert (found.kept, found.missed, found.problem) == (11, 12, "")
    missed = [each for each in found.levels if each.kept is False]
    assert missed
    for each in missed:
        assert each.requests < 3 * each.concurrency
        assert f"stopped after {each.requests} of" in each.told
    assert len(done) == len(found.levels) == len(engine.parts)


def test_no_load_has_sessions_of_another(row_of: Rows, result_of: Result) -> None:
    engine = Engine(row_of, result_of, 3)
    find(search(), WHAT, engine.run)
    at = 0
    for part in engine.parts:
        assert isinstance(part.what, Sessions)
        assert part.what.first == at
        at += part.what.count or 0


def test_a_disturbed_level_is_measured_again(row_of: Rows, result_of: Result) -> None:
    engine = Engine(row_of, result_of, 2)
    engine.untold = [("the client was the bottleneck",)] * (TRIES - 1)
    told: list[Level] = []
    found, _ = find(search(most=2), WHAT, engine.run, on_level=told.append)
    assert (found.kept, found.problem) == (2, "")
    assert [each.kept for each in told] == [None, None, True, True]


def test_one_that_stays_disturbed_ends_the_search(row_of: Rows, result_of: Result) -> None:
    engine = Engine(row_of, result_of, 9)
    engine.untold = [(), *[("the client was the bottleneck",)] * TRIES]
    found, _ = find(search(), WHAT, engine.run)
    assert found.problem == "at concurrency 2: the client was the bottleneck"
    assert found.kept == 1


def test_whoever_judges_may_be_asked(row_of: Rows, result_of: Result) -> None:
    engine = Engine(row_of, result_of, 9)
    engine.untold = [("the client was the bottleneck",)] * 9
    judged: Any = lambda _: ""  # noqa: E731
    found, _ = find(search(most=4), WHAT, engine.run, judged=judged)
    assert (found.kept, found.problem) == (4, "")
