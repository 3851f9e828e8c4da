from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvgate.model.quantity import Quantity
from kvgate.model.record import ALL_HOSTS
from kvgate.spec.baseline import Baseline
from kvgate.spec.expect import Requirement, coverage, expectations
from kvgate.spec.gate import Criterion
from kvgate.spec.inventory import Inventory

DECLARED = {
    "memory": "64 GiB",
    "numa_nodes": 2,
    "cpu": {"model": "EPYC", "sockets": 2, "threads": 256},
    "gpus": {"count": 8, "id": "1002:74a2"},
    "disks": [{"serial": "S1", "nvme": True, "size": "3.84 TB"}, {"name": "vda"}],
    "nics": [{"name": "eth0", "speed": "100 Gb/s", "mac": "aa:bb"}, {"name": "eth1"}],
    "pcie": [{"address": "0000:01:00.0", "speed": "16 GT/s", "width": 16}],
}


def inventory(**hosts: dict[str, Any]) -> Inventory:
    return Inventory.model_validate({"inventory": "lab", "hosts": hosts})


def host(roles: list[str] | None = None, **fields: Any) -> dict[str, Any]:
    return {"roles": roles or ["serving"], "address": "10.0.0.1"} | fields


def criterion(**fields: Any) -> Criterion:
    return Criterion.model_validate(
        {
            "id": "G1.1",
            "text": "t",
            "measure": "nic.speed",
            "phase": "inspection",
            "hosts": "serving",
            "limits": {"rehearsal": {"matches_inventory": True}},
            "basis": "b",
        }
        | fields
    )


BASELINE = Baseline.model_validate(
    {
        "baselines": {
            "node": {
                "title": "t",
                "settings": {
                    "kernel.release": {"version_at_least": "5.15"},
                    "os.id": {"one_of": ["debian", "ubuntu"]},
                    "smt.on": {"equals": True},
                },
            }
        }
    }
)


def test_everything_declared_is_expected() -> None:
    found = expectations(inventory(ini1=host(declared=DECLARED, baseline="node")), BASELINE)
    shown = {(measure, item): str(need) for (_, measure, item), need in found.items()}
    assert shown == {
        ("memory.size", ""): "64 GiB",
        ("numa.nodes", ""): "2",
        ("gpu.count", ""): "8",
        ("gpu.driven", ""): "8",
        ("cpu.model", ""): "EPYC",
        ("cpu.sockets", ""): "2",
        ("cpu.threads", ""): "256",
        ("disk.present", "S1"): "yes",
        ("disk.size", "S1"): "3.84 TB",
        ("disk.present", "vda"): "yes",
        ("nic.present", "eth0"): "yes",
        ("nic.mac", "eth0"): "aa:bb",
        ("nic.speed", "eth0"): "100 Gb/s",
        ("nic.present", "eth1"): "yes",
        ("pcie.present", "0000:01:00.0"): "yes",
        ("pcie.speed", "0000:01:00.0"): "16 GT/s",
        ("pcie.width", "0000:01:00.0"): "16",
        ("kernel.release", ""): "version ≥ 5.15",
        ("os.id", ""): "one of debian, ubuntu",
        ("smt.on", ""): "yes",
    }


def test_what_is_declared_wins_over_the_baseline() -> None:
    base = Baseline.model_validate(
        {"baselines": {"node": {"title": "t", "settings": {"numa.nodes": {"equals": 1}}}}}
    )
    found = expectations(inventory(ini1=host(declared={"numa_nodes": 2}, baseline="node")), base)
    assert found["ini1", "numa.nodes", ""] == Requirement("equals", (Quantity.of(2, ""),))


def test_without_a_declaration_nothing_is_expected() -> None:
    assert expectations(inventory(ini1=host()), None) == {}


@pytest.mark.parametrize(
    ("fields", "covers"),
    [
        pytest.param({}, {"ini1": ("eth0",)}, id="only-where-declared"),
        pytest.param({"each": "nic"}, {"ini1": ("eth0",)}, id="each-keeps-to-what-is-declared"),
        pytest.param(
            {"each": "nic", "measure": "nic.present"}, {"ini1": ("eth0", "eth1")}, id="all"
        ),
        pytest.param(
            {"each": "nvme", "measure": "disk.present"}, {"ini1": ("S1",)}, id="nvme-only"
        ),
        pytest.param({"measure": "disk.present"}, {"ini1": ("S1", "vda")}, id="disks"),
        pytest.param({"measure": "nic.colour"}, {}, id="nobody-declares-it"),
        pytest.param(
            {"each": "disk", "limits": {"a": {"at_most": 1}}},
            {"ini1": ("S1", "vda")},
            id="each-with-a-plain-limit",
        ),
        pytest.param({"limits": {"a": {"at_most": 1}}}, {"ini1": ("",), "ini2": ("",)}, id="hosts"),
        pytest.param(
            {"hosts": "client", "limits": {"a": {"at_most": 1}}}, {"load1": ("",)}, id="role"
        ),
        pytest.param(
            {"hosts": "all", "limits": {"a": {"at_most": 1}}},
            {"ini1": ("",), "ini2": ("",), "load1": ("",)},
            id="all-roles",
        ),
        pytest.param(
            {"scope": "all hosts", "limits": {"a": {"at_most": 1}}},
            {ALL_HOSTS: ("",)},
            id="together",
        ),
    ],
)
def test_coverage(fields: dict[str, Any], covers: dict[str, tuple[str, ...]]) -> None:
    lab = inventory(ini1=host(declared=DECLARED), ini2=host(), load1=host(["client"]))
    assert coverage(criterion(**fields), lab, expectations(lab, None)) == covers


def test_no_host_with_the_role_covers_nothing() -> None:
    lab = inventory(load1=host(["client"]))
    for scope in ("each host", "all hosts"):
        plain = criterion(scope=scope, limits={"a": {"at_most": 1}})
        assert coverage(plain, lab, {}) == {}


names = st.text("abcdef", min_size=1, max_size=4)
nics = st.lists(
    st.fixed_dictionaries({"name": names}, optional={"speed": st.just("25 Gb/s")}),
    unique_by=lambda nic: nic["name"],
    max_size=4,
)


@given(st.dictionaries(names, nics, min_size=1, max_size=4))
def test_covered_is_exactly_what_is_expected(hosts: dict[str, list[dict[str, str]]]) -> None:
    lab = inventory(**{name: host(declared={"nics": have}) for name, have in hosts.items()})
    expected = expectations(lab, None)
    for each in (None, "nic"):
        covers = coverage(criterion(each=each), lab, expected)
        assert {(name, "nic.speed", item) for name, items in covers.items() for item in items} == {
            key for key in expected if key[1] == "nic.speed"
        }
        assert all(covers.values())
