"""NVMe-oF paths: found by address whatever the controllers are called, and what is odd told."""

from collections.abc import Callable
from typing import Any

import pytest

from kvgate.model.quantity import Quantity
from kvgate.parse import nvmeof_sysfs
from kvgate.probes import nvmeof, nvmeof_discovery, nvmeof_paths
from kvgate.spec.fabric import NvmeSubsystem

NQN = "nqn.2026-11.lab:array1"
HOST_NQN = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000002"
ARRAY = {
    "name": "array1",
    "nqn": NQN,
    "transport": "rdma",
    "serial": "LAB0000000000001",
    "iopolicy": "round-robin",
    "ctrl_loss_tmo": "600 s",
    "queues": 1,
    "discovery": [{"target": "10.77.1.1", "port": 4420}],
    "paths": [
        {"name": "a", "target": "10.77.1.1"},
        {"name": "b", "target": "10.77.2.1"},
    ],
}
SYSFS, MULTIPATH, CLI, DISCOVER = (
    "nvme-subsystem",
    "nvme_core/parameters",
    "list-subsys",
    "discover",
)
Say = Any


@pytest.fixture
def sysfs(recorded: Callable[[str], bytes]) -> bytes:
    return recorded("sysfs_nvme_subsystem/linux-6.12-lab-rdma.txt")


@pytest.fixture
def asked(scripted: Any, told: Any) -> Callable[..., dict[tuple[str, str], Any]]:
    """Return a function: question, sysfs, other answers, changes of what is declared → readings."""

    def ask(question: Any, says: Say, more: Any = (), **changed: Any) -> dict[tuple[str, str], Any]:
        answers = {SYSFS: says, MULTIPATH: b"nvme_core/parameters/multipath:Y\n", **dict(more)}
        declared = {"nvmeof": [ARRAY | changed]}
        result: dict[tuple[str, str], Any] = told(question(scripted(answers, declared)))
        return result

    return ask


def test_two_live_paths_and_their_settings(asked: Any, sysfs: bytes) -> None:
    found = asked(nvmeof_paths.ask_paths, sysfs)
    for item in ("array1/a", "array1/b"):
        assert found["nvmeof.path_state", item] == "live"
        assert found["nvmeof.path_ana", item] == "optimized"
        assert found["nvmeof.queues", item] == Quantity.of(1, "")
        assert found["nvmeof.keep_alive", item] == Quantity.of(3, "s")
        assert found["nvmeof.ctrl_loss_tmo", item] == "600 s"
        assert found["nvmeof.fast_io_fail_tmo", item] == "2 s"
        assert "kernel does not tell" in found["nvmeof.path_source", item]


def test_the_subsystem_and_the_host(asked: Any, sysfs: bytes) -> None:
    found = asked(nvmeof_paths.ask_subsystems, sysfs)
    assert found["nvmeof.serial", "array1"] == "LAB0000000000001"
    assert found["nvmeof.iopolicy", "array1"] == "round-robin"
    assert found["nvmeof.namespaces", "array1"] == Quantity.of(1, "")
    assert found["nvmeof.optimized_paths", "array1"] == Quantity.of(2, "")
    assert found["nvmeof.identities_agree", "array1"] is True
    assert found["nvmeof.unexpected_paths", "array1"] == "none"
    host = asked(nvmeof_paths.ask_host, sysfs)
    assert host["nvmeof.host_nqn", ""] == HOST_NQN
    assert host["nvmeof.native_multipath", ""] is True
    assert host["nvmeof.discovery_stuck", ""] == Quantity.of(0, "")


def test_a_missing_path_is_absent_and_not_merely_silent(asked: Any, sysfs: bytes) -> None:
    gone = b"".join(line for line in sysfs.splitlines(True) if b"nvme4" not in line)
    found = asked(nvmeof_paths.ask_paths, gone)
    assert found["nvmeof.path_state", "array1/b"] == "absent"
    assert "10.77.2.1:4420" in found["nvmeof.path_ana", "array1/b"]
    assert found["nvmeof.path_state", "array1/a"] == "live"


def test_a_renumbered_controller_is_the_same_path(asked: Any, sysfs: bytes) -> None:
    renumbered = sysfs.replace(b"/nvme4/nvme3c4n1", b"/nvme9/nvme3c9n1").replace(b"nvme4", b"nvme9")
    before = asked(nvmeof_paths.ask_paths, sysfs)
    after = asked(nvmeof_paths.ask_paths, renumbered)
    names = {"nvmeof.path_source"}  # its problem names the controller
    assert {key: value for key, value in after.items() if key[0] not in names} == {
        key: value for key, value in before.items() if key[0] not in names
    }


