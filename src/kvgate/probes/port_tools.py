"""Network ports by ethtool: driver and firmware, link, pause frames, rings, optics, counters."""

from __future__ import annotations

from collections.abc import Iterable

from kvgate.model.quantity import Quantity, counted
from kvgate.model.record import Reading
from kvgate.parse import drvinfo, ethtool, ethtool_port, optics
from kvgate.parse.optics import Lane
from kvgate.probes.base import (
    PLAIN,
    SHORT_S,
    Command,
    Probe,
    ReadItem,
    answer,
    read_or_untold,
    reading,
)
from kvgate.witness import Answer, Witness

LOSSES = frozenset(
    {
        # mlx5, bnxt_en, ionic, virtio: frames that were lost, damaged or discarded, links that fell
        "rx_discards_phy",
        "tx_discards_phy",
        "rx_out_of_buffer",
        "rx_crc_errors_phy",
        "rx_symbol_err_phy",
        "link_down_events_phy",
        "rx_pcs_symbol_err_phy",
        "tx_pause_storm_error_events",
        "rx_fcs_err_frames",
        "rx_total_discard_pkts",
        "tx_total_discard_pkts",
        "hw_rx_dropped",
        "hw_tx_dropped",
        *(f"rx_prio{priority}_discards" for priority in range(8)),
    }
)
"""Counters of ``ethtool -S`` that must not go up on a lossless fabric, by their drivers' names."""

PAUSES = frozenset(
    name.format(way=way, priority=priority)
    for name in (
        "{way}_prio{priority}_pause",
        "{way}_pfc_ena_frames_pri{priority}",
        "frames_{way}_pripause",
        "frames_{way}_pripause_{priority}",
    )
    for way in ("rx", "tx")
    for priority in range(8)
)
"""Counters of PFC's pause frames: no failures, their rate is judged."""


def by_ethtool(name: str, option: str, measures: tuple[str, ...], read: ReadItem) -> Probe:
    """Return the probe that reads `measures` of every declared port from ``ethtool OPTION``."""

    def argv(item: str) -> tuple[str, ...]:
        return ("ethtool", *filter(None, (option,)), item)

    def ask(witness: Witness) -> Answer:
        readings: list[Reading] = []
        testimonies = []
        for item in witness.host.items("nic"):
            told = witness.ask(argv(item), timeout_s=SHORT_S, env=PLAIN)
            testimonies.append(told)
            readings += read_or_untold(told, measures, item, read, "ethtool")
        return answer(readings, *testimonies)

    return Probe(
        name=name,
        measures=measures,
        ask=ask,
        commands=lambda host: tuple(Command(argv=argv(item)) for item in host.items("nic")),
        tools=("ethtool",),
        items="nic",
    )


def _driver(told: bytes, item: str) -> Iterable[Reading]:
    found = drvinfo.driver_info(told)
    yield reading("nic.driver", found.driver, item=item)
    yield reading("nic.firmware", found.firmware, f"{item} tells no firmware", item=item)


def _link(told: bytes, item: str) -> Iterable[Reading]:
    found = ethtool.settings(told)[0]
    why = f"{item} tells nothing of auto-negotiation"
    yield reading("nic.autonegotiation", found.autonegotiation, why, item=item)
    yield reading("nic.lanes", counted(found.lanes), f"{item} tells no lanes", item=item)


def _pause(told: bytes, item: str) -> Iterable[Reading]:
    found = ethtool_port.pause(told)
    yield reading("nic.global_pause", found.rx or found.tx, item=item)


def _rings(told: bytes, item: str) -> Iterable[Reading]:
    found = ethtool_port.rings(told)
    sizes = (found.rx, found.rx_max, found.tx, found.tx_max)
    none = f"{item} does not tell all of its rings' sizes"
    full = None if None in sizes else (found.rx, found.tx) == (found.rx_max, found.tx_max)
    yield reading("nic.rings_full", full, none, item=item)
    yield reading("nic.rx_ring", counted(found.rx), none, item=item)
    yield reading("nic.tx_ring", counted(found.tx), none, item=item)


def _optics(told: bytes, item: str) -> Iterable[Reading]:
    found = optics.module(told)
    named = " ".join(filter(None, (found.vendor, found.part_number)))
    yield reading("nic.module", named or found.identifier, item=item)
    none = f"the module of {item} has no diagnostics, as copper cables have none"
    heat = None if found.temperature_c is None else Quantity(found.temperature_c, "degC")
    yield reading("nic.module_temperature", heat, none, item=item)
    for name, lanes in (("nic.rx_power", found.received), ("nic.tx_power", found.sent)):
        dark = f"a lane of {item} is dark" if lanes else none
        yield reading(name, _weakest(lanes), dark, item=item)
    lit = bool(found.received or found.sent or found.temperature_c is not None)
    count = Quantity.of(len(found.alarms), "") if lit else None
    yield reading("nic.module_alarms", count, none, item=item)


def _weakest(lanes: tuple[Lane, ...]) -> Quantity | None:
    told = [lane.dbm for lane in lanes]
    known = [each for each in told if each is not None]
    return Quantity(min(known), "dBm") if known and len(known) == len(told) else None


def _counters(told: bytes, item: str) -> Iterable[Reading]:
    counters = ethtool.statistics(told)[0].counters
    losses = [counters[name] for name in counters.keys() & LOSSES]
    yield reading("nic.losses", _sum(losses), f"{item} counts no losses by name", item=item)
    pauses = [counters[name] for name in counters.keys() & PAUSES]
    why = f"{item} counts no pause frames by priority"
    yield reading("nic.pauses", _sum(pauses), why, item=item)


def _sum(values: list[int]) -> Quantity | None:
    return Quantity.of(sum(values), "") if values else None


PROBES: tuple[Probe, ...] = (
    by_ethtool("port driver", "-i", ("nic.driver", "nic.firmware"), _driver),
    by_ethtool("port link", "", ("nic.autonegotiation", "nic.lanes"), _link),
    by_ethtool("port pause", "-a", ("nic.global_pause",), _pause),
    by_ethtool("port rings", "-g", ("nic.rings_full", "nic.rx_ring", "nic.tx_ring"), _rings),
    by_ethtool(
        "port optics",
        "-m",
        (
            "nic.module",
            "nic.module_temperature",
            "nic.rx_power",
            "nic.tx_power",
            "nic.module_alarms",
        ),
        _optics,
    ),
    by_ethtool("port statistics", "-S", ("nic.losses", "nic.pauses"), _counters),
)
