import datetime
import decimal
from collections.abc import Iterator
from typing import Any

import pytest

from kvgate import witness as asking
from kvgate.model.quantity import Quantity
from kvgate.probes import clock
from kvgate.transport.base import CommandResult

BEGAN = datetime.datetime(2027, 1, 1, 0, 0, 0, 250000, tzinfo=datetime.UTC)
BEGAN_S = decimal.Decimal(int(BEGAN.timestamp())) + decimal.Decimal("0.25")


def result(host_s: decimal.Decimal, elapsed_s: float) -> CommandResult:
    return CommandResult(
        host="h1",
        argv=("date",),
        exit_status=0,
        stdout=f"{host_s:.9f}\n".encode(),
        stderr=b"",
        started_at=BEGAN,
        elapsed_s=elapsed_s,
    )


def test_the_offset_is_taken_in_the_middle_of_the_question() -> None:
    found = clock.compare(asking.Testimony(result(BEGAN_S + decimal.Decimal("1.02"), 0.04), ""))
    assert (found.offset_s, found.uncertain_s) == (decimal.Decimal(1), decimal.Decimal("0.02"))


def test_the_quickest_question_counts(
    scripted: Any, told: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    witness = scripted({}, {})
    answers: Iterator[CommandResult] = iter(
        [result(BEGAN_S + 9, 2.0), result(BEGAN_S - 3, 0.01), result(BEGAN_S + 5, 0.5)]
    )
    monkeypatch.setattr(witness.transport, "run", lambda *_, **__: next(answers))
    answer = clock.ask_clock(witness)
    assert told(answer) == {
        ("clock.offset", ""): Quantity.of("-3005", "ms"),
        ("clock.uncertainty", ""): Quantity.of(5, "ms"),
    }
    assert len(answer.evidence) == clock.ASKED_TIMES


def test_this_machine_agrees_with_itself(here: Any, told: Any) -> None:
    found = told(clock.ask_clock(here({})))
    offset, uncertain = found["clock.offset", ""], found["clock.uncertainty", ""]
    assert abs(offset.base) <= uncertain.base * 2
