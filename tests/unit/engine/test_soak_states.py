from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvgate.engine.soak_states import MARGIN_S, Span, request_readings, state_of, window_state
from kvgate.load.rows import Failure, Row

WHEN = datetime.datetime(2026, 5, 12, tzinfo=datetime.UTC)


def row(sent_s: float, end_s: float = 0.1, *, ttft_s: float = 0.05, failed: bool = False) -> Row:
    return Row(
        session="s", sent_at=WHEN, sent_s=sent_s, ttft_s=None if failed else ttft_s,
        token_times_s=(), end_s=end_s, asked_tokens=1, prompt_tokens=1, output_tokens=1,
        cached_tokens=None, output_sha256=None, logits_sha256=None,
        failure=Failure.CONNECTION if failed else None, error="refused" if failed else "",
    )  # fmt: skip


FAULT = Span(10.0, 14.0)


@pytest.mark.parametrize(
    ("sent_s", "end_s", "state"),
    [
        (0.0, 1.0, "normal"),
        (9.0, 0.4, "normal"),
        (9.0, 0.5, "fault"),
        (9.0, 9.0, "fault"),
        (12.0, 0.1, "fault"),
        (14.5, 0.1, "fault"),
        (14.6, 0.1, "recovery"),
        (99.0, 0.1, "recovery"),
    ],
)
def test_a_request_has_the_state_of_its_whole_life(sent_s: float, end_s: float, state: str) -> None:
    assert state_of(row(sent_s, end_s), [FAULT]) == state
    assert state_of(row(sent_s, end_s), []) == "normal"


def test_between_two_faults_is_recovery() -> None:
    assert state_of(row(20.0), [FAULT, Span(30.0, 31.0)]) == "recovery"
    assert state_of(row(30.5), [FAULT, Span(30.0, 31.0)]) == "fault"


spans = st.lists(
    st.tuples(st.floats(0, 100), st.floats(0, 20)).map(lambda p: Span(p[0], p[0] + p[1])),
    max_size=3,
)
times = st.floats(0, 150, allow_nan=False)


@given(times, st.floats(0, 30), spans)
def test_no_request_that_touches_a_fault_counts_as_normal(
    sent_s: float, end_s: float, faults: list[Span]
) -> None:
    state = state_of(row(sent_s, end_s), faults)
    touches = any(
        sent_s <= f.repaired_s + MARGIN_S and sent_s + end_s >= f.begun_s - MARGIN_S for f in faults
    )
    assert (state == "fault") is touches
    if state == "normal":
        assert all(sent_s + end_s < f.begun_s for f in faults)
    if state == "recovery":
        assert any(sent_s > f.repaired_s for f in faults)


def told(rows: list[Row], faults: list[Span]) -> dict[tuple[str, str], tuple[str, str]]:
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for state, readings in request_readings(rows, faults):
        for reading in readings:
            value = reading.value
            found[reading.name, state] = ("" if value is None else str(value), reading.problem)
    return found


def test_a_normal_window() -> None:
    assert told([row(1, ttft_s=0.1), row(2, ttft_s=0.2), row(3, ttft_s=0.3)], []) == {
        ("soak.requests", "normal"): ("3", ""),
        ("soak.request_errors", "normal"): ("0", ""),
        ("soak.answered", "normal"): ("3", ""),
        ("soak.ttft_p50", "normal"): ("0.2 s", ""),
    }


def test_errors_in_and_after_a_fault_are_counted_apart() -> None:
    rows = [row(1), row(2), row(9.9, 3, failed=True), row(12, failed=True), row(20), row(21)]
    found = told(rows, [FAULT])
    assert found["soak.requests", "normal"] == ("2", "")
    assert found["soak.request_errors", "normal"] == ("0", "")
    assert found["soak.request_errors", "fault"] == ("2", "")
    assert found["soak.request_errors", "recovery"] == ("0", "")
    assert found["soak.answered", "fault"] == ("4", "")
    assert found["soak.ttft_p50", "fault"] == ("0.05 s", "")
    assert ("soak.ttft_p50", "normal") not in found


def test_an_error_in_a_normal_window_leaves_no_median() -> None:
    found = told([row(1), row(2, failed=True), row(3)], [])
    assert found["soak.request_errors", "normal"] == ("1", "")
    assert found["soak.ttft_p50", "normal"] == ("", "1 of 3 requests failed; the first: refused")


def test_silence_is_no_recovery_and_no_median() -> None:
    found = told([row(1)], [FAULT])
    assert found["soak.request_errors", "recovery"] == ("", "no request was sent after it")
    assert found["soak.ttft_p50", "fault"] == ("", "p50 takes 2 values; there are 1")


def test_a_planted_error_of_each_state_is_seen() -> None:
    for at, state in ((1.0, "normal"), (12.0, "fault"), (20.0, "recovery")):
        found = told([row(at, failed=True)], [FAULT])
        assert found["soak.request_errors", state] == ("1", "")


def test_the_state_of_a_window() -> None:
    assert (window_state([]), window_state([FAULT])) == ("normal", "fault")
