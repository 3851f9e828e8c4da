"""RDMA devices from sysfs: firmware, state, GIDs with their kind and port, counters."""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from collections.abc import Mapping

from kvgate.parse import sysfs
from kvgate.parse.ending import reads
from kvgate.parse.text import refuse, shown, whole

WHAT = "/sys/class/infiniband"
_GID = re.compile(r"ports/([0-9]{1,3})/(gids|gid_attrs/types|gid_attrs/ndevs)/([0-9]{1,4})")
_COUNTER = re.compile(r"ports/([0-9]{1,3})/(?:hw_counters|counters)/([A-Za-z0-9_]{1,64})")
_DEFAULT = re.compile(r"ports/([0-9]{1,3})/default_roce_(?:mode|tos)")
_ADDRESS = re.compile(r"[0-9a-f]{4}(?::[0-9a-f]{4}){7}")
_EMPTY = frozenset("0:")

LOSS = frozenset(
    {
        # mlx5 (NVIDIA's list of RDMA counters), bnxt_re, ionic: loss, retry, or damaged packets
        "out_of_sequence",
        "packet_seq_err",
        "local_ack_timeout_err",
        "rnr_nak_retry_err",
        "out_of_buffer",
        "implied_nak_seq_err",
        "roce_adp_retrans_to",
        "rx_icrc_encapsulated",
        "oos_drop_count",
        "seq_err_naks_rcvd",
        "to_retransmits",
        "max_retry_exceeded",
        "rx_roce_discards",
        "rx_roce_errors",
        "resp_rx_outouf_seq",
        "resp_rx_outof_buf",
        "resp_tx_pkt_seq_err",
        "resp_tx_rnr_retry_err",
        "req_rx_pkt_seq_err",
        "req_rx_rnr_retry_err",
        "req_rx_impl_nak_seq_err",
        "tx_rdma_ack_timeout",
        "tx_rdma_retx_pkts",
        "req_tx_retry_excd_err",
        "rx_rdma_mtu_discard_pkts",
        # rdma_rxe (drivers/infiniband/sw/rxe/rxe_hw_counters.c)
        "out_of_seq_request",
        "rcvd_seq_err",
        "retry_exceeded_err",
        "retry_rnr_exceeded_err",
        "completer_retry_err",
    }
)
"""Counters of loss and retry, by the names their drivers have (``outouf`` is ionic's spelling)."""

CNP_SENT = frozenset({"np_cnp_sent", "tx_cnp_pkts", "tx_rdma_cnp_pkts"})
"""Counters of CNPs that were sent, as packets came marked (mlx5, bnxt_re, ionic)."""

CNP = CNP_SENT | {"rp_cnp_handled", "rx_cnp_pkts", "rx_rdma_cnp_pkts"}
"""Counters of CNPs, sent and received: no failures, their rate is judged."""

MARKED = frozenset({"np_ecn_marked_roce_packets", "rx_ecn_marked_pkts", "rx_rdma_ecn_pkts"})
"""Counters of packets that came with ECN's mark."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RdmaPort:
    """A port of an RDMA device. ``roce_v2``: network port → GIDs of kind RoCE v2 on it."""

    device: str
    port: int
    state: str | None  # ACTIVE
    physical_state: str | None  # LinkUp
    roce_v2: Mapping[str, tuple[str, ...]]
    counters: Mapping[str, int]

    @property
    def losses(self) -> int | None:
        """Return the sum of the counters of loss that it has; None where it has none of them."""
        known = [count for name, count in self.counters.items() if name in LOSS]
        return sum(known) if known else None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RdmaDevice:
    """An RDMA device; ``netdevs`` are the network ports that its GIDs belong to."""

    name: str
    firmware: str | None
    ports: tuple[RdmaPort, ...]

    @property
    def netdevs(self) -> frozenset[str]:
        """Return the network ports of its RoCE v2 GIDs."""
        return frozenset(netdev for port in self.ports for netdev in port.roce_v2)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Gid:
    """A GID in use: its place in a port's table, its kind (``RoCE v2``), and its network port."""

    device: str
    port: int
    index: int
    kind: str
    netdev: str | None
    gid: str  # eight groups of four hexadecimal digits

    def is_of(self, address: str) -> bool:
        """Tell whether it is the GID of an IP address (IPv4 mapped into IPv6)."""
        ip = ipaddress.ip_address(address)
        mapped = f"::ffff:{ip}" if ip.version == 4 else str(ip)
        return ipaddress.IPv6Address(mapped) == ipaddress.IPv6Address(self.gid)


