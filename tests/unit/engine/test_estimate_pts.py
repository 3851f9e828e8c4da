"""What `kvgate plan` says of SNIA's tests: time from the fewest rounds to the most, bytes, wear."""

from __future__ import annotations

import pytest

from kvgate.engine import estimate
from kvgate.errors import NotRunError
from kvgate.spec.inventory import Inventory
from kvgate.spec.plan import Plan
from kvgate.spec.pts import PtsWorkload

DRIVE: dict[str, object] = {"serial": "S1", "size": "8 TB", "destructive": True}
SHEET = {"write_bw": "8 GB/s", "endurance": "14 PB", "source": "data sheet of 2025"}


def inventory(**disk: object) -> Inventory:
    declared = {"disks": [DRIVE | disk]}
    host = {"roles": ["serving"], "transport": "local", "scratch": "/s", "declared": declared}
    return Inventory.model_validate({"inventory": "x", "hosts": {"ini1": host}})


def plan(**asked: object) -> Plan:
    given: dict[str, object] = {"tests": ["iops"], "profile": "full"}
    if "file" not in asked:
        given |= {"serials": ["S1"], "purge": "format"}
    gate = {"gate": "G2", "suite": "suites/g2_paths", "give_up_after": "1 h"}
    return Plan.model_validate(
        {
            "plan": "x",
            "title": "x",
            "profile": "acceptance",
            "seed": 1,
            "gates": [gate],
            "workloads": {"pts": PtsWorkload.model_validate(given | asked)},
        }
    )


def test_a_line_tells_loop_time_bytes_and_wear() -> None:
    (line,) = estimate.tests_of(plan(), "G2", inventory(datasheet=SHEET))
    assert line.startswith("PTS IOPS on S1 on ini1 (after PTS 2.0.2): 56 points × 1 min × ")
    assert "5 to 25 rounds" in line
    assert "about 5 h 22 min" in line
    assert " to 24 h 40 min" in line
    assert "of the 14 PB it endures (data sheet of 2025)" in line
    cost = estimate.cost_of(plan(), "G2", inventory(datasheet=SHEET))
    assert cost.longest > cost.seconds
    assert " to " in cost.time
    assert "(quick, not PTS)" in estimate.tests_of(plan(profile="quick"), "G2", inventory())[0]


def test_wear_that_is_not_known_is_said_to_be_so() -> None:
    (line,) = estimate.tests_of(plan(), "G2", inventory())
    assert "wear not known (no endurance declared)" in line
    (line,) = estimate.tests_of(plan(file="64 MiB"), "G2", inventory())
    assert "a file (PTS-shaped on a file, not PTS)" in line
    assert "wear" not in line


@pytest.mark.parametrize(
    ("disk", "says"),
    [({"size": None}, "its size is not declared"), ({"serial": "S2"}, "declares a disk 'S1'")],
)
def test_a_drive_that_is_not_known_is_refused(disk: dict[str, object], says: str) -> None:
    with pytest.raises(NotRunError, match=says):
        estimate.cost_of(plan(), "G2", inventory(**disk))


def test_gates_without_them_have_no_line() -> None:
    assert estimate.tests_of(plan(), "G3", inventory()) == ()
    one = estimate.Cost(60, 1) + estimate.Cost(60, 1, 120)
    assert (one.time, one.bytes_written) == ("about 2 min to 3 min", 2)
