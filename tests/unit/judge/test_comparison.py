"""Criteria that compare arms, and values against their path's ceiling, as the judge decides."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence

import pytest

from kvgate.engine.noise import noise
from kvgate.errors import SpecError
from kvgate.judge.comparison import Planned
from kvgate.judge.decide import decide
from kvgate.judge.margin import proposed
from kvgate.judge.percentile import least_for_interval
from kvgate.model.finding import Attempt, Finding, GateResult, RunResult
from kvgate.model.quantity import Quantity
from kvgate.model.record import Measurement
from kvgate.model.verdict import Verdict
from kvgate.spec import load, yamlfile
from kvgate.spec.gate import Criterion
from kvgate.store.findings import findings_bytes, read_findings

RATIO = {"of": "device", "to": "local", "better": "lower"}
RAN = Attempt(criterion="G3.10", outcome="ran")
SPREAD = (0.99, 1.02, 1.0, 0.98, 1.01, 1.0, 1.02, 0.99, 1.01, 0.98)


@pytest.fixture
def compared(criterion: Callable[..., Criterion]) -> Callable[..., Criterion]:
    def make(**fields: object) -> Criterion:
        have = {
            "id": "G3.10",
            "measure": "g3.ttft",
            "limits": {"acceptance": {"at_least": "1.283 x"}},
            "ratio": RATIO,
            "where": {"concurrency": "8"},
        }
        return criterion(**(have | fields))

    return make


def runs(
    taken: Callable[..., Measurement],
    times: dict[str, float],
    *,
    rounds: int = 5,
    host: str = "ini1",
    **labels: str,
) -> list[Measurement]:
    """Return each arm's TTFT in `rounds` rounds, around `times`."""
    return [
        taken(
            Quantity.of(round(mean * SPREAD[(number + 3 * place) % 10], 6), "s"),
            name="g3.ttft",
            host=host,
            labels={"arm": arm, "round": str(number), "concurrency": "8"} | labels,
            evidence=(f"{host}/{arm}/{number}",),
        )
        for number in range(1, rounds + 1)
        for place, (arm, mean) in enumerate(times.items())
    ]


def judged(
    criterion: Criterion, measured: Sequence[Measurement], *, looks: tuple[int, ...] = (5,)
) -> Finding:
    return decide(
        criterion,
        criterion.limits["acceptance"],
        covers={host: ("",) for host in sorted({each.host for each in measured}) or ["ini1"]},
        expected={},
        taken=measured,
        attempt=RAN,
        planned=Planned({"g3": looks}, "seed"),
    )


def test_the_published_device_passes_its_claim_less_the_margin(compared, taken) -> None:
    found = judged(compared(), runs(taken, {"device": 7.53, "local": 10.17}))
    assert found.verdict is Verdict.PASS
    told = found.hosts[0].comparison
    assert told is not None
    assert float(told.low.removesuffix(" x")) > 1.283
    assert (told.of, told.to, told.level) == ("device", "local", "95 %")
    assert told.blocks == "5 blocks of 5 planned, look 1 of 1"
    assert told.noise == "not measured: no A/A rounds"
    assert len(found.evidence) == 10


def test_the_same_device_with_arms_swapped_fails(compared, taken) -> None:
    found = judged(compared(), runs(taken, {"device": 10.17, "local": 7.53}))
    assert found.verdict is Verdict.FAIL
    assert "lies wholly under 1.283 x" in found.because


def test_a_ratio_at_its_limit_is_inconclusive(compared, taken) -> None:
    found = judged(compared(), runs(taken, {"device": 1.0, "local": 1.283}))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "both sides" in found.because


def test_order_of_measurements_changes_nothing(compared, taken) -> None:
    measured = runs(taken, {"device": 7.53, "local": 10.17}, rounds=12)
    mixed = list(measured)
    random.Random(4).shuffle(mixed)  # noqa: S311  an order
    one, other = (judged(compared(), each, looks=(5, 10)) for each in (measured, mixed))
    assert one == other


def test_more_rounds_than_planned_are_told_and_not_looked_at(compared, taken) -> None:
    good = runs(taken, {"device": 1.0, "local": 2.0}, rounds=9)
    near = runs(taken, {"device": 1.0, "local": 1.283}, rounds=5)
    late = [each for each in good if int(each.labels["round"]) > 5]
    found = judged(compared(), near + late)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "4 blocks beyond the plan not looked at" in found.because


@pytest.mark.parametrize(
    ("rounds", "says"), [(3, "3 of 5 blocks"), (4, "4 of 5 blocks"), (0, "not measured")]
)
def test_too_few_rounds_are_inconclusive(compared, taken, rounds: int, says: str) -> None:
    found = judged(compared(), runs(taken, {"device": 1.0, "local": 9.0}, rounds=rounds))
    assert found.verdict in (Verdict.INCONCLUSIVE, Verdict.NOT_RUN)
    assert says in found.because


