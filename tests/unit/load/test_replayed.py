"""A recorded load is the load that was measured, to the last digit; anything else is refused."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvgate.load.replayed import of_lines
from kvgate.load.rows import Failure, LoadResult, Row, as_evidence
from kvgate.transport.base import CommandResult

UTC = st.datetimes(timezones=st.just(datetime.UTC))
SECONDS = st.floats(0, 1e6, allow_nan=False)
COUNT = st.none() | st.integers(0, 10**6)
ROWS = st.builds(
    Row,
    session=st.text(),
    sent_at=UTC,
    sent_s=SECONDS,
    ttft_s=st.none() | SECONDS,
    token_times_s=st.lists(SECONDS, max_size=4).map(tuple),
    end_s=SECONDS,
    asked_tokens=st.integers(0, 10**6),
    prompt_tokens=COUNT,
    output_tokens=COUNT,
    cached_tokens=COUNT,
    output_sha256=st.none() | st.text(),
    logits_sha256=st.none() | st.text(),
    failure=st.none() | st.sampled_from(Failure),
    error=st.text(),
)
LOADS = st.builds(
    LoadResult,
    base_url=st.text(),
    model=st.text(),
    concurrency=st.integers(1, 64),
    started_at=UTC.filter(lambda at: at.year < 9000),
    elapsed_s=SECONDS,
    lag_max_s=SECONDS,
    rows=st.lists(ROWS, max_size=4).map(tuple),
)


def answered(load: LoadResult, **changed: Any) -> CommandResult:
    """Return a load's evidence as a recording answers it."""
    piece = as_evidence(load, "h1")
    fields: dict[str, Any] = {
        "host": piece.host,
        "argv": piece.command,
        "exit_status": piece.exit_status,
        "stdout": piece.stdout,
        "stderr": piece.stderr,
        "started_at": piece.started_at,
        "elapsed_s": 1.0,
    }
    return CommandResult(**fields | changed)


@given(LOADS)
def test_what_was_kept_of_a_load_is_the_load(load: LoadResult) -> None:
    again = of_lines(answered(load))
    assert again == load
    assert as_evidence(again, "h1") == as_evidence(load, "h1")


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_what_is_no_load_is_refused(data: bytes) -> None:
    load = LoadResult(
        base_url="u",
        model="m",
        concurrency=1,
        started_at=datetime.datetime(2026, 5, 12, tzinfo=datetime.UTC),
        elapsed_s=1.0,
        lag_max_s=0.0,
        rows=(),
    )
    with pytest.raises((ValueError, KeyError, TypeError)):
        of_lines(answered(load, stdout=data))


@given(LOADS.filter(lambda load: load.rows))
def test_a_load_of_which_rows_are_missing_is_refused(load: LoadResult) -> None:
    data = answered(load).stdout
    with pytest.raises(ValueError, match="rows of"):
        of_lines(answered(load, stdout=data[: data.rstrip(b"\n").rindex(b"\n") + 1]))
