"""G1 as data: its gate file, the baselines, the example, and the probes fit together."""

from pathlib import Path

import pytest

from kvgate.engine import suitefiles
from kvgate.probes import ALL, devices
from kvgate.spec import load
from kvgate.spec.expect import coverage, expectations
from kvgate.spec.gate import Criterion
from kvgate.spec.load_bom import load_bom

ROOT = Path(__file__).parents[3]
GATE = load.load_gate(ROOT / "gates/g1-arrival.yaml").value
BY_ADAPTER = tuple(probe for probes in devices.OF_ROLE.values() for probe in probes)
MEASURED = {measure: probe for probe in (*BY_ADAPTER, *ALL) for measure in probe.measures}
COMPUTED = {"part.status", "parts.surplus"}
WORKLOADS = {"diagnostic.passed", "nvme.self_test_passed"}  # measured by long diagnostics
SETTLED: dict[str, suitefiles.SuiteTest] = {
    criterion: test
    for test in suitefiles.tests_in(ROOT / "suites/g1_arrival", name="suites/g1_arrival")
    for criterion in test.settles
}


@pytest.mark.parametrize("criterion", GATE.criteria, ids=lambda criterion: criterion.id)
def test_a_criterion_can_be_settled_and_says_what_to_do(criterion: Criterion) -> None:
    assert criterion.hint
    if criterion.method == "manual":
        assert criterion.id not in SETTLED
        return
    assert criterion.id in SETTLED
    assert set(criterion.limits) == {"acceptance", "rehearsal"}
    if criterion.measure not in COMPUTED | WORKLOADS:
        probe = MEASURED[criterion.measure]
        known = (None, "part", probe.items)
        assert criterion.each in known or criterion.hosts in devices.OF_ROLE


def test_the_suite_settles_nothing_else() -> None:
    assert set(SETTLED) == {each.id for each in GATE.criteria if each.method != "manual"}


def test_the_example_is_judged_by_every_criterion() -> None:
    example = load.load_inventory(ROOT / "inventory/examples/mi308x.yaml")
    baseline = load.load_baseline(ROOT / "inventory/baseline.yaml", example).value
    bom = load_bom(ROOT / "inventory" / str(example.value.bom), example).value
    expected = expectations(example.value, baseline, bom)
    judged = [c for c in GATE.criteria if c.hosts not in devices.OF_ROLE]  # it has no devices
    left = [c.id for c in judged if not coverage(c, example.value, expected)]
    assert left == []


def test_every_setting_of_a_baseline_is_measured_and_judged() -> None:
    example = load.load_inventory(ROOT / "inventory/examples/mi308x.yaml")
    baseline = load.load_baseline(ROOT / "inventory/baseline.yaml", example).value
    judged = {criterion.measure for criterion in GATE.criteria}
    entries = baseline.baselines.values()
    settings = {name for entry in entries for name in entry.settings}
    settings |= {name for entry in entries for row in entry.models for name in row.settings}
    assert settings <= judged
    assert settings <= set(MEASURED)
