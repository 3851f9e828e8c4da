"""Network ports: is every declared one there, with its address, speed and a link."""

from __future__ import annotations

from collections.abc import Iterator

from kvgate.model.record import Reading
from kvgate.parse import net
from kvgate.probes.base import PLAIN, SHORT_S, Probe, answer, asks, class_argv, reading, shifted
from kvgate.spec.declared import Nic
from kvgate.witness import Answer, Testimony, Witness

MEASURES = ("nic.present", "nic.mac", "nic.speed", "nic.carrier")


SYSFS = class_argv(
    "/sys/class/net",
    "*/address",
    "*/speed",
    "*/carrier",
    "*/operstate",
    "*/device/modalias",
)


def look(witness: Witness) -> tuple[tuple[net.Port, ...], Testimony]:
    """Return the network ports that sysfs shows, and what was asked."""
    asked = witness.ask(SYSFS, timeout_s=SHORT_S, env=PLAIN)
    return net.ports(asked.stdout), asked


def ask_ports(witness: Witness) -> Answer:
    """Return nic.present, nic.mac, nic.speed and nic.carrier of every declared port."""
    ports, asked = look(witness)
    by_name = {port.name: port for port in ports}
    found = [
        each for nic in witness.host.declared.nics for each in _told(nic, by_name.get(nic.name))
    ]
    return answer(found, asked)


def _told(nic: Nic, port: net.Port | None) -> Iterator[Reading]:
    yield reading("nic.present", port is not None, item=nic.name)
    if port is None:
        for measure in MEASURES[1:]:
            yield reading(measure, None, f"there is no port '{nic.name}'", item=nic.name)
        return
    speed = None if port.speed_mbps is None else shifted(port.speed_mbps, 3, "Gbit/s")
    yield reading("nic.mac", port.mac, f"{port.name} has no address", item=nic.name)
    yield reading("nic.speed", speed, no_speed(port), item=nic.name)
    yield reading(
        "nic.carrier",
        port.carrier,
        f"{port.name} is administratively down ({port.operstate}): `ip link set {port.name} up`",
        item=nic.name,
    )


def no_speed(port: net.Port) -> str:
    """Return the sentence for a port without a speed: what it reports instead, and its state."""
    told = "no speed" if port.speed_as_told is None else f"{port.speed_as_told} for its speed"
    state = {True: "it has a link, so it is virtual", False: "it has no link", None: "it is down"}[
        port.carrier
    ]
    return f"{port.name} reports {told.replace('-', '−')} ({state})"


PROBES: tuple[Probe, ...] = (
    Probe(name="ports", measures=MEASURES, ask=ask_ports, commands=asks(SYSFS), items="nic"),
)
