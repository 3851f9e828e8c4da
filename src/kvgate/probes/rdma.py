"""RDMA on declared ports: device, firmware, MTU, RoCE v2 GIDs, first counters, ECN."""

from __future__ import annotations

from collections.abc import Iterable

from kvgate.model.quantity import Quantity, counted
from kvgate.model.record import Reading
from kvgate.parse import rdma_sysfs, sysfs, verbs
from kvgate.parse.rdma_sysfs import RdmaDevice
from kvgate.probes.base import (
    PLAIN,
    SHORT_S,
    Probe,
    answer,
    asks,
    class_argv,
    if_declared,
    once,
    reading,
    refusal,
    untold,
)
from kvgate.witness import Answer, Testimony, Witness

SYSFS = class_argv(
    "/sys/class/infiniband",
    "*/fw_ver",
    "*/ports/*/state",
    "*/ports/*/phys_state",
    "*/ports/*/gids/[0-9]",
    "*/ports/*/gid_attrs/types/[0-9]",
    "*/ports/*/gid_attrs/ndevs/[0-9]",
    "*/ports/*/hw_counters/*",
)
MEASURES = (
    "rdma.device",
    "rdma.firmware",
    "rdma.state",
    "rdma.roce_v2_gids",
    "rdma.losses",
    "rdma.congestion",
)
ECN = class_argv("/sys/class/net", "*/ecn/roce_np/enable/*", "*/ecn/roce_rp/enable/*")
DEVINFO = ("ibv_devinfo",)
_seen = once(rdma_sysfs.devices)
DEFAULTS = class_argv("/sys/kernel/config/rdma_cm", "*/ports/*/default_roce_*")


def ask_devices(witness: Witness) -> Answer:
    """Return the RDMA device behind every declared port: firmware, state, GIDs, losses so far."""
    asked = witness.ask(SYSFS, timeout_s=SHORT_S, env=PLAIN)
    found = _seen(asked.result.stdout) if asked.result.exit_status == 0 else ()
    by_netdev = {netdev: device for device in found for netdev in device.netdevs}
    readings: list[Reading] = []
    for item in witness.host.items("nic"):
        device = by_netdev.get(item)
        if device is None:
            readings += untold(MEASURES, _no_device(item), [item])
        else:
            readings += _told(item, device)
    return answer(readings, asked)


def _told(item: str, device: RdmaDevice) -> Iterable[Reading]:
    port = next(port for port in device.ports if item in port.roce_v2)
    losses = counted(port.losses)
    yield reading("rdma.device", device.name, item=item)
    yield reading("rdma.firmware", device.firmware, f"{device.name} tells no firmware", item=item)
    yield reading("rdma.state", port.state, f"{device.name} tells no state", item=item)
    yield reading("rdma.roce_v2_gids", Quantity.of(len(port.roce_v2[item]), ""), item=item)
    why = f"{device.name} has no counter of loss that kvgate knows"
    yield reading("rdma.losses", losses, why, item=item)
    marks = [
        count for name, count in port.counters.items() if name in rdma_sysfs.CNP | rdma_sysfs.MARKED
    ]
    congestion = Quantity.of(sum(marks), "") if marks else None
    why = f"{device.name} has no counter of congestion that kvgate knows"
    yield reading("rdma.congestion", congestion, why, item=item)


def _devices(witness: Witness) -> tuple[dict[str, tuple[RdmaDevice, int]], Testimony]:
    """Return network port → RDMA device and its port's number, by RoCE v2 GIDs; what was asked."""
    asked = witness.ask(SYSFS, timeout_s=SHORT_S, env=PLAIN)
    found = _seen(asked.result.stdout) if asked.result.exit_status == 0 else ()
    by_netdev = {
        netdev: (device, port.port)
        for device in found
        for port in device.ports
        for netdev in port.roce_v2
    }
    return by_netdev, asked


def _no_device(item: str) -> str:
    return f"{item} has no RoCE v2: no RDMA device of this host has a GID on it"


