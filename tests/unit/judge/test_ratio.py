from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from kvgate.judge.ratio import BlockRatio, Compared, compare, interval_of
from kvgate.model.verdict import Verdict
from kvgate.spec.gate import Limit

LOGS = [math.log(each) for each in (1.38, 1.44, 1.41, 1.36, 1.43, 1.40, 1.39, 1.42, 1.45, 1.37)]
finite = st.floats(-2, 2).map(lambda x: round(x, 6))


def limited(**form: object) -> Limit:
    return Limit.model_validate(form)


def blocks(logs: Sequence[float | None]) -> list[BlockRatio]:
    return [
        BlockRatio(str(number), log, "" if log is not None else "device: link lost")
        for number, log in enumerate(logs, 1)
    ]


def decided(
    logs: Sequence[float | None], looks: tuple[int, ...] = (5, 10), **form: object
) -> Compared:
    return compare(blocks(logs), limited(**form), looks=looks)


@settings(deadline=None)
@given(st.lists(finite, min_size=5, max_size=30))
def test_the_interval_is_scipys(logs: list[float]) -> None:
    found = interval_of(logs)
    with np.errstate(all="ignore"):
        error = stats.sem(logs)
    if error < 1e-9:
        assert found.low == pytest.approx(found.high, rel=1e-5)
        return
    low, high = stats.t.interval(0.95, len(logs) - 1, loc=np.mean(logs), scale=error)
    assert found.low == pytest.approx(math.exp(low), rel=1e-5)
    assert found.high == pytest.approx(math.exp(high), rel=1e-5)
    assert found.level == "95 %"


@settings(deadline=None, max_examples=10)
@given(st.lists(finite, min_size=10, max_size=12), st.text(max_size=4))
def test_the_bootstrap_holds_students_interval_and_depends_on_its_seed_alone(
    logs: list[float], seed: str
) -> None:
    assume(len(set(logs)) > 4)  # of almost equal ones too many resamples have no spread
    found = interval_of(logs, "bootstrap", seed=seed)
    plain = interval_of(logs)
    assert found.low <= plain.low <= plain.ratio <= plain.high <= found.high
    assert interval_of(logs, "bootstrap", seed=seed) == found


def test_the_bootstrap_widens_the_side_where_the_tail_is() -> None:
    rng = random.Random(3)  # noqa: S311  a simulation
    logs = [rng.expovariate(10) for _ in range(15)]
    ours = interval_of(logs, "bootstrap", seed="x")
    plain = interval_of(logs)
    assert ours.high > plain.high * 1.01


def test_too_few_blocks_carry_no_interval() -> None:
    with pytest.raises(ValueError, match="4 blocks can't carry an interval; it takes 5"):
        interval_of(LOGS[:4])
    with pytest.raises(ValueError, match="9 blocks can't carry an interval; it takes 10"):
        interval_of(LOGS[:9], "bootstrap")
    with pytest.raises(ValueError, match="can't carry a tail"):
        interval_of(LOGS, "bootstrap", tail=0.0005)


def test_pass_takes_the_whole_interval_above_and_fail_the_whole_below() -> None:
    assert decided(LOGS, (10,), at_least="1.36 x").verdict is Verdict.PASS
    fail = decided(LOGS, (10,), at_least="1.5 x")
    assert fail.verdict is Verdict.FAIL
    assert fail.because == "its interval (95 %) lies wholly under 1.5 x"
    between = decided(LOGS, (10,), at_least="1.4 x")
    assert between.verdict is Verdict.INCONCLUSIVE
    assert "both sides" in between.because
    assert decided(LOGS, (10,), at_most="1.45 x").verdict is Verdict.PASS
    assert decided(LOGS, (10,), at_most="1.3 x").verdict is Verdict.FAIL
    assert decided(LOGS, (10,), within=["1.3 x", "1.5 x"]).verdict is Verdict.PASS
    assert decided(LOGS, (10,), within=["0.95 x", "1.05 x"]).verdict is Verdict.FAIL


def test_an_end_of_the_interval_on_the_limit_holds_it() -> None:
    low = interval_of(LOGS).low
    assert decided(LOGS, (10,), at_least=f"{low!r} x").verdict is Verdict.PASS
    assert decided(LOGS, (10,), at_least=f"{low + 1e-5:.6f} x").verdict is Verdict.INCONCLUSIVE


def test_the_first_look_that_decides_counts_and_nothing_after_it() -> None:
    worse = [*LOGS[:5], *[math.log(0.5)] * 5]
    found = decided(worse, at_least="1.1 x")
    assert (found.verdict, found.look, found.used) == (Verdict.PASS, 1, 5)


def test_an_early_look_must_be_surer() -> None:
    found = decided(LOGS[:5], (5,), at_least="1.35 x")
    assert found.verdict is Verdict.PASS
    early = decided(LOGS[:5], (5, 10), at_least="1.35 x")
    assert early.verdict is Verdict.INCONCLUSIVE
    assert "5 of 10 blocks that the next look takes" in early.because


def test_blocks_beyond_the_plan_change_nothing() -> None:
    at_limit = {"at_least": "1.4 x"}
    assert decided([*LOGS, *[math.log(9)] * 30], (10,), **at_limit) == decided(
        LOGS, (10,), **at_limit
    )


def test_between_looks_nobody_looks() -> None:
    found = decided(LOGS[:4], at_least="1 x")
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.look == 0
    assert "4 of 5 blocks" in found.because


def test_a_block_that_was_not_measured_is_not_dropped() -> None:
    found = decided([*LOGS[:3], None, *LOGS[4:]], at_least="1 x")
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.because == "block 4 has no ratio: device: link lost"
    later = decided([*LOGS[:9], None], at_least="1.4 x")
    assert later.used == 5
    assert later.because.endswith("block 10 has no ratio: device: link lost")


@pytest.mark.parametrize("looks", [(), (3,)])
def test_what_was_not_planned_soundly_is_inconclusive(looks: tuple[int, ...]) -> None:
    found = decided(LOGS, looks, at_least="1 x")
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "an interval takes 5" in found.because


def test_a_drift_that_could_change_the_verdict_bars_it() -> None:
    """The ratio falls from 2 to below 1: on average it holds, at the end it does not."""
    falling = [math.log(2.4 - 0.18 * i) for i in range(10)]
    found = decided(falling, (10,), at_least="1.1 x")
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "drifts by -" in found.because


def test_a_drift_that_changes_nothing_is_told() -> None:
    slightly = [math.log(5 + 0.01 * i) for i in range(10)]
    found = decided(slightly, (10,), at_least="2 x")
    assert found.verdict is Verdict.PASS
    assert "drifts by +" in found.drift


@settings(deadline=None)
@given(st.lists(finite, min_size=10, max_size=10), st.floats(0.5, 2))
def test_better_data_never_turns_a_pass_into_a_fail(logs: list[float], edge: float) -> None:
    limit = {"at_least": f"{edge:.3f} x"}
    before = decided(logs, **limit).verdict
    after = decided([each + 0.5 for each in logs], **limit).verdict
    assert before is not Verdict.PASS or after is not Verdict.FAIL


def test_a_bootstrap_skips_looks_that_it_cant_carry() -> None:
    found = compare(
        blocks(LOGS), limited(at_least="1.3 x"), looks=(5, 10), method="bootstrap", seed="s"
    )
    assert (found.verdict, found.look) == (Verdict.PASS, 2)