def test_an_arm_that_was_not_measured_in_a_block_settles_nothing(compared, taken) -> None:
    measured = runs(taken, {"device": 1.0, "local": 9.0})
    assert judged(compared(), measured[1:]).verdict is Verdict.INCONCLUSIVE
    failed = dataclasses.replace(measured[0], value=None, problem="2 of 16 requests failed")
    found = judged(compared(), [failed, *measured[1:]])
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "block 1 has no ratio: device: 2 of 16 requests failed" in found.because
    bare = [dataclasses.replace(measured[0], evidence=()), *measured[1:]]
    assert "no evidence was kept" in judged(compared(), bare).because


def test_unlike_points_are_not_mixed(compared, taken) -> None:
    measured = runs(taken, {"device": 1.0, "local": 9.0})
    measured += runs(taken, {"device": 1.0, "local": 9.0}, concurrency="16")
    found = judged(compared(where={}), measured)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "blocks differ in concurrency" in found.because


def test_each_host_has_its_own_ratio_and_the_worst_decides(compared, taken) -> None:
    measured = runs(taken, {"device": 1.0, "local": 2.0})
    measured += runs(taken, {"device": 2.0, "local": 1.0}, host="ini2")
    found = judged(compared(), measured)
    assert [each.verdict for each in found.hosts] == [Verdict.PASS, Verdict.FAIL]
    assert found.verdict is Verdict.FAIL


def test_a_percentile_takes_the_sample_that_carries_it(compared, taken) -> None:
    assert [least_for_interval(p) for p in (50, 90, 99)] == [6, 29, 299]
    spec = compared(ratio=RATIO | {"statistic": "p90"})
    one_each = judged(spec, runs(taken, {"device": 1.0, "local": 9.0}))
    assert "p90 of 5 values over all blocks; it takes 29" in one_each.because
    many = [each for _ in range(10) for each in runs(taken, {"device": 1.0, "local": 9.0})]
    assert judged(spec, many).verdict is Verdict.PASS


def test_the_noise_floor_is_that_of_the_runs_a_a_rounds(compared, taken) -> None:
    measured = runs(taken, {"device": 7.53, "local": 10.17, "local-again": 10.17})
    told = judged(compared(), measured).hosts[0].comparison
    assert told is not None
    assert 0 < float(told.noise.removesuffix(" %")) < 5
    a_a = compared(
        ratio={"of": "local-again", "to": "local", "better": "lower"},
        limits={"acceptance": {"within": ["0.9 x", "1.1 x"]}},
    )
    assert judged(a_a, measured).verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("again", "verdict", "says"),
    [
        (10.0, Verdict.PASS, "no difference shown"),
        (9.5, Verdict.PASS, "differs from itself by more than chance"),
        (20.0, Verdict.FAIL, "differs from itself by more than chance"),
    ],
)
def test_an_arm_against_itself_has_no_winner(
    compared, taken, again: float, verdict: Verdict, says: str
) -> None:
    """Also where its second run is better within the limit: that is noise that chance isn't."""
    spec = compared(
        ratio={"of": "local-again", "to": "local", "better": "lower"},
        limits={"acceptance": {"within": ["0.9 x", "1.1 x"]}},
    )
    found = judged(spec, runs(taken, {"local": 10.0, "local-again": again}))
    assert found.verdict is verdict
    assert says in found.hosts[0].because


@pytest.mark.parametrize(
    ("noise", "margin"), [(0.001, "3 %"), (0.0399, "4 %"), (0.0401, "4.1 %"), (0.3, "5 %")]
)
def test_the_margin_proposed_is_the_noise_within_3_and_5_percent(noise, margin) -> None:
    assert proposed(noise) == Quantity.parse(margin)


def test_noise_by_measure_and_place(compared, taken) -> None:
    class Reader:
        def measurements(self) -> list[Measurement]:
            return runs(taken, {"local": 10.0, "local-again": 10.0, "device": 7.0})

    class Spec:
        criteria = (compared(),)

    class Loaded:
        value = Spec

    class Setup:
        gates = {"G3": Loaded}  # noqa: RUF012

    (row,) = noise(Reader(), Setup())  # type: ignore[arg-type]
    assert (row.arm, row.where, row.blocks) == ("local", "concurrency 8", 5)
    assert row.margin is not None
    assert "margin to propose" in row.told()