def ask_verbs(witness: Witness) -> Answer:
    """Return rdma.active_mtu of every declared port: the largest payload that RoCE uses there."""
    names = ("rdma.active_mtu",)
    items = witness.host.items("nic")
    if not items:
        return Answer((), ())
    by_netdev, asked = _devices(witness)
    told = witness.ask(DEVINFO, timeout_s=SHORT_S, env=PLAIN)
    silent = "" if told.result.ok else refusal(told, "ibverbs-utils")
    mtus = {
        (device.name, port.number): port.active_mtu_bytes
        for device in (verbs.devinfo(told.stdout) if told.result.ok else ())
        for port in device.ports
    }
    readings = []
    for item in items:
        known = by_netdev.get(item)
        mtu = mtus.get((known[0].name, known[1])) if known else None
        why = silent or f"ibv_devinfo tells no active MTU of {item}"
        why = why if known else _no_device(item)
        value = None if mtu is None else Quantity.of(mtu, "B")
        readings.append(reading(names[0], value, why, item=item))
    return answer(readings, asked, told)


_NONE: tuple[str | None, int | None] = (None, None)


def ask_defaults(witness: Witness) -> Answer:
    """Return the RoCE mode and TOS that connections by rdma_cm begin with, where they are shown.

    The kernel shows them for devices that somebody made a folder for in configfs; kvgate makes
    none, as that would be a trace.
    """
    names = ("rdma.default_mode", "rdma.default_tos")
    items = witness.host.items("nic")
    if not items:
        return Answer((), ())
    by_netdev, asked = _devices(witness)
    told = witness.ask(DEFAULTS, timeout_s=SHORT_S, env=PLAIN)
    shown = rdma_sysfs.defaults(told.result.stdout) if told.result.exit_status == 0 else {}
    readings: list[Reading] = []
    for item in items:
        known = by_netdev.get(item)
        mode, tos = shown.get(known[0].name, {}).get(known[1], _NONE) if known else _NONE
        why = (
            f"configfs has no entry for {known[0].name} (rdma_cm), and kvgate makes none"
            if known
            else _no_device(item)
        )
        value = counted(tos)
        readings.append(reading(names[0], mode, why, item=item))
        readings.append(reading(names[1], value, why, item=item))
    return answer(readings, asked, told)


def ask_ecn(witness: Witness) -> Answer:
    """Return the priorities on which a declared port takes part in ECN, as both of its roles.

    ``nic.ecn_priority3``: in both, on the priority that RDMA has by custom.
    """
    names = ("nic.ecn_notification", "nic.ecn_reaction")
    asked = witness.ask(ECN, timeout_s=SHORT_S, env=PLAIN)
    found = sysfs.attributes(asked.result.stdout, "ECN") if asked.result.exit_status == 0 else {}
    readings: list[Reading] = []
    for item in witness.host.items("nic"):
        values = found.get(item, {})
        for name, role in zip(names, ("roce_np", "roce_rp"), strict=True):
            told = {
                file.rpartition("/")[2]: sysfs.text(values, file, item)
                for file in values
                if file.startswith(f"ecn/{role}/enable/")
            }
            on = ", ".join(sorted(priority for priority, state in told.items() if state == "1"))
            why = f"{item}'s driver shows no ECN settings in sysfs"
            readings.append(reading(name, (on or "none") if told else None, why, item=item))
        both = [values.get(f"ecn/{role}/enable/3") for role in ("roce_np", "roce_rp")]
        third = None if None in both else all((each or b"").strip() == b"1" for each in both)
        readings.append(reading("nic.ecn_priority3", third, why, item=item))
    return answer(readings, asked)


PROBES: tuple[Probe, ...] = (
    Probe(name="rdma", measures=MEASURES, ask=ask_devices, commands=asks(SYSFS), items="nic"),
    Probe(
        name="rdma verbs",
        measures=("rdma.active_mtu",),
        ask=ask_verbs,
        commands=if_declared("nic", asks(SYSFS, DEVINFO)),
        tools=("ibv_devinfo",),
        items="nic",
    ),
    Probe(
        name="rdma defaults",
        measures=("rdma.default_mode", "rdma.default_tos"),
        ask=ask_defaults,
        commands=if_declared("nic", asks(SYSFS, DEFAULTS)),
        items="nic",
    ),
    Probe(
        name="port ecn",
        measures=("nic.ecn_notification", "nic.ecn_reaction", "nic.ecn_priority3"),
        ask=ask_ecn,
        commands=asks(ECN),
        items="nic",
    ),
)
