"""A plan's replay: what it may ask for, what it comes to, and what it costs."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest

from kvgate.errors import UsageError
from kvgate.spec.replay import ReplayWorkload
from kvgate.workloads.replay_plan import estimate, spec_of

ASKED = {
    "arms": ["local", "device"],
    "again": "local",
    "rounds": 10,
    "looks": [5, 10],
    "tokens": 30208,
    "sessions": 34,
    "concurrency": [8, 16, 32],
}


def asked(**changes: Any) -> ReplayWorkload:
    return ReplayWorkload.model_validate({**ASKED, **changes})


def test_the_joint_test_s_sessions_come_to_its_bytes() -> None:
    spec = spec_of(asked(), 5)
    assert spec.sessions * spec.session_bytes == 34 * 30208 * 253_952
    assert [(each.concurrency, each.readers) for each in spec.levels] == [
        *((8, 1), (8, 8), (16, 1), (16, 8), (32, 1), (32, 8))
    ]
    assert asked().runs == ("local", "device", "local-again")


def test_what_it_costs_is_reckoned() -> None:
    stored = 34 * 30208 * 253_952
    assert estimate(asked()).bytes_written == 30 * stored
    more = estimate(asked(dedup_rounds=5, plant=True, tier={"capacity": "1 TB", "percent": [50]}))
    assert more.bytes_written == (30 + 10 + 1 + 1) * stored + 10**12
    assert more.seconds > estimate(asked()).seconds > 7 * 30 * stored / 1e9


@pytest.mark.parametrize(
    "changes",
    [
        {"arms": []},
        {"arms": ["local", "local"]},
        {"again": "other"},
        {"looks": [3, 10]},
        {"ranks": 9},
        {"sessions": 1},
        {"readers": 1},
        {"compressible": 30},
        {"dedup_rounds": 4},
        {"tier": {"capacity": "5 s"}},
        {"tier": {"capacity": "1 TB", "percent": [100]}},
    ],
)
def test_what_can_t_be_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(pydantic.ValidationError):
        asked(**changes)


def test_a_model_nobody_knows_is_refused() -> None:
    with pytest.raises(UsageError, match="no model that is known"):
        spec_of(asked(model="nobody"), 1)
