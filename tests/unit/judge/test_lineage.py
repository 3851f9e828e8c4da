"""A run and its retests together: what counts, what falls with a part, and what a soak loses."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvgate.judge.lineage import Change, merge, reach
from kvgate.judge.lineage import Tested as Run
from kvgate.model.finding import Finding, GateResult, HostFinding, RunResult
from kvgate.model.record import ALL_HOSTS
from kvgate.model.verdict import Verdict

PASS, FAIL, NOT_RUN = Verdict.PASS, Verdict.FAIL, Verdict.NOT_RUN
PLACES = (("n1", "disk1"), ("n1", "disk2"), ("n1", ""), ("n2", "disk1"), ("n2", ""))


def finding(id_: str, *places: tuple[str, str], verdict: Verdict = PASS) -> Finding:
    hosts = tuple(
        HostFinding(host=h, item=i, verdict=verdict, measured="x", because="b") for h, i in places
    )
    return Finding(criterion=id_, verdict=verdict, because="b", limit="l", hosts=hosts)


def result(run: str, **gates: list[Finding]) -> RunResult:
    made = tuple(
        GateResult(
            gate=gate,
            verdict=Verdict.worst(f.verdict for f in found),
            because="b",
            findings=tuple(found),
        )
        for gate, found in gates.items()
    )
    return RunResult(
        run=run,
        profile="acceptance",
        verdict=Verdict.worst(each.verdict for each in made),
        gates=made,
        criteria_digest="",
        journal_digest="",
    )


def standing(*tested: Run) -> dict[tuple[str, str, str], Verdict]:
    whole, _ = merge(tested)
    return {
        (f.criterion, h.host, h.item): h.verdict
        for gate in whole.gates
        for f in gate.findings
        for h in f.hosts
    }


DISK1 = Change(host="n1", items=frozenset({"disk1"}), told="n1: disk:S1 was replaced by disk:S2")
FIRST = result(
    "r1",
    G1=[finding("G1.1", *PLACES), finding("G1.9", (ALL_HOSTS, ""))],
    G2=[finding("G2.1", *PLACES)],
    G4=[finding("G4.1", *PLACES), finding("G4.2", ("n2", ""))],
)


def test_a_replaced_part_takes_what_was_found_on_it_through_all_gates_and_the_whole_soak() -> None:
    found = standing(Run(result=FIRST, changed_since=(DISK1,), soaked=frozenset({"G4"})))
    fallen = {place for place, verdict in found.items() if verdict is NOT_RUN}
    by_part = {("n1", "disk1"), ("n1", "")}
    assert {place for place in fallen if place[0] == "G1.1"} == {
        ("G1.1", *each) for each in by_part
    }
    assert {place for place in fallen if place[0] == "G2.1"} == {
        ("G2.1", *each) for each in by_part
    }
    assert ("G1.9", ALL_HOSTS, "") in fallen  # what all hosts came to together
    assert all(found[place] is NOT_RUN for place in found if place[0].startswith("G4."))


def test_without_a_soak_other_units_keep_what_was_found_on_them() -> None:
    found = standing(Run(result=FIRST, changed_since=(DISK1,)))
    assert found["G4.2", "n2", ""] is PASS
    assert found["G4.1", "n1", "disk2"] is PASS
    assert found["G4.1", "n1", "disk1"] is NOT_RUN


def test_what_fell_says_what_was_replaced_and_what_to_do() -> None:
    whole, _ = merge([Run(result=FIRST, changed_since=(DISK1,), soaked=frozenset({"G4"}))])
    soak = next(f for gate in whole.gates for f in gate.findings if f.criterion == "G4.2")
    assert soak.verdict is NOT_RUN
    assert soak.because == (
        "n1: disk:S1 was replaced by disk:S2 after run r1 measured it: test it again"
    )
    assert soak.hint == "kvgate retest"
    assert whole.verdict is NOT_RUN


def test_the_newest_finding_counts_better_or_worse_and_manual_checks_stay() -> None:
    worse = result("r2", G2=[finding("G2.1", *PLACES, verdict=FAIL)])
    tested = [
        Run(result=FIRST, changed_since=(DISK1,), by_people=frozenset({"G1.1"})),
        Run(result=worse, again=("G2.1",)),
    ]
    found = standing(*tested)
    assert found["G1.1", "n1", "disk1"] is PASS
    assert found["G2.1", "n2", ""] is FAIL
    whole, where = merge(tested)
    assert (whole.run, whole.verdict) == ("r2", FAIL)
    assert (where["G2.1"], where["G1.1"]) == ("r2", "r1")


@given(
    st.dictionaries(st.integers(0, 9).map(str), st.lists(st.integers(0, 9).map(str)), max_size=9)
)
def test_what_depends_on_a_part_is_reached_in_circles_too(edges: dict[str, list[str]]) -> None:
    found = reach(["0"], edges)
    assert "0" in found
    assert all(below in found for item in found for below in edges.get(item, ()))
    grown = {"0"}
    for _ in range(11):
        grown |= {below for item in grown for below in edges.get(item, ())}
    assert found == grown
