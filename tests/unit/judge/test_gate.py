from __future__ import annotations

from collections.abc import Callable

import pytest
import yaml

from kvgate.judge.gate import how_to_scope_out, judge_gate, judge_run
from kvgate.model.finding import Attempt, GateResult, RunResult
from kvgate.model.quantity import Quantity
from kvgate.model.record import Measurement
from kvgate.model.verdict import Disposition, Verdict
from kvgate.spec.expect import expectations
from kvgate.spec.gate import Gate
from kvgate.spec.inventory import Inventory
from kvgate.spec.plan import ScopeOut

Take = Callable[..., Measurement]


def make_gate(*ids: str, profile: str = "rehearsal", **fields: object) -> Gate:
    each: dict[str, object] = {
        "text": "Latency holds",
        "measure": "lat",
        "phase": "steady_state",
        "hosts": "serving",
        "limits": {profile: {"at_most": "10 ms"}},
        "basis": "test",
    }
    number = ids[0].partition(".")[0]
    return Gate.model_validate(
        {
            "gate": number,
            "title": "t",
            "question": "q?",
            "entry": [],
            "criteria": [each | {"id": id_} | fields for id_ in ids],
        }
    )


@pytest.fixture
def judge(inventory: Inventory) -> Callable[..., GateResult]:
    def judge(
        gate: Gate,
        *taken: Measurement,
        ran: tuple[str, ...] = (),
        scoped_out: dict[str, str] | None = None,
        profile: str = "rehearsal",
        forced: str = "",
    ) -> GateResult:
        return judge_gate(
            gate,
            profile=profile,
            inventory=inventory,
            expected=expectations(inventory, None),
            taken=taken,
            attempts=[Attempt(criterion=id_, outcome="ran") for id_ in ran],
            scoped_out=scoped_out or {},
            forced=forced,
        )

    return judge


@pytest.fixture
def everywhere(taken: Take) -> Callable[[str], list[Measurement]]:
    return lambda text: [
        taken(Quantity.parse(text), name="lat", host=host) for host in ("ini1", "ini2")
    ]


Everywhere = Callable[[str], list[Measurement]]


def test_all_criteria_hold(judge: Callable[..., GateResult], everywhere: Everywhere) -> None:
    result = judge(make_gate("G2.1", "G2.2"), *everywhere("5 ms"), ran=("G2.1", "G2.2"))
    assert (result.verdict, result.disposition) == (Verdict.PASS, Disposition.ACCEPTED)
    assert result.because == "all of 2 criteria hold"
    assert [finding.criterion for finding in result.findings] == ["G2.1", "G2.2"]


def test_marginal_is_named(judge: Callable[..., GateResult], everywhere: Everywhere) -> None:
    result = judge(make_gate("G2.1"), *everywhere("9.9 ms"), ran=("G2.1",))
    assert result.because == "all of 1 criterion hold; close to the limit: G2.1"
    assert result.verdict is Verdict.PASS


def test_a_forced_gate_is_not_accepted(
    judge: Callable[..., GateResult], everywhere: Everywhere
) -> None:
    result = judge(make_gate("G2.1"), *everywhere("5 ms"), ran=("G2.1",), forced="diagnosis")
    assert (result.verdict, result.disposition) == (Verdict.PASS, Disposition.REJECTED)
    assert result.forced == "diagnosis"


@pytest.mark.parametrize(
    ("value", "ran", "verdict", "because"),
    [
        ("50 ms", ("G2.1", "G2.2"), Verdict.FAIL, "of 2 criteria failed: G2.1, G2.2"),
        ("50 ms", ("G2.1",), Verdict.FAIL, "of 2 criteria failed: G2.1, G2.2"),
        ("5 ms", ("G2.1",), Verdict.INCONCLUSIVE, "of 2 criteria inconclusive: G2.2"),
        ("5 B", ("G2.1", "G2.2"), Verdict.INCONCLUSIVE, "of 2 criteria inconclusive: G2.1, G2.2"),
    ],
)
def test_the_gravest_criterion_decides(
    judge: Callable[..., GateResult],
    everywhere: Everywhere,
    value: str,
    ran: tuple[str, ...],
    verdict: Verdict,
    because: str,
) -> None:
    result = judge(make_gate("G2.1", "G2.2"), *everywhere(value), ran=ran)
    assert (result.verdict, result.because) == (verdict, because)
    assert result.disposition is Disposition.REJECTED


