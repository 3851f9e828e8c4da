"""The shipped plan of paths: whole, as the gate wants it, and what it takes by part and host."""

from __future__ import annotations

from pathlib import Path

from kvgate.engine.estimate import Cost, cost_of, long_of
from kvgate.spec.gate import Gate
from kvgate.spec.inventory import Inventory
from kvgate.spec.load import load_gates, load_plan
from kvgate.spec.plan import Plan
from kvgate.workloads import fio, grid

ROOT = Path(__file__).resolve().parents[3]


def plan() -> Plan:
    return load_plan(ROOT / "gates/plans/paths.yaml", root=ROOT, name="paths").value


def gate() -> Gate:
    return load_gates(ROOT / "gates")["G2"].value


def site(hosts: int) -> Inventory:
    entry = {"roles": ["serving"], "address": "192.0.2.1"}
    return Inventory.model_validate(
        {"inventory": "site", "hosts": {f"ini{n}": entry for n in range(hosts)}}
    )


def test_every_workload_of_the_gate_is_in_it() -> None:
    loads = plan().workloads
    assert loads.fio
    assert loads.fio_arms
    assert set(loads.fio_arms.runs) == {"local", "local-again", "device"}
    sweep = {cell.shape.name for cell in grid.cells(loads.grids["path"])}
    assert len(sweep) == 2 * 11 * 9
    assert {"randread-4k-qd1", "randread-4m-qd256", "read-4m-qd1"} <= sweep
    assert len(grid.cells(loads.grids["data"])) == 9
    assert {cell.labels["depth"] for cell in grid.cells(loads.grids["latency"])} == {"1"}
    assert set(loads.fio.jobs) <= set(fio.names())
    asked = {
        c.where["job"]
        for c in gate().criteria
        if c.measure.startswith("fio.") and c.where.get("job")
    }
    assert asked - set(loads.fio.jobs) == {"kv-restore-gpu"}


def test_each_criterion_has_a_limit_or_is_scoped_out_with_a_reason() -> None:
    out = plan().scoped_out()
    unsettled = {c.id for c in gate().criteria if "acceptance" not in c.limits}
    assert unsettled <= set(out)


def test_the_cost_is_told_by_part_and_grows_with_the_hosts() -> None:
    one, three = long_of(plan(), "G2", site(1)), dict(long_of(plan(), "G2", site(3)))
    assert [name for name, _ in one] == [
        "fio",
        "fio_arms",
        "grids.path",
        "grids.latency",
        "grids.data",
    ]
    for name, cost in one:
        assert three[name] == Cost(cost.seconds * 3, cost.bytes_written * 3)
    assert "fio_together" in three, "one host is not several at once"
    whole = cost_of(plan(), "G2", site(3))
    assert whole.seconds == sum(each.seconds for each in three.values())
    assert whole.bytes_written == sum(each.bytes_written for each in three.values())
