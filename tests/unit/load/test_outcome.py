from collections.abc import Callable
from typing import Any

from kvgate.load.outcome import Loaded, outcome
from kvgate.load.parts import Done, levels
from kvgate.load.rows import Failure, LoadResult, Row
from kvgate.load.sessions import Sessions
from kvgate.load.slo import Found, Slo
from kvgate.report.loaded import document, row_as_json, sheet
from kvgate.report.sheet import text

Rows = Callable[..., Row]
Result = Callable[..., LoadResult]
WHAT = Sessions(seed=1, input_tokens=64, output_tokens=8)


def loaded(rows: list[Row], result_of: Result, **more: Any) -> Loaded:
    (part,) = levels(WHAT, [1], requests=lambda _: len(rows))
    source = part.source()
    while source.next() is not None:
        pass
    untold = more.pop("untold", ())
    done = Done(part=part, result=result_of(rows), issued=source.issued, untold=untold)
    return outcome(url="http://h:1", model="m", seed=1, done=[done], **more)


def rows_of(row_of: Rows, count: int, **more: Any) -> list[Row]:
    return [
        row_of(session=f"session-{at:06d}", prompt_tokens=64, sent_s=at / 10, **more)
        for at in range(count)
    ]


def test_all_well_is_0(row_of: Rows, result_of: Result) -> None:
    found = loaded(rows_of(row_of, 10), result_of, slo=Slo(ttft_s=1.0))
    assert (found.code, found.untold) == (0, ())
    assert document(found)["verdict"] == "p90 of TTFT at most 1 s is kept"


def test_failures_and_missed_levels_are_1(row_of: Rows, result_of: Result) -> None:
    failed = loaded(rows_of(row_of, 10, failure=Failure.HTTP, error="500"), result_of)
    assert failed.code == 1
    missed = loaded(rows_of(row_of, 10), result_of, slo=Slo(ttft_s=0.01))
    assert missed.code == 1
    assert "is not kept" in document(missed)["verdict"]


def test_what_tells_nothing_is_2_even_where_requests_failed(
    row_of: Rows, result_of: Result
) -> None:
    rows = rows_of(row_of, 10, failure=Failure.TIMEOUT)
    lost = loaded(rows, result_of, untold=("client x was lost",))
    assert lost.code == 2
    assert lost.untold == ("concurrency 1: client x was lost",)
    few = loaded(rows_of(row_of, 3), result_of, slo=Slo(ttft_s=1.0))
    assert (few.code, few.untold) == (2, ("concurrency 1: 3 requests are too few for p90",))
    assert loaded([], result_of).code == 2


def test_a_search_goes_by_what_it_found(row_of: Rows, result_of: Result) -> None:
    rows = rows_of(row_of, 10)
    for kept, problem, code in ((4, "", 0), (0, "", 1), (4, "not monotone", 2)):
        found = Found(kept=kept, missed=5, levels=(), problem=problem)
        assert loaded(rows, result_of, found=found, slo=Slo(ttft_s=1.0)).code == code


def test_nothing_that_an_endpoint_says_breaks_sheet_or_rows(
    row_of: Rows, result_of: Result
) -> None:
    rows = rows_of(row_of, 10, failure=Failure.ENGINE, error="<b>\x1b[2J " + "x" * 5000)
    told = "\n".join(text(sheet(loaded(rows, result_of))))
    assert "\x1b" not in told
    assert max(map(len, told.splitlines())) < 400
    assert row_as_json("p", rows[0])["failure"] == "engine"
