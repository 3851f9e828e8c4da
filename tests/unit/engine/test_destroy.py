"""Who consents to have which device written over: the command line, by serial, and nobody else."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvgate.engine import destroy
from kvgate.engine.holding import hold
from kvgate.errors import HostsInUseError, UsageError
from kvgate.spec.inventory import Inventory

DISKS = [
    {"serial": "S1", "size": "1 TB", "destructive": True},
    {"serial": "S2", "size": "1 TB"},
    {"serial": "S3", "destructive": True},
    {"wwn": "eui.0001", "size": "2 TB", "destructive": True},
]


def inventory() -> Inventory:
    local = {"transport": "local", "declared": {"disks": DISKS}}
    load = {
        "roles": ["client"],
        "transport": "ssh",
        "address": "10.0.0.2",
        "declared": {"disks": [{"serial": "S4", "size": "1 TB", "destructive": True}]},
    }
    return Inventory.model_validate(
        {"inventory": "site", "hosts": {"node": {"roles": ["serving"], **local}, "load": load}}
    )


def test_a_declared_destructive_disk_may_be_named_by_serial_or_wwn() -> None:
    destroy.refuse_unfit(inventory(), ["S1", "eui.0001"])
    destroy.refuse_unfit(inventory(), [])


@pytest.mark.parametrize(
    ("serial", "why"),
    [
        ("S9", "no disk of inventory 'site' is declared by this serial"),
        ("sda", "no disk of inventory"),
        ("", "no disk of inventory"),
        ("S2", "not declared 'destructive: true' on node"),
        ("S3", "no size is declared on node"),
        ("S4", "load has not the role serving"),
    ],
)
def test_others_are_refused_by_name(serial: str, why: str) -> None:
    with pytest.raises(UsageError, match=why) as refusal:
        destroy.refuse_unfit(inventory(), ["S1", serial])
    assert refusal.value.exit_code == 64


def test_all_reasons_are_told_at_once() -> None:
    with pytest.raises(UsageError) as refusal:
        destroy.refuse_unfit(inventory(), ["S9", "S2", "S4"])
    assert all(serial in refusal.value.message for serial in ("S9", "S2", "S4"))


def test_a_serial_of_two_hosts_is_of_none() -> None:
    hosts = {
        name: {"roles": ["serving"], "address": f"{name}.example", "declared": {"disks": DISKS}}
        for name in ("a", "b")
    }
    both = Inventory.model_validate({"inventory": "site", "hosts": hosts})
    with pytest.raises(UsageError, match=r"declared 2 times \(a, b\)"):
        destroy.refuse_unfit(both, ["S1"])


def test_plan_tells_each_destructive_disk_and_what_would_become_of_it() -> None:
    said = destroy.told(inventory(), ["S1"])
    assert said[0] == "node: S1: may be written over, all of its 1 TB"
    assert said[1] == "node: S3: is not written to without --yes-destroy S3"
    assert len(said) == 4


@dataclasses.dataclass
class Event:
    fields: dict[str, Any]


@dataclasses.dataclass
class Run:
    """A run's reader with these identities in its journal."""

    manifest: dict[str, Any]
    identities: list[tuple[str, list[str]]]

    def events(self, kind: str) -> Iterator[Event]:
        assert kind == "identity"
        for host, serials in self.identities:
            yield Event({"host": host, "serials": serials})


def test_a_disk_counts_as_found_if_every_gate_that_asked_saw_it() -> None:
    node = inventory().hosts["node"]
    both, one = ["disk:S1", "disk:S2", "machine-id:m"], ["disk:S1", "machine-id:m"]
    run: Any = Run({"yes_destroy": ["S1"]}, [("node", both), ("load", []), ("node", one)])
    said = destroy.consent(run, node)
    assert (said.destroy, said.identified) == (frozenset(["S1"]), frozenset(["S1"]))
    run = Run({}, [("node", both), ("node", [])])
    assert destroy.consent(run, node).identified == frozenset()
    run = Run({}, [])
    assert destroy.consent(run, node) == destroy.Consent()


def test_one_kvgate_at_a_time_on_a_disk_whatever_workspace_or_address(tmp_path: Path) -> None:
    mine = destroy.places(inventory(), ["S1"])
    machine = tmp_path / "machine"
    with hold(tmp_path / "a", mine, "run-1", machine=machine):
        with pytest.raises(HostsInUseError, match="node: S1: in use by"):
            hold(tmp_path / "b", destroy.places(inventory(), ["S1", "eui.0001"]), machine=machine)
        hold(tmp_path / "b", destroy.places(inventory(), ["eui.0001"]), machine=machine).release()
    hold(tmp_path / "b", mine, machine=machine).release()
