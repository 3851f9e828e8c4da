"""Two factors: gains and interaction are recovered from rounds whose truth is known."""

from __future__ import annotations

import math
import random

import pytest

from kvgate.workloads.replay_two import Cells, two_by_two


def rounds(many: int, *, parallel: float, dedup: float, interaction: float) -> list[Cells]:
    rng = random.Random(5)  # noqa: S311
    found = []
    for _ in range(many):
        block = math.exp(rng.gauss(0, 0.5))  # what a round shares cancels

        def cell(rate: float, block: float = block) -> float:
            return 1e9 * block * rate * math.exp(rng.gauss(0, 0.02))

        found.append(
            Cells(cell(1), cell(parallel), cell(dedup), cell(dedup * parallel * interaction))
        )
    return found


def test_gains_without_interaction_add_up() -> None:
    found = two_by_two(rounds(8, parallel=5.3, dedup=1.4, interaction=1.0))
    assert found.parallel.ratio == pytest.approx(5.3, rel=0.05)
    assert found.dedup.ratio == pytest.approx(1.4, rel=0.05)
    assert found.interaction.low <= 1 <= found.interaction.high
    assert "may add up" in found.told


@pytest.mark.parametrize(("truth", "word"), [(0.6, "less"), (1.7, "more")])
def test_an_interaction_is_seen(truth: float, word: str) -> None:
    found = two_by_two(rounds(8, parallel=5.3, dedup=1.4, interaction=truth))
    assert found.interaction.low <= truth <= found.interaction.high
    assert f"gain {word} on data" in found.told


@pytest.mark.parametrize("blocks", [5, 8])
def test_pure_noise_is_an_interaction_no_more_often_than_its_interval_says(blocks: int) -> None:
    """Count false claims where nothing gains anything: one in twenty, and chance about it."""
    rng = random.Random(blocks)  # noqa: S311
    many, claims = 400, 0
    for _ in range(many):
        cells = [
            Cells(*(1e9 * math.exp(rng.gauss(0, 0.3)) for _ in range(4))) for _ in range(blocks)
        ]
        told = two_by_two(cells).told
        claims += "don't add up" in told
        assert ("may add up" in told) != ("don't add up" in told)
    assert claims <= 0.085 * many  # three standard errors above 5 %


def test_too_few_rounds_and_no_rate_are_refused() -> None:
    with pytest.raises(ValueError, match="takes 5"):
        two_by_two(rounds(4, parallel=2, dedup=1, interaction=1))
    with pytest.raises(ValueError, match="above 0"):
        Cells(1.0, 0.0, 1.0, 1.0)
