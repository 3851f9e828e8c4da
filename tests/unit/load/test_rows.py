import dataclasses
import datetime
import json

import pytest

from kvgate.load.figures import as_readings
from kvgate.load.rows import Failure, LoadResult, Row, as_evidence
from kvgate.model.quantity import Quantity
from kvgate.model.record import Reading

NOW = datetime.datetime(2026, 5, 12, tzinfo=datetime.UTC)


def row(at: float, **changes: object) -> Row:
    whole = Row(
        session="s",
        sent_at=NOW,
        sent_s=0,
        ttft_s=at,
        token_times_s=(at, at + 0.3),
        end_s=at + 0.3,
        asked_tokens=4,
        prompt_tokens=9,
        output_tokens=4,
        cached_tokens=None,
        output_sha256="o",
        logits_sha256="l",
    )
    return dataclasses.replace(whole, **changes)


BROKEN = row(
    0, ttft_s=None, token_times_s=(), output_tokens=None, failure=Failure.HTTP, error="500"
)


def result(*rows: Row) -> LoadResult:
    return LoadResult(
        base_url="u",
        model="m",
        concurrency=2,
        started_at=NOW,
        elapsed_s=2.0,
        lag_max_s=0.004,
        rows=rows,
    )


def readings(*rows: Row) -> dict[str, Reading]:
    return {reading.name: reading for reading in as_readings(result(*rows))}


def test_figures() -> None:
    found = readings(*(row(ttft) for ttft in (0.3, 0.1, 0.2)))
    assert {name: str(reading.value) for name, reading in found.items()} == {
        "g3.requests": "3",
        "g3.request_errors": "0",
        "g3.client_lag": "0.004 s",
        "g3.ttft": "0.2 s",
        "g3.client_bottleneck": "0",
        "g3.tpot": "0.1 s",
        "g3.itl": "0.3 s",
        "g3.e2e": "0.5 s",
        "g3.throughput": "6.0 tok/s",
    }


@pytest.mark.parametrize(
    ("count", "carried"),
    [
        (1, set()),
        (2, {"g3.ttft"}),
        (9, {"g3.ttft"}),
        (10, {"g3.ttft", "g3.ttft_p90"}),
        (99, {"g3.ttft", "g3.ttft_p90"}),
        (100, {"g3.ttft", "g3.ttft_p90", "g3.ttft_p99"}),
    ],
)
def test_no_percentile_that_the_sample_cannot_carry(count: int, carried: set[str]) -> None:
    found = readings(*(row(0.1 * i) for i in range(1, count + 1)))
    assert {n for n, r in found.items() if n.startswith("g3.ttft") and r.value} == carried


def test_a_failed_request_is_counted_and_ends_percentiles() -> None:
    found = readings(*(row(0.1) for _ in range(20)), BROKEN)
    assert found["g3.request_errors"].value == Quantity.of(1, "")
    assert found["g3.ttft"].value is None
    assert found["g3.ttft"].problem == "1 of 21 requests failed; the first: http: 500"
    assert found["g3.throughput"].value == Quantity.of(40, "tok/s")


def test_nothing_sent_is_no_figure() -> None:
    found = readings()
    assert found["g3.ttft"].problem == "no request was sent"
    assert found["g3.throughput"].value is None


def test_a_broken_answer_has_no_digest() -> None:
    assert row(0.1).output_digest == "o/l"
    assert BROKEN.output_digest is None
    assert row(0.1, logits_sha256=None).output_digest == "o/no-logits"


def test_evidence_holds_every_row() -> None:
    evidence = as_evidence(result(row(0.1), BROKEN), "c1")
    facts, *rows = map(json.loads, evidence.stdout.splitlines())
    assert facts["rows"] == 2
    assert [each["failure"] for each in rows] == [None, "http"]
    assert evidence.ended_at - evidence.started_at == datetime.timedelta(seconds=2)