def test_a_path_that_came_back_under_another_address(asked: Any, sysfs: bytes) -> None:
    moved = sysfs.replace(b"traddr=10.77.2.1", b"traddr=10.77.3.1")
    found = asked(nvmeof_paths.ask_paths, moved)
    assert found["nvmeof.path_state", "array1/b"] == "absent"
    assert "nvme4 rdma 10.77.3.1:4420 (live)" in found["nvmeof.queues", "array1/b"]
    odd = asked(nvmeof_paths.ask_subsystems, moved)
    assert odd["nvmeof.unexpected_paths", "array1"] == "nvme4 rdma 10.77.3.1:4420 (live)"


def test_a_path_connected_twice_is_one_too_many(asked: Any, sysfs: bytes) -> None:
    twice = sysfs.replace(b"traddr=10.77.2.1", b"traddr=10.77.1.1")
    found = asked(nvmeof_paths.ask_subsystems, twice)
    assert "nvme4" in found["nvmeof.unexpected_paths", "array1"]


def test_another_namespace_behind_one_path(asked: Any, sysfs: bytes) -> None:
    lines = sysfs.splitlines(keepends=True)
    other = b"".join(
        line.replace(b"11111111-", b"22222222-") if b"nvme3c4n1" in line else line for line in lines
    )
    found = asked(nvmeof_paths.ask_subsystems, other)
    assert found["nvmeof.identities_agree", "array1"] is False


def test_a_host_connected_to_nothing(asked: Any) -> None:
    nothing = (1, b"", b"")
    found = asked(nvmeof_paths.ask_paths, nothing)
    assert {found["nvmeof.path_state", f"array1/{path}"] for path in "ab"} == {"absent"}
    odd = asked(nvmeof_paths.ask_subsystems, nothing)
    assert "connected to no subsystem" in odd["nvmeof.unexpected_paths", "array1"]
    host = asked(nvmeof_paths.ask_host, nothing, {"hostnqn": b"nqn.from-the-file\n"})
    assert host["nvmeof.host_nqn", ""] == "nqn.from-the-file"


def test_nvme_cli_is_asked_where_sysfs_tells_nothing(
    asked: Any, recorded: Callable[[str], bytes]
) -> None:
    listed = recorded("nvme_list_subsys/2.13-lab.json")
    found = asked(nvmeof_paths.ask_paths, (2, b"", b"cd: no such folder"), {CLI: listed})
    assert found["nvmeof.path_state", "array1/b"] == "live"
    assert "does not tell" in found["nvmeof.queues", "array1/a"]


def test_paths_to_one_port_are_told_apart_by_their_source(asked: Any, sysfs: bytes) -> None:
    crossed = sysfs.replace(
        b"traddr=10.77.1.1,trsvcid=4420", b"traddr=10.77.1.1,trsvcid=4420,host_traddr=10.77.1.2"
    ).replace(
        b"traddr=10.77.2.1,trsvcid=4420", b"traddr=10.77.1.1,trsvcid=4420,host_traddr=10.77.2.2"
    )
    paths = [
        {"name": "a", "target": "10.77.1.1", "host": "10.77.2.2"},
        {"name": "b", "target": "10.77.1.1", "host": "10.77.1.2"},
    ]
    found = asked(nvmeof_paths.ask_paths, crossed, paths=paths)
    assert found["nvmeof.path_source", "array1/a"] == "10.77.2.2"
    assert found["nvmeof.path_source", "array1/b"] == "10.77.1.2"


def test_no_order_of_controllers_changes_what_is_matched(sysfs: bytes) -> None:
    declared = NvmeSubsystem.model_validate(ARRAY)
    found = nvmeof_sysfs.subsystems(sysfs)
    there = nvmeof.match(declared, found)
    again = nvmeof.match(declared, tuple(reversed(found)))
    assert there == again
    assert not there.unexpected


def test_discovery_lists_a_path_or_does_not(asked: Any, recorded: Callable[[str], bytes]) -> None:
    log = recorded("nvme_discover/2.13-lab.json")
    found = asked(nvmeof_discovery.ask, b"", {DISCOVER: log})
    assert found["nvmeof.discovered", "array1/a"] is True
    assert found["nvmeof.discovered", "array1/b"] is False


def test_a_discovery_that_fails_says_why(asked: Any) -> None:
    refused = (1, b"", b"failed to add controller, error failed to write to nvme-fabrics device\n")
    found = asked(nvmeof_discovery.ask, b"", {DISCOVER: refused})
    assert "10.77.1.1:4420" in found["nvmeof.discovered", "array1/a"]
    assert "failed to add controller" in found["nvmeof.discovered", "array1/a"]


def test_nothing_declared_nothing_asked(scripted: Any) -> None:
    witness = scripted({}, {})
    for ask in (
        nvmeof_paths.ask_paths,
        nvmeof_paths.ask_subsystems,
        nvmeof_discovery.ask,
    ):
        assert ask(witness).readings == ()
    assert {each.value for each in nvmeof_paths.ask_host(witness).readings} == {None}
    assert witness.transport.asked == []
