"""The limit of a criterion that matches the inventory says what is declared there."""

from __future__ import annotations

from kvgate.judge.gate import judge_gate
from kvgate.spec import load, yamlfile
from kvgate.spec.expect import expectations

GATE = b"""\
gate: G1
title: Arrival
question: Did it arrive?
entry: []
criteria:
  - {id: G1.1, text: memory, measure: memory.size, phase: inspection, hosts: serving, basis: b,
     limits: {rehearsal: {matches_inventory: true, tolerance: 3 %}}}
  - {id: G1.2, text: ports, measure: nic.mac, phase: inspection, hosts: serving, each: nic,
     basis: b, limits: {rehearsal: {matches_inventory: true}}}
"""
HOSTS = b"""\
inventory: a
hosts:
  n1: {roles: [serving], address: x, declared: {memory: 64 GiB, nics: [
    {name: a, mac: "00:00:00:00:00:0A"}, {name: b, mac: "00:00:00:00:00:02"},
    {name: c, mac: "00:00:00:00:00:03"}, {name: d, mac: "00:00:00:00:00:04"}]}}
"""


def test_the_declared_values_stand_in_the_limit() -> None:
    inventory = load.inventory_of(yamlfile.parse(HOSTS, "inv.yaml")).value
    result = judge_gate(
        load.gate_of(yamlfile.parse(GATE, "g1.yaml")).value,
        profile="rehearsal",
        inventory=inventory,
        expected=expectations(inventory, None),
        taken=(),
        attempts=(),
        scoped_out={},
    )
    memory, ports = (finding.limit for finding in result.findings)
    assert memory == "matches inventory: 64 GiB within 3 %"
    assert ports == (
        "matches inventory: 00:00:00:00:00:02, 00:00:00:00:00:03, 00:00:00:00:00:04 and 1 more"
    )
