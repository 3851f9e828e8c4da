"""NUMA nodes by numactl."""

from typing import Any

from kvgate.model.quantity import Quantity
from kvgate.probes import numa


def test_nodes_of_a_server(server: Any, told: Any, recorded: Any) -> None:
    found = told(numa.ask_nodes(server()))
    assert found["numa.empty_nodes", ""] == Quantity.of(0, "")
    assert found["numa.memory_least", ""] <= found["numa.memory_most", ""]
    assert found["numa.distance_most", ""] >= Quantity.of(10, "")


def test_a_node_without_memory_is_counted(server: Any, told: Any) -> None:
    say = (
        b"available: 2 nodes (0-1)\nnode 0 cpus: 0 1\nnode 0 size: 4096 MB\nnode 0 free: 1 MB\n"
        b"node 1 cpus: 2 3\nnode 1 size: 0 MB\nnode 1 free: 0 MB\n"
        b"node distances:\nnode   0   1\n  0:  10  32\n  1:  32  10\n"
    )
    found = told(numa.ask_nodes(server({numa.NUMACTL: say})))
    assert found["numa.empty_nodes", ""] == Quantity.of(1, "")
    assert found["numa.memory_least", ""] == Quantity.of(4, "GiB")
    assert found["numa.distance_most", ""] == Quantity.of(32, "")


def test_a_missing_numactl_names_its_package(server: Any, told: Any) -> None:
    found = told(numa.ask_nodes(server({numa.NUMACTL: (127, b"", b"")})))
    assert "install the package 'numactl'" in found["numa.distance_most", ""]
