"""Values that have to differ: who shares one fails, in any order, and silence takes no part."""

from __future__ import annotations

import datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.judge.decide import decide
from kvgate.model.finding import Attempt, Finding
from kvgate.model.record import Measurement, Value
from kvgate.model.verdict import Verdict
from kvgate.spec.expect import Requirement
from kvgate.spec.gate import Criterion

NOW = datetime.datetime(2026, 11, 30, tzinfo=datetime.UTC)
MEASURE = "nvmeof.host_nqn"
CRITERION = Criterion.model_validate(
    {
        "id": "G2.1",
        "text": "t",
        "measure": MEASURE,
        "phase": "inspection",
        "hosts": "serving",
        "limits": {"acceptance": {"matches_inventory": True}},
        "basis": "b",
    }
)


def finding(values: dict[str, Value | None], declared: dict[str, str] | None = None) -> Finding:
    own = declared or {}
    need = {
        (host, MEASURE, ""): Requirement(
            "equals" if host in own else "unlike",
            (own[host],) if host in own else (),
            unlike="host NQN",
        )
        for host in values
    }
    taken = [
        Measurement(
            name=MEASURE,
            value=value,
            host=host,
            phase="inspection",
            taken_at=NOW,
            evidence=("a" * 64,),
            problem="" if value is not None else "no answer",
        )
        for host, value in values.items()
    ]
    return decide(
        CRITERION,
        CRITERION.limits["acceptance"],
        covers={host: ("",) for host in values},
        expected=need,
        taken=taken,
        attempt=Attempt(criterion="G2.1", outcome="ran"),
    )


def test_all_different_holds() -> None:
    assert finding({"a": "nqn.1", "b": "nqn.2"}).verdict is Verdict.PASS


def test_a_cloned_image_is_named_on_both_hosts() -> None:
    found = finding({"a": "nqn.1", "b": "nqn.1", "c": "nqn.3"})
    assert found.verdict is Verdict.FAIL
    assert "a, b have the same: nqn.1" in found.because
    assert [each.host for each in found.hosts if each.verdict is Verdict.FAIL] == ["a", "b"]
    assert found.hosts[0].because == "the same on b, and it has to differ"


def test_what_is_declared_counts_too() -> None:
    found = finding({"a": "nqn.1", "b": "nqn.2"}, {"a": "nqn.1", "b": "nqn.9"})
    assert found.verdict is Verdict.FAIL
    assert [each.verdict for each in found.hosts] == [Verdict.PASS, Verdict.FAIL]


def test_who_did_not_answer_takes_no_part() -> None:
    assert finding({"a": "nqn.1", "b": None}).verdict is Verdict.INCONCLUSIVE


def test_the_requirement_says_it() -> None:
    assert str(Requirement("unlike", (), unlike="x")) == "different on all hosts"
    assert str(Requirement("equals", ("n",), unlike="x")) == "n, different on all hosts"


@settings(max_examples=30)
@given(st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(["1", "2", "3"]), min_size=1))
def test_exactly_those_who_share_fail(values: dict[str, Value | None]) -> None:
    found = finding(values)
    shared = {host for host, value in values.items() if list(values.values()).count(value) > 1}
    assert {each.host for each in found.hosts if each.verdict is Verdict.FAIL} == shared
    assert found == finding(dict(reversed(values.items())))
