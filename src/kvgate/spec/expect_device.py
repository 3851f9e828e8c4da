"""What an array, a switch or a BMC is expected to answer: what its inventory entry declares."""

from __future__ import annotations

from collections.abc import Iterator

from kvgate.model.quantity import Quantity, counted
from kvgate.model.record import Value
from kvgate.spec.inventory import Host, Role
from kvgate.spec.requirement import given

Told = tuple[str, str, Value]  # measure, item, value


def declared_of(host: Host) -> Iterator[Told]:
    """Yield (measure, item, value) for everything the device `host` is declared to have."""
    have, role = host.declared, host.role.value
    yield from given(
        "",
        (f"{role}.model", have.model),
        (f"{role}.serial", have.serial),
        (f"{role}.firmware", have.firmware),
    )
    if host.role is Role.ARRAY:
        yield from _of_array(host)
    elif host.role is Role.SWITCH:
        yield from given("", ("switch.ecn", have.ecn))
    else:
        psus, fans = counted(have.psus), counted(have.fans)
        yield from given("", ("bmc.bios", have.bios), ("bmc.psus", psus), ("bmc.fans", fans))
    for port in have.ports:
        yield f"{role}.port.state", port.name, "up"
        yield from given(
            port.name,
            (f"{role}.port.speed", port.speed),
            (f"{role}.port.mtu", port.mtu),
            (f"{role}.port.pfc", port.pfc),
            (f"{role}.port.neighbour", port.neighbour),
        )


def _of_array(host: Host) -> Iterator[Told]:
    have = host.declared
    yield from given("", ("array.capacity.physical", have.capacity))
    if have.controllers:
        yield "array.controllers", "", Quantity.of(len(have.controllers), "")
    if have.drives:
        yield "array.drives", "", Quantity.of(have.drives.count, "")
        yield from given(
            "",
            ("array.drive.models", have.drives.model),
            ("array.drive.firmwares", have.drives.firmware),
        )
    for pool in have.pools:
        yield from given(
            pool.name, ("array.pool.layout", pool.layout), ("array.pool.capacity", pool.capacity)
        )