def gids(answer: bytes) -> tuple[Gid, ...]:
    """Return the GIDs in use, from the attributes below /sys/class/infiniband, as `devices`."""
    found = []
    for name, values in sysfs.attributes(answer, WHAT).items():
        rows = sorted(_gid_rows(values).items())
        found += [_gid(name, *key, row) for key, row in rows if _used(row)]
    return tuple(found)


def _gid_rows(values: dict[str, bytes]) -> dict[tuple[int, int], dict[str, str]]:
    """Return port and index → what is told of that GID: gids, types, ndevs."""
    rows: dict[tuple[int, int], dict[str, str]] = {}
    for attribute in values:
        match = _GID.fullmatch(attribute)
        if match and (told := sysfs.text(values, attribute, WHAT)):
            key = (int(match[1]), int(match[3]))
            rows.setdefault(key, {})[match[2].rpartition("/")[2]] = told
    return rows


def _used(row: Mapping[str, str]) -> bool:
    return "types" in row and bool(set(row.get("gids", "")) - _EMPTY)


def _gid(device: str, port: int, index: int, row: Mapping[str, str]) -> Gid:
    if not _ADDRESS.fullmatch(row["gids"]):
        refuse(WHAT, f"{shown(row['gids'])} is no GID")
    return Gid(
        device=device,
        port=port,
        index=index,
        kind=row["types"],
        netdev=row.get("ndevs"),
        gid=row["gids"],
    )


def devices(answer: bytes) -> tuple[RdmaDevice, ...]:
    """Parse attributes below /sys/class/infiniband (kernel ABI stable/sysfs-class-infiniband)."""
    return tuple(_device(name, values) for name, values in sysfs.attributes(answer, WHAT).items())


def _device(name: str, values: dict[str, bytes]) -> RdmaDevice:
    numbers = sorted({int(n.split("/")[1]) for n in values if re.match(r"ports/[0-9]{1,3}/", n)})
    gids = _gid_rows(values)
    counters: dict[int, dict[str, int]] = {}
    for attribute in values:
        if match := _COUNTER.fullmatch(attribute):
            told = sysfs.text(values, attribute, WHAT) or ""
            counters.setdefault(int(match[1]), {})[match[2]] = whole(told, WHAT, attribute)
    return RdmaDevice(
        name=name,
        firmware=sysfs.text(values, "fw_ver", WHAT) or None,
        ports=tuple(
            RdmaPort(
                device=name,
                port=number,
                state=_state(values, f"ports/{number}/state"),
                physical_state=_state(values, f"ports/{number}/phys_state"),
                roce_v2=_roce(gids, number),
                counters=counters.get(number, {}),
            )
            for number in numbers
        ),
    )


def _state(values: dict[str, bytes], name: str) -> str | None:
    """Return the word of ``4: ACTIVE``."""
    told = sysfs.text(values, name, WHAT)
    return None if told is None else told.rpartition(": ")[2] or None


def _roce(gids: dict[tuple[int, int], dict[str, str]], port: int) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for (of, _), told in sorted(gids.items()):
        gid, netdev = told.get("gids"), told.get("ndevs")
        if of != port or told.get("types") != "RoCE v2" or gid is None or netdev is None:
            continue
        if not _ADDRESS.fullmatch(gid):
            refuse(WHAT, f"{shown(gid)} is no GID")
        if set(gid) - _EMPTY:
            found[netdev] = (*found.get(netdev, ()), gid)
    return found


def defaults(answer: bytes) -> dict[str, dict[int, tuple[str | None, int | None]]]:
    """Return device → port → RoCE mode and TOS that new connections of rdma_cm begin with.

    From the attributes below /sys/kernel/config/rdma_cm, which are there for devices that somebody
    made a folder for (kernel ABI configfs-rdma_cm).
    """
    what = "rdma_cm"
    found: dict[str, dict[int, tuple[str | None, int | None]]] = {}
    for name, values in sysfs.attributes(answer, what).items():
        numbers = {int(match[1]) for each in values if (match := _DEFAULT.fullmatch(each))}
        for number in sorted(numbers):
            mode = sysfs.text(values, f"ports/{number}/default_roce_mode", what) or None
            tos = sysfs.text(values, f"ports/{number}/default_roce_tos", what)
            found.setdefault(name, {})[number] = (
                mode,
                None if tos is None else whole(tos, what, "default_roce_tos"),
            )
    return found


TOOLS = {
    "sysfs_infiniband": reads(WHAT, devices, fine=(0, 1, 2)),
    "rdma_cm": reads("rdma_cm", defaults, fine=(0, 1, 2)),
}
"""grep ends with 1 where nothing is there, with 2 where a file can't be read."""