def test_findings_with_and_without_a_comparison_are_read_as_written(
    compared, taken, tmp_path
) -> None:
    found = judged(compared(), runs(taken, {"device": 7.53, "local": 10.17}))
    bare = dataclasses.replace(
        found, hosts=tuple(dataclasses.replace(h, comparison=None) for h in found.hosts)
    )
    for finding in (found, bare):
        result = RunResult(
            run="r",
            profile="acceptance",
            verdict=Verdict.PASS,
            gates=(GateResult(gate="G3", verdict=Verdict.PASS, because="x", findings=(finding,)),),
            criteria_digest="0",
            journal_digest="0",
        )
        (tmp_path / "findings.json").write_bytes(findings_bytes(result))
        assert read_findings(tmp_path) == result
        assert (b"comparison" in findings_bytes(result)) is (finding is found)


CLAIM = (
    "claim: {value: 1.35 times, number: 1.3506 x, by: R2}, margin: 5 %, deployment: d, statistic: s"
)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ("limits: {acceptance: {at_least: 1.2 x}}, margin: 5 %", "a claim that has a 'number'"),
        (
            f"limits: {{acceptance: {{at_least: 1.2 x}}}}, {CLAIM}",
            "not the claim less the margin: 1.2831 x",
        ),
        (
            f"limits: {{acceptance: {{at_least: 1.29 x}}}}, {CLAIM}",
            "not the claim less the margin: 1.2831 x",
        ),
        (f"limits: {{acceptance: {{equals: 1}}}}, {CLAIM}", "a ratio has bounds"),
        (
            f"limits: {{acceptance: {{at_least: 1.2 x}}}}, {CLAIM}".replace("5 %", "6 %"),
            "margin: above 0 and at most 5 %",
        ),
        ("limits: {acceptance: {at_least: 1 s}}", "a ratio has bounds such as"),
        ("limits: {acceptance: {at_least: 1 x}}, where: {arm: device}", "'arm' is what a ratio"),
        (
            "limits: {acceptance: {at_least: 1 x}}, ceiling: path.read_ceiling",
            "no physical ceiling",
        ),
    ],
)
def test_criteria_that_compare_unsoundly_are_refused(fields: str, says: str) -> None:
    text = f"""
gate: G3
title: t
question: q
entry: []
criteria:
  - {{id: G3.1, text: x, measure: g3.ttft, phase: p, hosts: serving, basis: b,
      ratio: {{of: device, to: local, better: lower}}, {fields}}}
"""
    with pytest.raises(SpecError, match=says):
        load.gate_of(yamlfile.parse(text.encode(), "g3.yaml"))


def capped(
    criterion: Callable[..., Criterion], measured: Measurement, *ceilings: Measurement
) -> Finding:
    spec = criterion(
        measure="fio.read_bw",
        limits={"acceptance": {"at_least": "10.11 GB/s"}},
        ceiling="path.read_ceiling",
    )
    return decide(
        spec,
        spec.limits["acceptance"],
        covers={"ini1": ("",)},
        expected={},
        taken=[measured],
        attempt=Attempt(criterion="G2.3", outcome="ran"),
        ceilings=ceilings,
    )


def test_a_value_above_its_paths_ceiling_is_inconclusive_whatever_the_limit(
    criterion, taken, q
) -> None:
    port = taken(q("12.5 GB/s"), name="path.read_ceiling")
    good = capped(criterion, taken(q("10.65 GB/s"), name="fio.read_bw"), port)
    assert good.verdict is Verdict.PASS
    assert "85 % of its path's ceiling of 12.5 GB/s" in good.because
    much = capped(criterion, taken(q("14 GB/s"), name="fio.read_bw"), port)
    assert much.verdict is Verdict.INCONCLUSIVE
    assert "12 % over the 12.5 GB/s that its path can carry" in much.because
    assert capped(criterion, taken(q("5 GB/s"), name="fio.read_bw"), port).verdict is Verdict.FAIL


def test_a_path_without_a_known_ceiling_says_so_and_is_judged(criterion, taken, q) -> None:
    unknown = taken(None, name="path.read_ceiling", problem="virtio tells no speed")
    found = capped(criterion, taken(q("11 GB/s"), name="fio.read_bw"), unknown)
    assert found.verdict is Verdict.PASS
    assert "no ceiling of its path is known (virtio tells no speed)" in found.because


def test_only_the_ceiling_of_the_same_path_counts(criterion, taken, q) -> None:
    measured = taken(q("11 GB/s"), name="fio.read_bw", labels={"arm": "device", "round": "1"})
    local = taken(q("7 GB/s"), name="path.read_ceiling", labels={"arm": "local"})
    device = taken(q("12.5 GB/s"), name="path.read_ceiling", labels={"arm": "device"})
    elsewhere = taken(q("1 GB/s"), name="path.read_ceiling", host="ini2")
    assert capped(criterion, measured, local, device, elsewhere).verdict is Verdict.PASS
    assert capped(criterion, measured, local).verdict is Verdict.PASS
    twice = taken(q("10.5 GB/s"), name="path.read_ceiling")
    assert capped(criterion, measured, device, twice).verdict is Verdict.INCONCLUSIVE
