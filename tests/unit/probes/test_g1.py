"""G1 as data: its gate file, the baselines, the example, and the probes fit together."""

from pathlib import Path

import pytest

from kvgate.engine import suitefiles
from kvgate.probes import ALL
from kvgate.spec import load
from kvgate.spec.expect import coverage, expectations
from kvgate.spec.gate import Criterion

ROOT = Path(__file__).parents[3]
GATE = load.load_gate(ROOT / "gates/g1-arrival.yaml").value
MEASURED = {measure: probe for probe in ALL for measure in probe.measures}
SETTLED: dict[str, suitefiles.SuiteTest] = {
    criterion: test
    for test in suitefiles.tests_in(ROOT / "suites/g1_arrival", name="suites/g1_arrival")
    for criterion in test.settles
}


@pytest.mark.parametrize("criterion", GATE.criteria, ids=lambda criterion: criterion.id)
def test_a_criterion_can_be_settled_and_says_what_to_do(criterion: Criterion) -> None:
    probe = MEASURED[criterion.measure]
    assert criterion.each in (None, probe.items)
    assert criterion.id in SETTLED
    assert set(criterion.limits) == {"acceptance", "rehearsal"}
    assert criterion.hint


def test_the_suite_settles_nothing_else() -> None:
    assert set(SETTLED) == {criterion.id for criterion in GATE.criteria}


def test_the_example_is_judged_by_every_criterion() -> None:
    example = load.load_inventory(ROOT / "inventory/examples/mi308x.yaml")
    baseline = load.load_baseline(ROOT / "inventory/baseline.yaml", example).value
    expected = expectations(example.value, baseline)
    left = [c.id for c in GATE.criteria if not coverage(c, example.value, expected)]
    assert left == []


def test_every_setting_of_a_baseline_is_measured_and_judged() -> None:
    example = load.load_inventory(ROOT / "inventory/examples/mi308x.yaml")
    baseline = load.load_baseline(ROOT / "inventory/baseline.yaml", example).value
    judged = {criterion.measure for criterion in GATE.criteria}
    settings = {name for entry in baseline.baselines.values() for name in entry.settings}
    assert settings <= judged
    assert settings <= set(MEASURED)
