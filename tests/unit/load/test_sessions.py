from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.load.issued import came
from kvgate.load.prompts import TextRate
from kvgate.load.rows import Failure, Request, Row
from kvgate.load.sessions import Sessions, SessionSource
from kvgate.load.source import Told

Rows = Callable[..., Row]


def source_of(**what: Any) -> SessionSource:
    return SessionSource(
        Sessions(**{"seed": 1, "input_tokens": 512, "output_tokens": 8, "count": 20, **what})
    )


def played(
    source: SessionSource, row_of: Rows, answer: Callable[[Request], Told] = lambda _: (7,) * 8
) -> tuple[list[Request], list[Row]]:
    """Answer every request at once, follow-ups first."""
    sent: list[Request] = []
    rows: list[Row] = []
    while (request := source.next()) is not None:
        while request is not None:
            sent.append(request)
            tokens = None if isinstance(request.prompt, str) else len(request.prompt)
            row = row_of(
                session=request.session, turn=request.turn, sent_s=len(rows), prompt_tokens=tokens
            )
            rows.append(row)
            request = source.ended(row, answer(request)) if source.follows else None
    return sent, rows


def shared_of(source: SessionSource, rows: Sequence[Row], asked: float | None = None) -> Any:
    found = came([(source.issued, rows)], asked=asked)
    assert found is not None
    return found


@given(
    shared=st.floats(0, 0.95),
    size=st.integers(33, 400),
    prefixes=st.integers(1, 3),
    seed=st.integers(0, 2**60),
)
@settings(max_examples=15, deadline=None)
def test_the_shared_ratio_that_is_asked_for_comes_out(
    row_of: Rows, shared: float, size: int, prefixes: int, seed: int
) -> None:
    count = 20 * prefixes * (1 if shared < 0.8 else 4)
    source = source_of(input_tokens=size, shared=shared, prefixes=prefixes, seed=seed, count=count)
    sent, rows = played(source, row_of)
    assert {len(each.prompt) for each in sent} == {size}
    found = shared_of(source, rows, shared)
    possible = (1 - prefixes / count) * ((size - 1) // 16 * 16) / size
    if shared < possible:
        assert found.off == ""
        assert abs(found.shared - shared) <= 16 / size


def test_distinct_sessions_share_nothing(row_of: Rows) -> None:
    source = source_of()
    sent, rows = played(source, row_of)
    assert len(sent) == 20
    found = shared_of(source, rows, 0.0)
    assert (found.shared, found.off, found.compared_lengths) == (0.0, "", 20)


def test_a_ratio_that_can_not_come_out_is_told(row_of: Rows) -> None:
    source = source_of(count=2, shared=0.9)
    _, rows = played(source, row_of)
    assert "came of 0.900 asked for" in shared_of(source, rows, 0.9).off


def test_a_length_the_engine_counts_otherwise_is_told(row_of: Rows) -> None:
    source = source_of(count=2)
    source.next()
    source.next()
    rows = [row_of(session=f"session-00000{n}", prompt_tokens=511 + n) for n in (0, 1)]
    assert "1 of 2 prompts had another number of tokens" in shared_of(source, rows).off


def test_turns_grow_by_answer_and_more(row_of: Rows) -> None:
    source = source_of(count=2, turns=3, turn_tokens=40, think_s=1.5)
    sent, rows = played(source, row_of)
    assert [(each.session, each.turn, len(each.prompt)) for each in sent] == [
        (f"session-00000{number}", turn, 512 + 48 * turn) for number in (0, 1) for turn in range(3)
    ]
    first, second = sent[0].prompt, sent[1].prompt
    assert second[:520] == (*first, *(7,) * 8)
    assert sent[1].due_s == pytest.approx(rows[0].ended_s + 1.5)
    assert source.replaced == 0
    totals = shared_of(source, rows)
    assert totals.shared == pytest.approx((512 + 560) * 2 / (2 * (512 + 560 + 608)), abs=0.02)


def test_answers_without_ids_are_replaced_and_counted(row_of: Rows) -> None:
    source = source_of(count=1, turns=2, turn_tokens=40)
    sent, _ = played(source, row_of, lambda _: "what it said")
    assert len(sent[1].prompt) == 560
    assert source.replaced == 1


def test_a_session_whose_turn_failed_goes_no_further(row_of: Rows) -> None:
    source = source_of(count=1, turns=3, turn_tokens=40)
    request = source.next()
    assert request is not None
    row = row_of(session=request.session, failure=Failure.TIMEOUT)
    assert source.ended(row, ()) is None
    assert source.dropped == 1
    assert source.next() is None


def test_chats_are_told_by_turns(row_of: Rows) -> None:
    source = source_of(count=1, turns=3, turn_tokens=2, text=TextRate(), chat=True)
    sent, _ = played(source, row_of, lambda r: f"answer {r.turn}")
    assert [len(each.history) for each in sent] == [0, 2, 4]
    assert sent[2].history == (sent[0].prompt, "answer 0", sent[1].prompt, "answer 1")
    assert len(str(sent[2].prompt).split()) == 2


def test_texts_go_on_from_what_was_answered(row_of: Rows) -> None:
    source = source_of(count=1, turns=2, turn_tokens=2, text=TextRate())
    sent, _ = played(source, row_of, lambda _: " so it is")
    assert str(sent[1].prompt).startswith(f"{sent[0].prompt} so it is ")
    assert source.replaced == 0


def test_parts_are_the_whole_in_turn(row_of: Rows) -> None:
    whole, _ = played(source_of(shared=0.5, rate=10.0, first=3), row_of)
    parts = [
        played(source_of(shared=0.5, rate=10.0, first=3, part=part, parts=3), row_of)[0]
        for part in range(3)
    ]
    assert sorted((each for part in parts for each in part), key=lambda e: e.session) == whole
    assert {len(each) for each in parts} == {6, 7}


def test_arrivals_are_due_in_order(row_of: Rows) -> None:
    sent, _ = played(source_of(rate=100.0), row_of)
    due = [each.due_s for each in sent if each.due_s is not None]
    assert len(due) == 20
    assert due == sorted(due)


@pytest.mark.parametrize(
    "wrong",
    [
        {"input_tokens": 0},
        {"shared": 1.0},
        {"turns": 2},
        {"shared": 0.5, "input_tokens": 31},
        {"part": 2, "parts": 2},
        {"chat": True},
        {"think_s": -1.0},
    ],
)
def test_what_can_not_be_made_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        source_of(**wrong)