def test_a_gate_that_never_ran_is_not_run_and_says_how_to_scope_out(
    judge: Callable[..., GateResult],
) -> None:
    result = judge(make_gate("G2.1"))
    assert result.verdict is Verdict.NOT_RUN
    assert result.findings[0].because == "no test that settles it was run"
    lines = result.findings[0].hint.splitlines()
    assert yaml.safe_load("\n".join(lines[1:]))["scope_out"][0]["criteria"] == ["G2.1"]


def test_the_lines_for_the_plan_are_what_a_plan_accepts() -> None:
    lines = how_to_scope_out("G1.4").splitlines()
    for each in yaml.safe_load("\n".join(lines[1:]))["scope_out"]:
        assert ScopeOut.model_validate(each).criteria == ["G1.4"]


def test_no_limit_for_the_profile_is_not_run(
    judge: Callable[..., GateResult], everywhere: Everywhere
) -> None:
    result = judge(make_gate("G2.1", profile="acceptance"), *everywhere("5 ms"), ran=("G2.1",))
    assert result.verdict is Verdict.NOT_RUN
    found = result.findings[0]
    assert found.because == "it has no limit for profile 'rehearsal', only for acceptance"
    assert "scope_out" in found.hint


def test_scoped_out_is_listed_and_not_judged(
    judge: Callable[..., GateResult], everywhere: Everywhere
) -> None:
    gate = make_gate("G2.1", "G2.2")
    result = judge(
        gate,
        *everywhere("5 ms"),
        ran=("G2.1",),
        scoped_out={"G2.2": "no GPU", "G3.1": "other gate"},
    )
    assert result.verdict is Verdict.PASS
    assert result.because == "all of 1 criterion hold; 1 scoped out"
    assert [(each.criterion, each.reason) for each in result.scoped_out] == [("G2.2", "no GPU")]


def test_everything_scoped_out_is_not_a_pass(judge: Callable[..., GateResult]) -> None:
    result = judge(make_gate("G2.1"), scoped_out={"G2.1": "no"})
    assert (result.verdict, result.disposition) == (Verdict.NOT_RUN, Disposition.REJECTED)
    assert result.because == "every criterion is scoped out: nothing was judged"


def test_no_criteria_is_not_a_pass(judge: Callable[..., GateResult]) -> None:
    empty = make_gate("G2.1").model_copy(update={"criteria": []})
    assert judge(empty).verdict is Verdict.NOT_RUN


def test_the_last_attempt_counts(inventory: Inventory, everywhere: Everywhere) -> None:
    attempts = [
        Attempt(criterion="G2.1", outcome="error", reasons=("link",)),
        Attempt(criterion="G2.1", outcome="ran"),
    ]
    for order, verdict in ((attempts, Verdict.PASS), (attempts[::-1], Verdict.INCONCLUSIVE)):
        result = judge_gate(
            make_gate("G2.1"),
            profile="rehearsal",
            inventory=inventory,
            expected={},
            taken=everywhere("5 ms"),
            attempts=order,
            scoped_out={},
        )
        assert result.verdict is verdict


def test_nothing_declared_is_not_run(judge: Callable[..., GateResult]) -> None:
    gate = make_gate(
        "G1.1", measure="pcie.width", each="pcie", limits={"rehearsal": {"matches_inventory": True}}
    )
    result = judge(gate, ran=("G1.1",))
    assert result.verdict is Verdict.NOT_RUN
    assert "no host declares" in result.findings[0].because


def run(
    inventory: Inventory, *gates: Gate, taken: list[Measurement], ran: tuple[str, ...]
) -> RunResult:
    return judge_run(
        gates,
        run="r1",
        profile="rehearsal",
        inventory=inventory,
        expected={},
        taken=taken,
        attempts=[Attempt(criterion=id_, outcome="ran") for id_ in ran],
        scoped_out={},
        forced={"G3": "diagnosis"},
        criteria_digest="c",
        journal_digest="j",
    )


def test_a_run_is_as_good_as_its_gravest_gate(inventory: Inventory, everywhere: Everywhere) -> None:
    good, never = make_gate("G2.1"), make_gate("G3.1", measure="ttft")
    result = run(inventory, good, never, taken=everywhere("5 ms"), ran=("G2.1",))
    assert [gate.verdict for gate in result.gates] == [Verdict.PASS, Verdict.NOT_RUN]
    assert (result.verdict, result.gates[1].forced) == (Verdict.NOT_RUN, "diagnosis")
    assert (result.run, result.criteria_digest, result.journal_digest) == ("r1", "c", "j")
    only = run(inventory, good, taken=everywhere("5 ms"), ran=("G2.1",))
    assert only.verdict is Verdict.PASS


def test_a_run_without_gates_proves_nothing(inventory: Inventory) -> None:
    assert run(inventory, taken=[], ran=()).verdict is Verdict.NOT_RUN
