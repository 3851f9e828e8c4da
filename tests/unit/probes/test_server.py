"""The composed server: every probe reads it whole, and what each asks is what it declares."""

from typing import Any

import pytest

from composing import whole
from kvgate.errors import CommandError, ParseError
from kvgate.model.quantity import Quantity
from kvgate.probes import ALL, parts
from kvgate.probes.gather import commands_of


@pytest.mark.parametrize("probe", ALL, ids=lambda probe: probe.name)
def test_a_healthy_server_answers_every_question(probe: Any, server: Any, composed: Any) -> None:
    if probe in composed.UNGATHERED:
        pytest.skip("it is timed alone")
    told = probe.ask(server()).readings
    problems = {(r.name, r.item): r.problem for r in told if r.problem}
    if probe.name == "nvmeof host":  # this server is no initiator; test_paths_gate.py has one
        assert set(problems.values()) == {"no NVMe-oF subsystem is declared"}
        return
    assert problems == {}
    if probe.measures == parts.MEASURES:
        return  # how many there are is told below
    items = set(server().host.items(probe.items)) if probe.items else {""}
    assert {(r.name, r.item) for r in told} == {(m, i) for m in probe.measures for i in items}


def test_a_healthy_server_tells_all_its_parts(server: Any) -> None:
    told = [each for probe in parts.PROBES for each in probe.ask(server()).readings]
    counted = {r.item: r.value for r in told if r.name == parts.COUNT}
    assert counted == {kind: Quantity.of(number, "") for kind, number in whole.PARTS.items()}
    assert [r for r in told if r.name == "part.fault"] == []


@pytest.mark.parametrize("probe", ALL, ids=lambda probe: probe.name)
def test_a_probe_asks_what_it_declares(probe: Any, server: Any, composed: Any) -> None:
    if probe in composed.UNGATHERED:
        pytest.skip("it is timed alone")
    witness = server()
    probe.ask(witness)
    declared = set()
    for command in commands_of([probe], witness.host):
        names = composed.DRIVES if command.each else [""]
        declared |= {tuple(w.replace("{}", name) for w in command.argv) for name in names}
    assert set(witness.transport.asked) <= declared


@pytest.mark.parametrize("probe", ALL, ids=lambda probe: probe.name)
def test_a_server_that_tells_nothing_has_problems_and_no_zeros(probe: Any, server: Any) -> None:
    witness = server()
    witness.transport.answers = {}
    try:
        told = probe.ask(witness).readings
    except (CommandError, ParseError):
        return
    zeros = [r.name for r in told if r.value == Quantity.of(0, "")]
    assert zeros in ([], ["iommu.groups"])


@pytest.mark.parametrize("probe", ALL, ids=lambda probe: probe.name)
def test_a_host_for_which_nothing_is_declared_is_not_asked_for_items(
    probe: Any, server: Any
) -> None:
    if probe.name.startswith("tool ") or probe.measures == parts.MEASURES:
        pytest.skip("versions of tools, and parts that nobody ordered, are asked of every host")
    witness = server(gpus=None, disks=[], nics=[], pcie=[])
    gathered = {command.argv[0] for command in commands_of([probe], witness.host)}
    assert not gathered & {"amd-smi", "rocm-smi", "ethtool", "mlnx_qos", "lldpcli", "lspci"}
    assert not gathered & {"nvidia-smi", "dcb", "ibv_devinfo", "niccli", "nicctl", "smartctl"}
