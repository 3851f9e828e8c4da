"""Outputs of paths: nvme list-subsys, discover, connect, perftest, multipath, ping."""

from collections.abc import Callable
from decimal import Decimal

import pytest

from kvgate.errors import ParseError
from kvgate.model.quantity import Quantity
from kvgate.parse import multipath, nvme_connect, nvme_subsys, perftest, ping

Recorded = Callable[[str], bytes]


def test_list_subsys_tells_the_same_in_all_its_shapes(recorded: Recorded) -> None:
    names = ("2.13-lab.json", "2.13-lab-device.txt", "2.13-lab-verbose.txt")
    for name in names:
        found = nvme_subsys.subsystems(recorded(f"nvme_list_subsys/{name}")).subsystems[-1]
        assert found.nqn == "nqn.2026-11.lab:array1"
        assert [path.parts["traddr"] for path in found.paths] == ["10.77.1.1", "10.77.2.1"]
        assert {path.state for path in found.paths} == {"live"}
    assert found.iopolicy == "round-robin"  # only -v tells it


def test_topology_tells_the_namespace_of_each_path(recorded: Recorded) -> None:
    found = nvme_subsys.subsystems(recorded("nvme_list_subsys/2.13-lab-topology.txt"))
    assert [(path.nsid, path.ana_state) for path in found.subsystems[-1].paths] == [
        (1, "optimized"),
        (1, "optimized"),
    ]


def test_paths_of_version_1_stand_behind_their_subsystem() -> None:
    told = b'{"Subsystems":[{"Name":"s0","NQN":"n"},{"Paths":[{"Name":"a","Transport":"tcp"}]}]}'
    (found,) = nvme_subsys.subsystems(told).subsystems
    assert [(path.name, path.state, path.address) for path in found.paths] == [("a", None, None)]


def test_no_subsystem_is_an_empty_list_and_nothing_else() -> None:
    assert nvme_subsys.subsystems(b"[]").subsystems == ()
    with pytest.raises(ParseError):
        nvme_subsys.subsystems(b"\n")


def test_a_state_that_nvme_does_not_have_is_refused() -> None:
    with pytest.raises(ParseError, match="no path"):
        nvme_subsys.subsystems(b"nvme-subsys1 - NQN=n\n\\\n +- nvme1 tcp traddr=1.2.3.4 alive\n")


def test_discovery_lists_by_address(recorded: Recorded) -> None:
    found = nvme_connect.discovered(recorded("nvme_discover/2.13-lab.json"))
    assert found.lists("nqn.2026-11.lab:array1", "rdma", "10.77.1.1", "4420")
    assert not found.lists("nqn.2026-11.lab:array1", "tcp", "10.77.1.1", "4420")
    assert not found.lists("nqn.2026-11.lab:array1", "rdma", "10.77.1.1", "4421")
    text = nvme_connect.discovered(recorded("nvme_discover/2.13-lab.txt"))
    assert text.declared == len(text.records) == 2


def test_more_records_than_declared_are_refused(recorded: Recorded) -> None:
    told = recorded("nvme_discover/2.13-lab.txt").replace(b"Records 2", b"Records 1")
    with pytest.raises(ParseError, match="1 records"):
        nvme_connect.discovered(told)


@pytest.mark.parametrize(
    ("said", "error", "name"),
    [
        (
            b"Failed to write to /dev/nvme-fabrics: Connection refused\n",
            "Connection refused",
            "ECONNREFUSED",
        ),
        (
            b"could not add new controller: failed to write to nvme-fabrics device\n",
            "failed to write to nvme-fabrics device",
            None,
        ),
        (b"already connected\n", "already connected", None),
    ],
)
def test_complaints_of_connect(said: bytes, error: str, name: str | None) -> None:
    found = nvme_connect.complaint(said)
    assert (found.error_text, found.errno_name) == (error, name)


def test_perftest_in_both_units(recorded: Recorded) -> None:
    write = perftest.bandwidth(recorded("ib_write_bw/25.01-lab.txt"))
    assert (write.device, write.mtu_bytes, write.gid_index, write.unit) == (
        "rxeA",
        4096,
        1,
        "Gb/s",
    )
    assert write.rows[0].peak is None  # it says that it measured none
    assert write.rate(write.rows[0]) == Quantity(Decimal(79_032_000), "bit/s")
    read = perftest.bandwidth(recorded("ib_read_bw/25.01-lab.txt"))
    assert read.rate(read.rows[0]).base == Decimal("9.77") * 8 * 2**20


def test_a_run_that_did_not_end_is_no_result(recorded: Recorded) -> None:
    head, _, _ = recorded("ib_write_bw/25.01-lab.txt").partition(b" 65536")
    with pytest.raises(ParseError, match="did not end"):
        perftest.bandwidth(head)
    with pytest.raises(ParseError, match="Couldn't connect"):
        perftest.bandwidth(b"Couldn't connect to 10.77.1.1:18999\n")


def test_multipath_of_nvme_and_scsi(recorded: Recorded) -> None:
    nvme, scsi = multipath.maps(recorded("multipath/composed-0.9.txt"))
    assert (nvme.device, nvme.handler, len(nvme.groups)) == ("nvme3n1", "ANA", 2)
    assert (scsi.alias, scsi.device) == ("mpatha", "dm-0")
    assert [(path.name, path.failed) for path in scsi.paths] == [("sdcg", False), ("sdb", True)]


def test_ping_that_goes_through_and_that_does_not(recorded: Recorded) -> None:
    through = ping.pinged(recorded("ping/20240905-lab.txt"))
    assert (through.payload_bytes, through.whole, through.too_long) == (4172, True, False)
    long = ping.pinged(recorded("ping/20240905-lab-too-long.txt"))
    assert (long.whole, long.too_long) == (False, True)
    silent = ping.pinged(recorded("ping/20240905-lab-silent.txt"))
    assert (silent.received, silent.too_long) == (0, False)
    told = b"ping: local error: message too long, mtu=1500\n" + recorded(
        "ping/20240905-lab-silent.txt"
    )
    assert ping.pinged(told).mtu_bytes == 1500


def test_ping_without_statistics_is_refused() -> None:
    with pytest.raises(ParseError, match="Name or service"):
        ping.pinged(b"ping: nowhere: Name or service not known\n")
