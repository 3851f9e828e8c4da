import pytest

from kvgate.model.quantity import Quantity
from kvgate.model.record import Reading
from kvgate.serving.proof import DAMAGED, DELIVERED, DEVICE, HITS, restorable, tier_readings

BEFORE = {HITS: 10.0, DELIVERED: 100.0, DEVICE: 50.0, DAMAGED: 0.0}
AFTER = {HITS: 30.0, DELIVERED: 4100.0, DEVICE: 4050.0, DAMAGED: 0.0}


def proven(before=BEFORE, after=AFTER, cached=(12, 8), tiered=True) -> dict[str, Reading]:
    found = tier_readings(before, after, cached_tokens=cached, expected_tokens=20, tiered=tiered)
    return {reading.name: reading for reading in found}


@pytest.mark.parametrize(("prompt", "tokens"), [(1, 0), (63, 0), (64, 63), (65, 64), (1024, 1023)])
def test_what_can_be_restored(prompt: int, tokens: int) -> None:
    assert restorable(prompt, "tiny") == tokens


def test_full_and_cold() -> None:
    assert {name: str(reading.value) for name, reading in proven().items()} == {
        "g3.hit_tokens": "20",
        "g3.chunks_damaged": "0",
        "g3.tier_bytes_read": "4000 B",
        "g3.device_bytes_read": "4000 B",
        "g3.hit_tokens_share": "100.0 %",
        "g3.cold_share": "100.0 %",
    }


def test_a_warm_page_cache_shows() -> None:
    assert proven(after=AFTER | {DEVICE: 50.0})["g3.cold_share"].value == Quantity.of(0, "%")


def test_a_tier_that_stored_nothing_shows() -> None:
    found = proven(after=BEFORE, cached=(0, 0))
    assert found["g3.hit_tokens_share"].value == Quantity.of(0, "%")
    assert found["g3.cold_share"].problem == "nothing was read from the tier"


def test_without_a_tier_there_are_no_shares() -> None:
    found = proven(after=BEFORE, cached=(0, 0), tiered=False)
    assert found["g3.hit_tokens"].value == Quantity.of(0, "")
    assert set(found) == {"g3.hit_tokens", "g3.chunks_damaged", "g3.tier_bytes_read"}


@pytest.mark.parametrize(
    ("cached", "says"),
    [
        ((12, 9), "counted 20 hit tokens, its answers 21"),
        ((20, None), "not every answer told"),
        ((), "not every answer told"),
    ],
)
def test_counter_and_answers_must_agree(cached, says) -> None:
    found = proven(cached=cached)
    assert says in found["g3.hit_tokens"].problem
    assert says in found["g3.hit_tokens_share"].problem


def test_a_counter_that_ran_backwards_proves_nothing() -> None:
    found = proven(after=AFTER | {DELIVERED: 1.0})
    assert "ran backwards" in found["g3.tier_bytes_read"].problem
    assert "ran backwards" in found["g3.cold_share"].problem


def test_a_counter_that_is_missing_proves_nothing() -> None:
    after = {name: value for name, value in AFTER.items() if name != DEVICE}
    assert f"does not report {DEVICE}" in proven(after=after)["g3.cold_share"].problem
