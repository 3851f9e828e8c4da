"""Waivers and dispositions: what holds, what does not and says why; the FAIL always stays."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.judge.dispose import Case, dispose
from kvgate.judge.waived import Granted
from kvgate.model.disposed import Disposed, Signed
from kvgate.model.finding import Attempt, Finding, GateResult, HostFinding, RunResult
from kvgate.model.record import ALL_HOSTS
from kvgate.model.verdict import Disposition, Verdict
from kvgate.spec.gate import Criterion
from kvgate.spec.waiver import Waiver

NOW = datetime.datetime(2026, 12, 1, 12, tzinfo=datetime.UTC)
BEGAN = NOW - datetime.timedelta(days=1)
SERIALS = {"n1": ("machine-id:aa", "product:S1"), "n2": ("product:S2",), "sw": ()}


def criterion(id_: str, severity: str = "A") -> Criterion:
    return Criterion.model_validate(
        {
            "id": id_,
            "text": "t",
            "measure": "m",
            "phase": "inspection",
            "hosts": "all",
            "limits": {"acceptance": {"equals": True}},
            "basis": "test",
            "severity": severity,
        }
    )


def finding(id_: str, *places: tuple[str, str, Verdict]) -> Finding:
    hosts = tuple(
        HostFinding(host=h, item=i, verdict=v, measured="no", because=f"{v} there")
        for h, i, v in places
    )
    worst = Verdict.worst(v for _, _, v in places)
    return Finding(criterion=id_, verdict=worst, because="no on it", limit="yes", hosts=hosts)


def result(*findings: Finding, forced: str = "") -> RunResult:
    worst = Verdict.worst(f.verdict for f in findings)
    gate = GateResult(gate="G1", verdict=worst, because="b", findings=findings, forced=forced)
    return RunResult(
        run="r1",
        profile="acceptance",
        verdict=worst,
        gates=(gate,),
        criteria_digest="",
        journal_digest="",
    )


def waiver(**fields: Any) -> Waiver:
    whole = {
        "waiver": "W-0001",
        "criterion": "G1.1",
        "run": "r1",
        "scope": [{"host": "n1", "serial": "S1"}],
        "requester": "Li",
        "owner": "Chen",
        "justification": "because",
        "risk": "small",
        "expires": "2026-12-31",
    }
    return Waiver.model_validate({k: v for k, v in (whole | fields).items() if v is not None})


def signed(role: str, who: str, *, hours: int = -1, problem: str = "") -> Signed:
    at = NOW + datetime.timedelta(hours=hours)
    return Signed(role=role, principal=who, at=at, problem=problem)


BOTH = (signed("buyer", "b@x"), signed("supplier", "s@x"))
FAIL, PASS, OPEN = Verdict.FAIL, Verdict.PASS, Verdict.INCONCLUSIVE
ONE_FAILS = finding("G1.1", ("n1", "", FAIL), ("n2", "", PASS))


def disposed(
    judged: RunResult, *granted: Granted, severity: str = "A", outcome: str = "ran"
) -> Disposed:
    ids = [f.criterion for g in judged.gates for f in g.findings]
    case = Case(
        runs=("r1",),
        began=BEGAN,
        at=NOW,
        criteria={id_: criterion(id_, severity) for id_ in ids},
        attempts={id_: Attempt(criterion=id_, outcome=outcome) for id_ in ids},
        serials=SERIALS,
    )
    return dispose(judged, granted, case)


def granted(*approvals: Signed, **fields: Any) -> Granted:
    return Granted(waiver=waiver(**fields), sha256="0" * 64, signed=approvals)


def test_a_waiver_of_both_parties_makes_it_conditional_and_the_fail_stays() -> None:
    found = disposed(result(ONE_FAILS), granted(*BOTH))
    gate = found.gates[0]
    assert (found.verdict, gate.verdict) == (FAIL, FAIL)
    assert found.disposition is Disposition.ACCEPTED_WITH_CONDITIONS
    condition = gate.conditions[0]
    assert (condition.waiver, condition.owner, condition.until) == ("W-0001", "Chen", "2026-12-31")
    assert found.effects[0].places == ("n1",)


@pytest.mark.parametrize(
    ("given_", "why"),
    [
        pytest.param(granted(*BOTH, expires="2026-11-30"), "expired on 2026-11-30", id="expired"),
        pytest.param(granted(), "unsigned: neither party", id="unsigned"),
        pytest.param(granted(BOTH[0]), "one-sided: the supplier", id="one-sided"),
        pytest.param(
            granted(signed("buyer", "b@x"), signed("supplier", "b@x")),
            "b@x signed for both",
            id="one-person-for-both",
        ),
        pytest.param(
            granted(BOTH[0], signed("supplier", "s@x", problem="the key is not authorised")),
            "supplier's signature does not count: the key",
            id="bad-signature",
        ),
        pytest.param(
            granted(BOTH[0], signed("supplier", "s@x", hours=2)), "later", id="signed-tomorrow"
        ),
        pytest.param(granted(*BOTH, criterion="G1"), "over-wide: it names the whole", id="gate"),
        pytest.param(granted(*BOTH, scope=[]), "over-wide: G1.1 is judged in 2", id="no-host"),
        pytest.param(
            granted(*BOTH, scope=[{"host": "n1"}]), "names no serial number of n1", id="no-serial"
        ),
        pytest.param(
            granted(*BOTH, scope=[{"host": "n1", "serial": "S9"}]),
            "n1 is not the unit",
            id="other-unit",
        ),
        pytest.param(
            granted(*BOTH, scope=[{"host": "n3", "serial": "S1"}]), "does not cover n3", id="host"
        ),
        pytest.param(
            granted(*BOTH, kind="deviation", run=None), "after the run began", id="late-deviation"
        ),
        pytest.param(granted(kind="open_item"), "class A, which blocks", id="class-A-open"),
    ],
)
def test_what_has_no_effect_says_why(given_: Granted, why: str) -> None:
    found = disposed(result(ONE_FAILS), given_)
    assert found.disposition is Disposition.REJECTED
    (effect,) = found.effects
    assert not effect.holds
    assert why in effect.because
    assert effect.places == ()


def test_every_reason_is_named_at_once() -> None:
    (effect,) = disposed(result(ONE_FAILS), granted(scope=[], expires="2026-01-01")).effects
    assert effect.because.count(";") >= 3 - 1
    assert "over-wide" in effect.because
    assert "expired" in effect.because


def test_a_failed_place_that_no_waiver_covers_blocks() -> None:
    both_fail = finding("G1.1", ("n1", "", FAIL), ("n2", "", FAIL))
    gate = disposed(result(both_fail), granted(*BOTH)).gates[0]
    assert gate.disposition is Disposition.REJECTED
    assert "no waiver covers n2" in gate.blocking[0].because


def test_items_are_named_one_by_one() -> None:
    disks = finding("G1.1", ("n1", "d1", FAIL), ("n1", "d2", PASS))
    wide = disposed(result(disks), granted(*BOTH)).effects[0]
    assert "over-wide: name the item on n1" in wide.because
    scope = [{"host": "n1", "item": "d1", "serial": "S1"}]
    assert disposed(result(disks), granted(*BOTH, scope=scope)).effects[0].holds


def test_a_criterion_of_all_hosts_needs_no_host() -> None:
    whole = finding("G1.1", (ALL_HOSTS, "", FAIL))
    assert disposed(result(whole), granted(*BOTH, scope=[])).effects[0].holds


@pytest.mark.parametrize("verdict", [Verdict.INCONCLUSIVE, Verdict.NOT_RUN])
def test_nobody_accepts_what_is_not_known(verdict: Verdict) -> None:
    found = disposed(result(finding("G1.1", ("n1", "", verdict))), granted(*BOTH))
    assert found.disposition is Disposition.REJECTED
    assert f"G1.1 is {verdict}" in found.effects[0].because


def test_a_failure_beside_an_unknown_place_or_a_broken_test_blocks() -> None:
    mixed = finding("G1.1", ("n1", "", FAIL), ("n2", "", OPEN))
    assert disposed(result(mixed), granted(*BOTH)).disposition is Disposition.REJECTED
    broke = disposed(result(ONE_FAILS), granted(*BOTH), outcome="error")
    assert "did not come to its end" in broke.gates[0].blocking[0].because


def test_class_b_stays_open_with_owner_and_date_and_class_c_is_listed() -> None:
    item = granted(kind="open_item")
    found = disposed(result(ONE_FAILS), item, severity="B")
    assert found.disposition is Disposition.ACCEPTED_WITH_CONDITIONS
    assert found.gates[0].conditions[0].kind == "open_item"
    assert disposed(result(ONE_FAILS), severity="B").disposition is Disposition.REJECTED
    cosmetic = disposed(result(ONE_FAILS), severity="C")
    assert cosmetic.disposition is Disposition.ACCEPTED
    assert cosmetic.gates[0].remarks[0].criterion == "G1.1"


def test_a_deviation_signed_before_the_run_holds() -> None:
    early = (signed("buyer", "b@x", hours=-30), signed("supplier", "s@x", hours=-26))
    found = disposed(result(ONE_FAILS), granted(*early, kind="deviation", run=None))
    assert found.disposition is Disposition.ACCEPTED_WITH_CONDITIONS


def test_a_forced_or_empty_gate_is_rejected_whatever_is_waived() -> None:
    forced = disposed(result(ONE_FAILS, forced="look"), granted(*BOTH))
    assert forced.disposition is Disposition.REJECTED
    assert disposed(result()).disposition is Disposition.REJECTED


def test_a_waiver_of_another_run_is_none_of_this_one() -> None:
    assert disposed(result(ONE_FAILS), granted(*BOTH, run="r0")).effects == ()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([FAIL, PASS, OPEN, Verdict.NOT_RUN]), min_size=1, max_size=3),
    st.booleans(),
    st.sampled_from("ABC"),
)
def test_never_accepted_with_anything_unknown_or_class_a_uncovered(
    verdicts: list[Verdict], waive: bool, severity: str
) -> None:
    places = [(f"n{n}", "", verdict) for n, verdict in enumerate(verdicts, 1)]
    given_ = [granted(*BOTH)] if waive else []
    found = disposed(result(finding("G1.1", *places)), *given_, severity=severity)
    worst = Verdict.worst(verdicts)
    assert found.gates[0].verdict is worst
    if any(each in (OPEN, Verdict.NOT_RUN) for each in verdicts):
        assert found.disposition is Disposition.REJECTED
    if severity == "A" and FAIL in verdicts[1:]:
        assert found.disposition is Disposition.REJECTED
