"""Loads that nobody can mean are refused before anything is planned, by the field they stand in."""

from __future__ import annotations

import pydantic
import pytest

from kvgate.spec.ratio import checked_looks
from kvgate.spec.workload import FioGrid, FioWorkload

FIO = {"rounds": 3, "ramp": "0 s", "runtime": "1 min", "size": "1 GB", "jobs": ["kv-restore"]}
GRID = {
    "rounds": 1,
    "ramp": "0 s",
    "runtime": "15 s",
    "size": "64 GiB",
    "patterns": ["read"],
    "blocks": ["1 MiB"],
    "queue_depths": [1],
}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rounds", 0),
        ("rounds", 10**9),
        ("ramp", "-1 s"),
        ("ramp", "25 h"),
        ("runtime", "0 s"),
        ("runtime", "-1 min"),
        ("runtime", "1e9 s"),
        ("size", "3 B"),
        ("size", "1001 TB"),
    ],
)
def test_absurd_times_and_sizes_are_refused(field: str, value: object) -> None:
    for model, sound in ((FioWorkload, FIO), (FioGrid, GRID)):
        model.model_validate(sound)
        with pytest.raises(pydantic.ValidationError) as refusal:
            model.model_validate(sound | {field: value})
        assert refusal.value.errors()[0]["loc"][0] == field


@pytest.mark.parametrize("change", [{"queue_depths": [10**8]}, {"jobs": 10**6}])
def test_no_host_does_so_much_at_once(change: dict[str, object]) -> None:
    with pytest.raises(pydantic.ValidationError):
        FioGrid.model_validate(GRID | change)


def test_a_look_that_may_spend_nothing_is_refused() -> None:
    assert checked_looks(25, [5, 25]) == (5, 25)
    with pytest.raises(ValueError, match="a fifth of the 100 rounds"):
        checked_looks(100, [5, 100])
