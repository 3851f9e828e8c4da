"""Bills of materials as people write them, and what is required by them and by baselines."""

from __future__ import annotations

from typing import Any

import pytest

from kvgate.errors import SpecError
from kvgate.model.record import ALL_HOSTS
from kvgate.spec import yamlfile
from kvgate.spec.baseline import Baseline
from kvgate.spec.bom import Bom
from kvgate.spec.expect import Requirement, coverage, expectations
from kvgate.spec.gate import Criterion
from kvgate.spec.inventory import Inventory
from kvgate.spec.load import Loaded, inventory_of
from kvgate.spec.load_bom import bom_of

HEAD = "bom: b\nlines:\n"
DRIVE = "  - {kind: drive, model: M1, quantity: 1, serials: [S1], where: {host: node1}}\n"


def inventory(**hosts: dict[str, Any]) -> Inventory:
    found = {
        name: {"roles": ["serving"], "address": f"192.0.2.{number}"} | more
        for number, (name, more) in enumerate(hosts.items(), 1)
    }
    return Inventory.model_validate({"inventory": "lab", "hosts": found})


def bom(*lines: dict[str, Any]) -> Bom:
    return Bom.model_validate({"bom": "b", "lines": list(lines)})


def refused(text: str, site: Loaded[Inventory] | None = None) -> str:
    with pytest.raises(SpecError) as caught:
        bom_of(yamlfile.parse(text.encode(), "bom-x.yaml"), site)
    return caught.value.message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (HEAD + DRIVE + DRIVE, "bom-x.yaml:4: lines.1.serials.0: drive/S1 stands twice, first"),
        (HEAD + DRIVE + DRIVE.replace("S1", "s1"), "drive/S1 stands twice"),
        (HEAD + DRIVE.replace("quantity: 1", "quantity: 2"), "quantity is 2, and 1 serial"),
        (HEAD + DRIVE.replace("[S1]", "[123]"), "drops leading zeros and digits; put it in quotes"),
        (HEAD + DRIVE.replace("[S1]", "[0x1F]"), "put it in quotes"),
        (HEAD + DRIVE.replace("[S1]", "[1.5E+11]"), "put it in quotes"),
        (HEAD + DRIVE.replace("[S1]", "['a\\tb', ]"), "quantity"),
        (HEAD + DRIVE.replace("[S1]", '["S\\u0430"]'), "pattern"),
        (HEAD + DRIVE.replace("drive", "disk"), "'disk'"),
        (HEAD + DRIVE.replace("model: M1, ", ""), "a line has a part_number, a model"),
        (HEAD + DRIVE.replace("{host: node1}", "{slot: '1'}"), "a slot or port goes with"),
        (HEAD + DRIVE.replace("kind: drive", "kinds: drive"), "did you mean 'kind'?"),
        ("bom: b\nlines: []\n", "lines"),
    ],
)
def test_refusals_name_file_line_and_reason(text: str, told: str) -> None:
    message = refused(text.replace("['a\\tb', ]", "[a, b]"))
    assert message.startswith("bom-x.yaml:")
    assert told in message


def test_a_host_that_the_inventory_has_not_is_refused_with_the_nearest() -> None:
    file = yamlfile.parse(
        b"inventory: lab\nhosts:\n  node1: {roles: [serving], transport: local}\n", "i.yaml"
    )
    site = inventory_of(file)
    message = refused(HEAD + DRIVE.replace("node1", "node2"), site)
    assert "'node2' is not a host of inventory 'lab'; did you mean 'node1'?" in message
    assert bom_of(yamlfile.parse((HEAD + DRIVE).encode(), "b"), site).value.bom == "b"


def test_a_server_and_its_chassis_may_share_a_serial_number() -> None:
    text = HEAD + DRIVE.replace("drive", "server") + DRIVE.replace("drive", "chassis")
    found = bom_of(yamlfile.parse(text.encode(), "b")).value
    assert [each.item for each in found.ordered()] == ["server/S1", "chassis/S1"]


def test_a_unit_has_the_lines_place_or_its_own() -> None:
    units = [
        {"serial": "S1"},
        {"serial": "S2", "slot": "4"},
        {"serial": "S3", "host": "node2"},
    ]
    line = {"kind": "drive", "model": "M", "quantity": 3, "units": units}
    found = bom(line | {"where": {"host": "node1", "slot": "1"}}).ordered()
    assert [each.place for each in found] == ["node1 slot 1", "node1 slot 4", "node2"]


PARTS = bom(
    {"kind": "drive", "model": "M1", "quantity": 1, "serials": ["S1"], "where": {"host": "a"}},
    {"kind": "dimm", "model": "D", "quantity": 2, "where": {"host": "a"}},
    {"kind": "gpu", "model": "G", "quantity": 1, "serials": ["g1"]},
    {"kind": "cable", "description": "3 m", "quantity": 9},
)


