"""Full frames, GIDs and counters of RoCE: what goes through, and what moved in a window."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvgate.errors import CommandError
from kvgate.model.quantity import Quantity
from kvgate.probes import pings, roce, roce_counters
from kvgate.probes.roce_counters import Taken

GIDS = b"".join(
    b"rxe%s/ports/1/%s/%d:%s\n" % (port, name, index, value)
    for port, nic, address in ((b"A", b"dataA", b"0a4d:0102"), (b"B", b"dataB", b"0a4d:0202"))
    for index, gid in ((0, b"fe80:0000:0000:0000:5054:00ff:fe77:0a02"), (1, address))
    for name, value in (
        (b"gids", gid if index == 0 else b"0000:0000:0000:0000:0000:ffff:" + gid),
        (b"gid_attrs/types", b"RoCE v2"),
        (b"gid_attrs/ndevs", nic),
    )
)
LINK = {
    "name": "a",
    "nic": "dataA",
    "address": "10.77.1.2",
    "to": "other",
    "to_nic": "dataA",
    "to_address": "10.77.1.1",
}
ARRAY = {
    "name": "array1",
    "nqn": "nqn.x",
    "transport": "tcp",
    "mtu": "9000 B",
    "paths": [{"name": "a", "target": "10.77.1.1", "host": "10.77.1.2"}],
}


def answers(size: int, received: int) -> bytes:
    return (
        f"PING 10.77.1.1 (10.77.1.1) {size}({size + 28}) bytes of data.\n\n"
        f"--- 10.77.1.1 ping statistics ---\n"
        f"3 packets transmitted, {received} received, "
        f"{99 - 33 * received}% packet loss, time 1ms\n"
    ).encode()


@pytest.mark.parametrize(("through", "mtu"), [(8972, 9000), (4172, 4200), (1472, 1500)])
def test_the_mtu_is_the_largest_that_comes_back(
    scripted: Any, told: Any, through: int, mtu: int
) -> None:
    says = {
        f"-s {size} ": answers(size, 3 if size <= through else 0) for size in (8972, 4172, 1472)
    }
    found = told(pings.ask_paths(scripted(says, {"nvmeof": [ARRAY]})))
    assert found["nvmeof.path_mtu", "array1/a"] == Quantity.of(mtu, "B")


def test_who_answers_no_ping_has_no_mtu(scripted: Any, told: Any) -> None:
    silent = {"ping": (1, answers(8972, 0), b"")}
    found = told(pings.ask_paths(scripted(silent, {"nvmeof": [ARRAY]})))
    assert "answered 0 of 3 pings" in found["nvmeof.path_mtu", "array1/a"]
    missing = told(pings.ask_paths(scripted({}, {"nvmeof": [ARRAY]})))
    assert "iputils-ping" in missing["nvmeof.path_mtu", "array1/a"]


def test_the_pings_leave_by_the_paths_own_address() -> None:
    argv = pings.argv("10.77.1.1", 9000, "10.77.1.2")
    assert argv[argv.index("-s") + 1] == "8972"
    assert argv[argv.index("-I") + 1] == "10.77.1.2"
    assert pings.argv("2001:db8::1", 9000, None)[5] == "8952"


def test_the_gid_of_an_address(scripted: Any, told: Any) -> None:
    witness = scripted({"infiniband": GIDS}, {"fabric": [LINK]})
    found = told(roce.ask(witness))
    assert found["fabric.gid_type", "a"] == "RoCE v2"
    assert found["fabric.gid_index", "a"] == Quantity.of(1, "")
    gid, _ = roce.end(witness, "dataB", "10.77.2.2")
    assert (gid.device, gid.port, gid.index) == ("rxeB", 1, 1)


def test_an_address_without_a_gid(scripted: Any, told: Any) -> None:
    witness = scripted({"infiniband": GIDS}, {"fabric": [LINK | {"address": "10.77.9.9"}]})
    assert "no RDMA device" in told(roce.ask(witness))["fabric.gid_index", "a"]
    with pytest.raises(CommandError, match="rdma link"):
        roce.end(witness, "dataA", "10.77.9.9")


def taken(uptime_s: float = 10.0, boot: str = "b", **counters: int) -> Taken:
    return Taken(boot, uptime_s, {"dataA": counters} if counters else {})


def moved(before: Taken, after: Taken) -> dict[str, Any]:
    return {
        each.name: each.problem if each.value is None else each.value
        for each in roce_counters.moved("h1", ["dataA"], before, after)
    }


def test_what_moved_is_named() -> None:
    before = taken(out_of_sequence=3, rx_discards_phy=0, np_cnp_sent=5, rx_packets_phy=1)
    after = taken(20.0, out_of_sequence=5, rx_discards_phy=1, np_cnp_sent=25, rx_packets_phy=9)
    found = moved(before, after)
    assert found["roce.moved_losses"] == "out_of_sequence +2, rx_discards_phy +1"
    assert found["roce.cnp_rate"] == Quantity.of(2, "Hz")
    assert "does not count" in found["roce.pause_share"]


def test_a_window_in_which_nothing_moved() -> None:
    still = {"out_of_sequence": 3, "rx_prio3_pause_duration": 100, "np_cnp_sent": 0}
    found = moved(taken(**still), taken(20.0, **(still | {"rx_prio3_pause_duration": 50_100})))
    assert found["roce.moved_losses"] == "none"
    assert found["roce.pause_share"] == Quantity.of("0.5", "%")  # 50,000 us of 10 s
    assert found["roce.congestion_ignored"] == "none"


def test_counters_of_ionic_are_known_by_their_names() -> None:
    names = ("tx_rdma_cnp_pkts", "rx_rdma_cnp_pkts", "rx_rdma_ecn_pkts", "resp_rx_outof_buf",
             "req_rx_rnr_retry_err", "tx_rdma_ucast_pkts", "hw_rx_dropped")  # fmt: skip
    still = dict.fromkeys(names, 7)
    moved_on = still | {"tx_rdma_cnp_pkts": 27, "rx_rdma_cnp_pkts": 17, "rx_rdma_ecn_pkts": 9}
    found = moved(taken(**still), taken(20.0, **moved_on, tx_rdma_ucast_bytes=1))
    assert found["roce.moved_losses"] == "none"
    assert found["roce.cnp_rate"] == Quantity.of(3, "Hz")
    assert found["roce.congestion_ignored"] == "none"
    unmarked = moved(taken(**still), taken(20.0, **(still | {"tx_rdma_cnp_pkts": 8})))
    assert unmarked["roce.congestion_ignored"] == "1 CNPs sent and no packet marked"
    lost = still | {"resp_rx_outof_buf": 8, "req_rx_rnr_retry_err": 9, "hw_rx_dropped": 8}
    told = "hw_rx_dropped +1, req_rx_rnr_retry_err +2, resp_rx_outof_buf +1"
    assert moved(taken(**still), taken(20.0, **lost))["roce.moved_losses"] == told


def test_a_counter_that_went_back_is_no_number() -> None:
    found = moved(taken(out_of_sequence=7), taken(20.0, out_of_sequence=1))
    assert "went from 7 to 1" in found["roce.moved_losses"]
    assert len(set(found.values())) == 1


def test_a_boot_in_between_is_no_number() -> None:
    found = moved(taken(out_of_sequence=0), taken(20.0, boot="other", out_of_sequence=0))
    assert "booted again" in found["roce.moved_losses"]


def test_a_port_without_counters_is_no_silence() -> None:
    assert "tells no counters" in moved(taken(), taken())["roce.moved_losses"]
    found = moved(taken(rx_packets=1), taken(rx_packets=2))
    assert "no counter of loss" in found["roce.moved_losses"]


@pytest.mark.parametrize(
    ("after", "told"),
    [
        ({"rp_cnp_ignored": 4}, "rp_cnp_ignored +4"),
        ({"np_cnp_sent": 9}, "9 CNPs sent and no packet marked"),
        ({"np_cnp_sent": 9, "np_ecn_marked_roce_packets": 9}, "none"),
    ],
)
def test_congestion_that_is_not_heeded(after: dict[str, int], told: str) -> None:
    zero = {"rp_cnp_ignored": 0, "np_cnp_sent": 0, "np_ecn_marked_roce_packets": 0}
    found = moved(taken(**zero), taken(20.0, **(zero | after)))
    assert found["roce.congestion_ignored"] == told


@given(st.dictionaries(st.sampled_from(["out_of_sequence", "rx_crc_errors_phy"]),
                       st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1))  # fmt: skip
def test_only_growth_is_ever_told(counters: dict[str, tuple[int, int]]) -> None:
    before = taken(**{name: first for name, (first, _) in counters.items()})
    after = taken(20.0, **{name: last for name, (_, last) in counters.items()})
    found = moved(before, after)["roce.moved_losses"]
    if any(last < first for first, last in counters.values()):
        assert "went from" in found
    else:
        grew = {name for name, (first, last) in counters.items() if last > first}
        assert (found == "none") == (not grew)
        assert all(name in found for name in grew)


def test_counters_are_taken_from_sysfs_and_ethtool(scripted: Any) -> None:
    says = {
        "/proc/uptime": b"123.45 99.00\n5a1c0de0-0001-4000-8000-000000000001\n",
        "infiniband": GIDS + b"rxeA/ports/1/hw_counters/out_of_seq_request:7\n",
        "ethtool -S dataA": b"NIC statistics:\n     rx_discards_phy: 2\n",
    }
    witness = scripted(says, {"nics": [{"name": "mgmt0"}], "fabric": [LINK]})
    found, asked = roce_counters.take(witness)
    assert found.uptime_s == 123.45
    assert found.ports == {"dataA": {"out_of_seq_request": 7, "rx_discards_phy": 2}}
    assert len(asked) == 4
