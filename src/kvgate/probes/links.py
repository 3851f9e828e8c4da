"""Network ports beyond their link: MTU, FEC, error counters, and who is at the other end."""

from __future__ import annotations

from collections.abc import Iterator

from kvgate.model.quantity import Quantity
from kvgate.model.record import Reading
from kvgate.parse import fec, lldp, sysfs
from kvgate.parse.text import whole
from kvgate.probes.base import (
    PLAIN,
    SHORT_S,
    Command,
    Probe,
    answer,
    asks,
    class_argv,
    if_declared,
    reading,
    refusal,
    untold,
)
from kvgate.probes.port_tools import by_ethtool
from kvgate.spec.inventory import Host
from kvgate.witness import Answer, Witness

COUNTERS = (
    "rx_errors",
    "tx_errors",
    "rx_crc_errors",
    "rx_dropped",
)
SYSFS = class_argv(
    "/sys/class/net",
    "*/mtu",
    "*/carrier_down_count",
    *(f"*/statistics/{name}" for name in COUNTERS),
)
MEASURES = (
    "nic.mtu",
    "nic.link_downs",
    *(f"nic.{name}" for name in COUNTERS),
)


def ask_counters(witness: Witness) -> Answer:
    """Return MTU, link losses and error counters since boot of every declared port."""
    asked = witness.ask(SYSFS, timeout_s=SHORT_S, env=PLAIN)
    ports = sysfs.attributes(asked.stdout, "/sys/class/net")
    files = ("mtu", "carrier_down_count", *(f"statistics/{name}" for name in COUNTERS))
    readings = []
    for item in witness.host.items("nic"):
        values = ports.get(item)
        for measure, file in zip(MEASURES, files, strict=True):
            told = None if values is None else sysfs.text(values, file, item)
            why = f"there is no port '{item}'" if values is None else f"{item} tells no {file}"
            unit = "B" if file == "mtu" else ""
            value = None if told is None else Quantity.of(whole(told, item, file), unit)
            readings.append(reading(measure, value, why, item=item))
    return answer(readings, asked)


def _fec(told: bytes, item: str) -> Iterator[Reading]:
    """Yield nic.fec: the correction in use, or all of them in a text."""
    yield reading("nic.fec", ", ".join(fec.fec(told).active), item=item)


def _neighbours(host: Host) -> tuple[str, ...]:
    return host.as_root("lldpcli", "show", "neighbors", "-f", "json")


def ask_neighbours(witness: Witness) -> Answer:
    """Return nic.neighbour of every declared port: ``SWITCH PORT`` as LLDP tells it."""
    items = witness.host.items("nic")
    if not items:
        return Answer((), ())
    told = witness.ask(_neighbours(witness.host), timeout_s=SHORT_S, env=PLAIN)
    if not told.result.ok:
        return answer(untold(("nic.neighbour",), refusal(told, "lldpd"), items), told)
    heard: dict[str, list[str]] = {}
    for each in lldp.neighbours(told.stdout):
        words = filter(None, (each.switch, each.switch_port))
        heard.setdefault(each.port, []).append(" ".join(words))
    readings = [
        reading(
            "nic.neighbour",
            ", ".join(filter(None, heard.get(item, ()))) or None,
            f"{item} has heard no neighbour: no LLDP on the switch, or it is not cabled",
            item=item,
        )
        for item in items
    ]
    return answer(readings, told)


PROBES: tuple[Probe, ...] = (
    Probe(
        name="port counters",
        measures=MEASURES,
        ask=ask_counters,
        commands=asks(SYSFS),
        items="nic",
    ),
    by_ethtool("port fec", "--show-fec", ("nic.fec",), _fec),
    Probe(
        name="port neighbours",
        measures=("nic.neighbour",),
        ask=ask_neighbours,
        commands=if_declared("nic", lambda host: (Command(argv=_neighbours(host)),)),
        tools=("lldpcli",),
        items="nic",
    ),
)
