from collections.abc import Callable
from decimal import Decimal

import pytest

from kvgate.errors import ParseError
from kvgate.parse.verbs import devinfo, ibstat, show_gids

Recorded = Callable[[str], bytes]
IBSTAT, DEVINFO = "ibstat/composed-43.0.txt", "ibv_devinfo/composed-43.0-verbose.txt"
GIDS = "show_gids/composed-mlnx-tools-5.2.txt"


def test_ibstat_adapters_and_ports(recorded: Recorded) -> None:
    first, second = ibstat(recorded(IBSTAT))
    assert (first.name, first.type, first.firmware) == ("mlx5_0", "MT4129", "28.39.1002")
    assert (first.ports[0].state, first.ports[0].rate_gbps) == ("Active", 200)
    assert [(p.number, p.state, p.rate_gbps) for p in second.ports] == [
        (1, "Down", Decimal("2.5")),
        (2, "Active", 40),
    ]
    assert (second.node_guid, second.port_count) == (None, 2)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"Rate: 200", b"Rate: fast"),
        (b"Number of ports: 1", b"Number of ports: one"),
        (b"CA 'mlx4_0'", b"CA 'mlx5_0'"),
        (b"\tPort 2:", b"\tPort 1:"),
        (b"CA 'mlx5_0'\n", b""),
        (b"\t\tState: Active\n", b"\t\tState: Active\n\t\tState: Down\n"),
        (b"LMC: 0", b"LMC"),
    ],
)
def test_refused_ibstat(recorded: Recorded, old: bytes, new: bytes) -> None:
    assert old in recorded(IBSTAT)
    with pytest.raises(ParseError, match="ibstat"):
        ibstat(recorded(IBSTAT).replace(old, new))


def test_devinfo(recorded: Recorded) -> None:
    (found,) = devinfo(recorded(DEVINFO))
    assert (found.firmware, found.vendor_part_id, found.port_count) == ("28.39.1002", 4129, 1)
    (port,) = found.ports
    assert (port.state, port.physical_state) == ("PORT_ACTIVE", "LINK_UP")
    assert (port.active_mtu_bytes, port.max_mtu_bytes) == (4096, 4096)
    assert [(gid.index, gid.type) for gid in port.gids] == [
        (0, "RoCE v1"),
        (1, "RoCE v2"),
        (2, "RoCE v1"),
        (3, "RoCE v2"),
    ]


def test_a_gid_that_is_printed_twice_is_one(recorded: Recorded) -> None:
    twice = recorded(DEVINFO).replace(
        b"GID[  2]", b"GID[  1]:\t\tfe80::966d:aeff:fe00:1\n\t\t\tGID[  2]"
    )
    assert devinfo(twice) == devinfo(recorded(DEVINFO))


def test_blanks_of_web_pages(recorded: Recorded) -> None:
    answer = recorded(DEVINFO).replace(b"\t", "\u00a0 ".encode())
    assert devinfo(answer) == devinfo(recorded(DEVINFO))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"4096 (5)", b"large (5)"),
        (b"hca_id:\tmlx5_0\n", b""),
        (b"4129", b"0x1021z"),
        (b"\t\tport:\t1\n", b"\t\tport:\t1\n\t\tport:\t1\n"),
        (b"GID[  1]", b"GID[  0]"),
        (b"fw_ver:", b"fw_ver: 1\n\tfw_ver:"),
    ],
)
def test_refused_devinfo(recorded: Recorded, old: bytes, new: bytes) -> None:
    assert old in recorded(DEVINFO)
    with pytest.raises(ParseError, match="ibv_devinfo"):
        devinfo(recorded(DEVINFO).replace(old, new))


def test_gids(recorded: Recorded) -> None:
    found = show_gids(recorded(GIDS))
    assert found.declared == 3
    assert [(row.device, row.index, row.ipv4, row.version, row.netdev) for row in found.rows] == [
        ("mlx5_0", 0, None, "v1", "ens3f0np0"),
        ("mlx5_0", 3, "192.0.2.11", "v2", "ens3f0np0"),
        ("mlx5_1", 0, None, "v1", None),
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"n_gids_found=3", b"n_gids_found=4"),
        (b"\t3\t0000", b"\tN/A\t0000"),
        (b"fe80:", b"fe8:"),
    ],
)
def test_refused_gids(recorded: Recorded, old: bytes, new: bytes) -> None:
    assert old in recorded(GIDS)
    with pytest.raises(ParseError, match="show_gids"):
        show_gids(recorded(GIDS).replace(old, new))


@pytest.mark.parametrize("parser", [ibstat, devinfo, show_gids])
def test_nothing_is_refused(parser: Callable[[bytes], object]) -> None:
    with pytest.raises(ParseError):
        parser(b"\n")
    with pytest.raises(ParseError):
        parser(b"DEV PORT\n" if parser is show_gids else b"No IB devices found\n")
