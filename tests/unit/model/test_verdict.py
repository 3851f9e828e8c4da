from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvgate.model.verdict import Disposition, Verdict

verdicts = st.lists(st.sampled_from(Verdict))


def test_nothing_proves_nothing() -> None:
    assert Verdict.worst([]) is Verdict.NOT_RUN


@given(verdicts)
def test_only_pass_passes(some: list[Verdict]) -> None:
    assert (Verdict.worst(some) is Verdict.PASS) is (set(some) == {Verdict.PASS})


@given(verdicts)
def test_the_gravest_wins(some: list[Verdict]) -> None:
    for verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.NOT_RUN):
        if verdict in some:
            assert Verdict.worst(some) is verdict
            break


@given(verdicts, verdicts)
def test_grouping_and_order_do_not_matter(left: list[Verdict], right: list[Verdict]) -> None:
    together = Verdict.worst(left + right)
    assert Verdict.worst(right + left) is together
    if left and right:
        assert Verdict.worst([Verdict.worst(left), Verdict.worst(right)]) is together


@pytest.mark.parametrize(
    ("verdict", "code"),
    [(Verdict.PASS, 0), (Verdict.FAIL, 1), (Verdict.INCONCLUSIVE, 2), (Verdict.NOT_RUN, 2)],
)
def test_exit_codes_are_promised(verdict: Verdict, code: int) -> None:
    assert verdict.exit_code == code


def test_only_a_rejected_gate_stays_shut() -> None:
    assert [each.opens_next for each in Disposition] == [True, True, False]
