"""Which host differs: sentences, ties, silence, and that order changes nothing."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.judge import alike
from kvgate.judge.decide import decide
from kvgate.model.finding import Attempt, Finding
from kvgate.model.quantity import Quantity
from kvgate.model.record import Measurement, Value
from kvgate.model.verdict import Verdict
from kvgate.spec.expect import Expectations, Requirement
from kvgate.spec.gate import Criterion

NOW = datetime.datetime(2026, 11, 30, tzinfo=datetime.UTC)
MEASURE = "kernel.release"


def taken(values: dict[str, Value | None], item: str = "") -> list[Measurement]:
    return [
        Measurement(
            name=MEASURE,
            value=value,
            host=host,
            item=item,
            phase="inspection",
            taken_at=NOW,
            evidence=("a" * 64,),
            problem="" if value is not None else "no answer",
        )
        for host, value in values.items()
    ]


def expected(hosts: list[str], how: str = "same", values: tuple[Value, ...] = ()) -> Expectations:
    return {(host, MEASURE, ""): Requirement(how, values, "node: kernel") for host in hosts}


def finding(values: dict[str, Value | None], need: Expectations) -> Finding:
    criterion = Criterion.model_validate(
        {
            "id": "G1.3",
            "text": "t",
            "measure": MEASURE,
            "phase": "inspection",
            "hosts": "all",
            "limits": {"acceptance": {"matches_inventory": True}},
            "basis": "b",
        }
    )
    return decide(
        criterion,
        criterion.limits["acceptance"],
        covers={host: ("",) for host, _, _ in need},
        expected=need,
        taken=taken(values),
        attempt=Attempt(criterion="G1.3", outcome="ran"),
    )


def fleet(size: int) -> dict[str, Value | None]:
    return {f"node-{number:02}": "6.8.0-45" for number in range(1, size + 1)}


def test_the_outlier_is_named() -> None:
    values = fleet(32) | {"node-17": "6.8.0-41"}
    found = finding(values, expected(list(values)))
    assert found.verdict is Verdict.FAIL
    assert found.because == "31 hosts agree on 6.8.0-45, node-17 differs: 6.8.0-41"
    failed = [host for host in found.hosts if host.verdict is Verdict.FAIL]
    assert [(host.host, host.because) for host in failed] == [
        ("node-17", "differs: 31 hosts agree on 6.8.0-45")
    ]


def test_all_alike_pass_and_one_alone_agrees_with_itself() -> None:
    for size in (1, 3):
        found = finding(fleet(size), expected(list(fleet(size))))
        assert found.verdict is Verdict.PASS, found.because


def test_a_tie_names_both_groups() -> None:
    values: dict[str, Value | None] = {"a": "1", "b": "2", "c": "1", "d": "2"}
    found = finding(values, expected(list(values)))
    assert found.verdict is Verdict.FAIL
    assert found.because == "no majority among 4 hosts: a, c: 1; b, d: 2"
    assert all(host.verdict is Verdict.FAIL for host in found.hosts)


def test_a_host_without_an_answer_is_inconclusive_and_named() -> None:
    values = fleet(3) | {"node-02": None}
    found = finding(values, expected(list(values)))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.because == "node-02: no answer"
    unmeasured = finding(fleet(2), expected([*fleet(2), "node-09"]))
    assert unmeasured.verdict is Verdict.INCONCLUSIVE
    assert "node-09" in unmeasured.because


def test_agreeing_on_a_version_that_is_too_old_fails_by_the_version() -> None:
    values = fleet(3)
    need = expected(list(values), "version_at_least", ("6.9",))
    found = finding(values, need)
    assert found.verdict is Verdict.FAIL
    assert "declared: version ≥ 6.9" in found.because
    newer = finding(values | {"node-02": "6.9.1"}, need)
    assert "node-02" not in [h.host for h in newer.hosts if "version" in h.because]


def test_link_states_of_items_and_quantities_in_other_units() -> None:
    need: Expectations = {
        (host, MEASURE, "eth0"): Requirement("same", (), "links") for host in ("a", "b", "c")
    }
    speeds = {"a": Quantity.of(100, "Gbit/s"), "b": Quantity.of(100000, "Mbit/s")}
    places = {
        (host, "eth0"): taken({host: speed}, "eth0")
        for host, speed in {**speeds, "c": Quantity.of(25, "Gbit/s")}.items()
    }
    told = alike.apart(places, need)
    assert told.told == ("2 items on 2 hosts agree on 100 Gbit/s, c (eth0) differs: 25 Gbit/s",)
    assert list(told.outliers) == [("c", "eth0")]


def test_one_place_with_two_values_differs_with_itself() -> None:
    places = {("a", ""): [*taken({"a": "1"}), *taken({"a": "2"})]}
    assert alike.apart(places, expected(["a"])).told == ("no majority among 1 host: a: 1 and 2",)


def test_groups_are_compared_apart() -> None:
    need = expected(["a"]) | {("b", MEASURE, ""): Requirement("same", (), "client: kernel")}
    places = {(host, ""): taken({host: value}) for host, value in (("a", "1"), ("b", "2"))}
    assert alike.apart(places, need) == alike.Apart({}, ())


@pytest.mark.parametrize("how", ["equals", "one_of"])
def test_without_same_nothing_is_compared(how: str) -> None:
    need = {(host, MEASURE, ""): Requirement(how, ("1", "2")) for host in "ab"}
    places = {(host, ""): taken({host: value}) for host, value in (("a", "1"), ("b", "2"))}
    assert alike.apart(places, need).outliers == {}


@settings(deadline=None, max_examples=50)
@given(st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from("123"), min_size=1))
def test_a_majority_never_differs_and_the_rest_always_does(values: dict[str, str]) -> None:
    places = {(host, ""): taken({host: value}) for host, value in values.items()}
    found = alike.apart(places, expected(list(values)))
    backwards = alike.apart(dict(reversed(places.items())), expected(list(values)))
    assert found == backwards
    counts = {value: list(values.values()).count(value) for value in values.values()}
    winners = [value for value, count in counts.items() if 2 * count > len(values)]
    differing = {host for host, value in values.items() if value not in winners}
    assert {host for host, _ in found.outliers} == differing
    assert bool(found.told) is bool(differing)
