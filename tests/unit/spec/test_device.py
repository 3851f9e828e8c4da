"""Arrays, switches and BMCs in an inventory: what they need and can't have, what is judged."""

from __future__ import annotations

import pytest

from kvgate.errors import SpecError
from kvgate.spec import yamlfile
from kvgate.spec.expect import coverage, expectations
from kvgate.spec.gate import Criterion
from kvgate.spec.inventory import Inventory, fingerprint
from kvgate.spec.load import inventory_of

HEAD = "inventory: a\nhosts:\n  n1: {roles: [serving], transport: local}\n"


def load(*lines: str) -> Inventory:
    text = HEAD + "".join(f"  {line}\n" for line in lines)
    return inventory_of(yamlfile.parse(text.encode(), "inv.yaml")).value


BMC = "roles: [bmc], adapter: redfish, transport: https, address: a"


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (f"b: {{{BMC}}}", "of: HOST goes with the role bmc"),
        (f"b: {{{BMC}, of: n2}}", "hosts.b.of: 'n2' is no computer here; known: n1"),
        (f"b: {{{BMC}, of: n1, scratch: /x}}", "scratch: a device has none"),
        (f"b: {{{BMC}, of: n1, tls: {{}}}}", "exactly one of 'fingerprint' or 'ca'"),
        (f"b: {{{BMC}, of: n1, tls: {{fingerprint: ab}}}}", "'ab' is not a SHA-256 fingerprint"),
        (f"b: {{{BMC}, of: n1, tls: {{verify: false}}}}", "'verify' is not a key here"),
        (f"b: {{{BMC}, of: n1, declared: {{ports: []}}}}", "declared: ports: no bmc host"),
        ("b: {roles: [array, client], adapter: x, address: a}", "has this one role"),
        ("b: {roles: [array], adapter: x, transport: local}", "a device is reached by"),
        ("b: {roles: [array], adapter: x, transport: http, address: 192.0.2.1}", "this machine"),
        ("b: {roles: [array], adapter: x, transport: http, address: localhost}", "this machine"),
        ("b: {roles: [array], adapter: x, address: a, tls: {ca: f}}", "tls goes with transport"),
        ("b: {roles: [client], transport: https, address: a}", "transport: only an array"),
        ("b: {roles: [client], address: a, adapter: x}", "adapter: only an array"),
        ("b: {roles: [client], address: a, declared: {psus: 2}}", "declared: psus: no client"),
        (
            "b: {roles: [switch], adapter: x, address: a, declared: {ports: [{name: 'a b'}]}}",
            "String should match pattern",
        ),
        (
            "b: {roles: [switch], adapter: x, address: a, "
            "declared: {ports: [{name: e1}, {name: e1}]}}",
            "port 'b/e1' is also that of b",
        ),
    ],
)
def test_refusals(entry: str, says: str) -> None:
    with pytest.raises(SpecError) as caught:
        load(entry)
    assert says in caught.value.message


def test_ports_that_are_usual_are_filled_in() -> None:
    found = load(f"b: {{{BMC}, of: n1}}", "s: {roles: [switch], adapter: x, address: s}")
    assert (found.hosts["b"].port, found.hosts["s"].port) == (443, 22)


def test_all_means_computers() -> None:
    found = load(f"b: {{{BMC}, of: n1}}", "s: {roles: [switch], adapter: x, address: s}")
    assert [host.name for host in found.with_role("all")] == ["n1"]
    assert [host.name for host in found.with_role("bmc")] == ["b"]
    assert [host.name for host in found.devices] == ["b", "s"]


@pytest.mark.parametrize("text", ["sha256:" + "AB" * 32, ":".join(["ab"] * 32), "aB" * 32])
def test_a_fingerprint_is_read_in_every_spelling(text: str) -> None:
    assert fingerprint(text) == "ab" * 32


def criterion(**fields: object) -> Criterion:
    return Criterion.model_validate(
        {
            "id": "G1.1",
            "text": "t",
            "phase": "inspection",
            "basis": "b",
            "limits": {"acceptance": {"matches_inventory": True}},
            **fields,
        }
    )


def test_only_what_is_declared_of_a_device_is_judged() -> None:
    found = load(
        "s: {roles: [switch], adapter: x, address: s, declared: "
        "{ports: [{name: e1, mtu: 9100 B}, {name: e2}]}}"
    )
    expected = expectations(found, None)
    assert coverage(criterion(measure="switch.port.mtu", hosts="switch"), found, expected) == {
        "s": ("e1",)
    }
    assert coverage(criterion(measure="switch.port.state", hosts="switch"), found, expected) == {
        "s": ("e1", "e2")
    }
    assert coverage(criterion(measure="switch.firmware", hosts="switch"), found, expected) == {}
    drops = criterion(
        measure="switch.port.tx_drops",
        hosts="switch",
        each="port",
        limits={"acceptance": {"at_most": 0}},
    )
    assert coverage(drops, found, expected) == {"s": ("e1", "e2")}