def criterion(measure: str, **fields: Any) -> Criterion:
    return Criterion.model_validate(
        {
            "id": "G1.1",
            "text": "t",
            "measure": measure,
            "phase": "inspection",
            "hosts": "all",
            "limits": {"rehearsal": {"matches_inventory": True}},
            "basis": "b",
        }
        | fields
    )


def test_the_bill_says_what_is_covered() -> None:
    site = inventory(a={}, b={})
    expected = expectations(site, None, PARTS)
    status = criterion("part.status", each="part")
    assert coverage(status, site, expected) == {
        "a": ("drive/S1", "dimm/line 2"),
        ALL_HOSTS: ("gpu/G1",),
    }
    plain = criterion("part.status", each="part", limits={"rehearsal": {"equals": "as_ordered"}})
    assert coverage(plain, site, expected) == coverage(status, site, expected)
    assert coverage(criterion("parts.surplus"), site, expected) == {"a": ("",)}
    serving = criterion("part.status", each="part", hosts="serving")
    assert set(coverage(serving, site, expected)) == {"a"}


def test_without_a_bill_nothing_is_covered() -> None:
    site = inventory(a={})
    assert coverage(criterion("part.status", each="part"), site, expectations(site, None)) == {}


def baseline(settings: dict[str, Any], *models: dict[str, Any]) -> Baseline:
    entry = {"title": "t", "settings": settings, "models": list(models)}
    return Baseline.model_validate({"baselines": {"node": entry}})


def test_a_firmware_matrix_is_asked_of_the_models_it_names() -> None:
    declared = {
        "disks": [
            {"serial": "S1", "nvme": True},
            {"serial": "S7", "model": "m 1", "nvme": True},
            {"serial": "S8", "model": "M2", "nvme": True},
        ],
        "gpus": {"count": 8, "id": "1002:74a2"},
    }
    rows = (
        {
            "kind": "drive",
            "model": "M1",
            "settings": {
                "nvme.firmware": {"one_of": ["F1", "F2"]},
                "part.firmware": {"equals": "F1"},
                "host.bios": {"version_at_least": "2.1"},
            },
        },
        {"kind": "gpu", "id": "1002:74a2", "settings": {"gpu.vbios": {"same_on_all_hosts": True}}},
        {"kind": "drive", "part_number": "P9", "settings": {"nvme.firmware": {"equals": "F9"}}},
    )
    site = inventory(a={"baseline": "node", "declared": declared}, b={"baseline": "node"})
    found = expectations(site, baseline({}, *rows), PARTS)
    told = {key: str(need) for key, need in found.items() if "firmware" in key[1]}
    assert told == {
        ("a", "nvme.firmware", "S1"): "one of F1, F2",  # the bill names its model
        ("a", "nvme.firmware", "S7"): "one of F1, F2",  # the inventory does
        ("a", "part.firmware", "drive/S1"): "F1",
    }
    assert str(found["a", "host.bios", ""]) == "version ≥ 2.1"
    assert found["a", "gpu.vbios", ""].same == "node: gpu 1002:74a2: gpu.vbios"
    assert ("b", "gpu.vbios", "") not in found


def test_settings_of_items_are_asked_of_every_declared_one() -> None:
    declared = {"nics": [{"name": "e0", "mtu": "9000 B"}, {"name": "e1"}]}
    site = inventory(a={"baseline": "node", "declared": declared})
    settings = {
        "nic.mtu": {"same_on_all_hosts": True},
        "rdma.firmware": {"version_equals": "28.39"},
        "kernel.release": {"version_at_least": "6.8", "same_on_all_hosts": True},
    }
    found = expectations(site, baseline(settings), None)
    assert found["a", "nic.mtu", "e1"] == Requirement("same", (), "node: nic.mtu")
    assert str(found["a", "nic.mtu", "e0"]) == "9000 B, the same on all hosts"
    assert str(found["a", "rdma.firmware", "e0"]) == "version 28.39"
    assert str(found["a", "kernel.release", ""]) == "version ≥ 6.8, the same on all hosts"


@pytest.mark.parametrize(
    "setting",
    [
        {},
        {"equals": "1", "one_of": ["2"]},
        {"version_equals": "1", "version_at_least": "2"},
        {"one_of": []},
        {"version_one_of": []},
        {"same_on_all_hosts": False},
    ],
)
def test_a_setting_has_one_form(setting: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"setting|empty|Input should be"):
        baseline({"kernel.release": setting})


@pytest.mark.parametrize(
    "row",
    [
        {"kind": "drive", "settings": {"a.b": {"equals": "1"}}},
        {"kind": "drive", "id": "1002:74a2", "settings": {"a.b": {"equals": "1"}}},
        {"kind": "drive", "model": "M", "settings": {}},
    ],
)
def test_a_row_of_the_matrix_names_its_model(row: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"name the model|id is for GPUs|at least 1"):
        baseline({}, row)
