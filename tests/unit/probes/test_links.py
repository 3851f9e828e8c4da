import json
from typing import Any

import pytest

from kvgate.errors import ParseError
from kvgate.model.quantity import Quantity
from kvgate.parse import fec, lldp, rdma_sysfs
from kvgate.probes import links, port_qos, rdma

LLDP = ("lldpcli", "show", "neighbors", "-f", "json")


def test_ports_of_a_server(server: Any, told: Any, composed: Any) -> None:
    found: dict[tuple[str, str], Any] = {}
    for probe in (*links.PROBES, *rdma.PROBES, *port_qos.PROBES):
        found |= told(probe.ask(server()))
    nic = composed.NICS[1]
    assert found["nic.mtu", nic] == Quantity.of(9000, "B")
    assert found["nic.fec", nic] == "RS"
    assert found["nic.neighbour", nic] == "leaf2 Ethernet1/1"
    assert found["rdma.device", nic] == "mlx5_1"
    assert found["rdma.firmware", nic] == "22.39.2048"
    assert found["rdma.state", nic] == "ACTIVE"
    assert found["rdma.roce_v2_gids", nic] == Quantity.of(2, "")
    assert found["rdma.losses", nic] == Quantity.of(0, "")
    assert found["rdma.active_mtu", nic] == Quantity.of(4096, "B")
    assert found["rdma.default_mode", nic] == "RoCE v2"
    assert found["rdma.default_tos", nic] == Quantity.of(106, "")
    assert found["nic.pfc_priorities", nic] == "3"
    assert found["nic.ecn_reaction", nic] == "3"
    assert found["nic.ecn_priority3", nic] is True


def test_losses_are_summed_and_congestion_is_no_loss(server: Any, told: Any, composed: Any) -> None:
    counts = composed.ports.infiniband(composed.NICS)
    for name, count in (("out_of_sequence", 4), ("packet_seq_err", 1), ("np_cnp_sent", 900)):
        at = f"mlx5_0/ports/1/hw_counters/{name}:".encode()
        counts = counts.replace(at + b"0", at + str(count).encode())
    found = told(rdma.ask_devices(server({rdma.SYSFS: counts})))
    assert found["rdma.losses", composed.NICS[0]] == Quantity.of(5, "")
    assert found["rdma.congestion", composed.NICS[0]] == Quantity.of(900, "")


def test_a_port_without_rdma_says_so(server: Any, told: Any, composed: Any) -> None:
    found = told(rdma.ask_devices(server({rdma.SYSFS: (2, b"", b"can't cd")})))
    assert "no RoCE v2" in found["rdma.state", composed.NICS[0]]


def test_counters_are_told_as_they_are(server: Any, told: Any, composed: Any) -> None:
    counts = composed.net_counters(statistics__rx_crc_errors="12", carrier_down_count="3")
    found = told(links.ask_counters(server({links.SYSFS: counts})))
    assert found["nic.rx_crc_errors", composed.NICS[0]] == Quantity.of(12, "")
    assert found["nic.link_downs", composed.NICS[0]] == Quantity.of(3, "")
    gone = server(nics=[{"name": "gone0"}])
    assert told(links.ask_counters(gone))["nic.mtu", "gone0"] == "there is no port 'gone0'"


@pytest.mark.parametrize(
    ("interface", "neighbours"),
    [
        ({}, {}),
        ([], {}),
        ({"e0": {"chassis": {"sw": {"id": {"value": "m"}}}, "port": {"id": {"value": "p"}}}},
         {"e0": "sw p"}),
        ([{"e0": {"chassis": {"id": {"value": "00:11"}}, "port": {"id": {"value": "p1"}}}}],
         {"e0": "00:11 p1"}),
    ],
)  # fmt: skip
def test_neighbours_in_the_shapes_of_lldpcli(interface: Any, neighbours: Any) -> None:
    found = lldp.neighbours(json.dumps({"lldp": {"interface": interface}}).encode())
    assert {each.port: f"{each.switch} {each.switch_port}" for each in found} == neighbours


def test_a_port_that_hears_nobody(server: Any, told: Any, composed: Any) -> None:
    found = told(links.ask_neighbours(server({LLDP: b'{"lldp": {}}'})))
    assert "has heard no neighbour" in found["nic.neighbour", composed.NICS[0]]


@pytest.mark.parametrize(
    ("read", "answer"),
    [
        (fec.fec, b"FEC parameters for eth0:\n"),
        (fec.fec, b"netlink error: Operation not supported\n"),
        (fec.fec, b"nonsense\n"),
        (lldp.neighbours, b'{"lldp": {"interface": [5]}}'),
        (lldp.neighbours, b'{"lldp": {"interface": {"e0": 5}}}'),
        (rdma_sysfs.devices, b"mlx5_0/ports/1/hw_counters/out_of_sequence:-1\n"),
        (rdma_sysfs.devices, b"mlx5_0/ports/1/gids/0:zz\nmlx5_0/ports/1/gid_attrs/types/0:RoCE v2\n"
         b"mlx5_0/ports/1/gid_attrs/ndevs/0:e0\n"),
    ],
)  # fmt: skip
def test_odd_answers_are_refused(read: Any, answer: bytes) -> None:
    with pytest.raises(ParseError):
        read(answer)
