"""RDMA on declared ports: device, firmware, RoCE v2 GIDs, first counters; PFC, ECN, DSCP."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kvgate.errors import ParseError
from kvgate.model.quantity import Quantity
from kvgate.model.record import Reading
from kvgate.parse import qos, rdma_sysfs, sysfs
from kvgate.parse.rdma_sysfs import RdmaDevice
from kvgate.probes.base import (
    NOT_FOUND,
    PLAIN,
    SHORT_S,
    Command,
    Probe,
    answer,
    as_root,
    asks,
    class_argv,
    reading,
    refusal,
    untold,
)
from kvgate.spec.inventory import Host
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
)
ECN = class_argv("/sys/class/net", "*/ecn/roce_np/enable/*", "*/ecn/roce_rp/enable/*")
QOS_MEASURES = ("nic.pfc_priorities", "nic.trust", "nic.dscp_of_lossless")


def ask_devices(witness: Witness) -> Answer:
    """Return the RDMA device behind every declared port: firmware, state, GIDs, losses so far."""
    asked = witness.ask(SYSFS, timeout_s=SHORT_S, env=PLAIN)
    found = rdma_sysfs.devices(asked.result.stdout) if asked.result.exit_status == 0 else ()
    by_netdev = {netdev: device for device in found for netdev in device.netdevs}
    readings: list[Reading] = []
    for item in witness.host.items("nic"):
        device = by_netdev.get(item)
        if device is None:
            why = f"{item} has no RoCE v2: no RDMA device of this host has a GID on it"
            readings += untold(MEASURES, why, [item])
        else:
            readings += _told(item, device)
    return answer(readings, asked)


def _told(item: str, device: RdmaDevice) -> Iterable[Reading]:
    port = next(port for port in device.ports if item in port.roce_v2)
    losses = None if port.losses is None else Quantity.of(port.losses, "")
    yield reading("rdma.device", device.name, item=item)
    yield reading("rdma.firmware", device.firmware, f"{device.name} tells no firmware", item=item)
    yield reading("rdma.state", port.state, f"{device.name} tells no state", item=item)
    yield reading("rdma.roce_v2_gids", Quantity.of(len(port.roce_v2[item]), ""), item=item)
    why = f"{device.name} has no counter of loss that kvgate knows"
    yield reading("rdma.losses", losses, why, item=item)


def _mlnx(host: Host, item: str) -> tuple[str, ...]:
    return as_root(host, "mlnx_qos", "-i", item)


def _dcb(item: str) -> tuple[str, ...]:
    return ("dcb", "-j", "pfc", "show", "dev", item)


def ask_qos(witness: Witness) -> Answer:
    """Return which priorities are lossless (PFC), what is trusted, and the DSCPs that map there.

    mlnx_qos is asked first; where that is missing or refuses the port, iproute2's dcb.
    """
    readings: list[Reading] = []
    testimonies: list[Testimony] = []
    for item in witness.host.items("nic"):
        told = witness.ask(_mlnx(witness.host, item), timeout_s=SHORT_S, env=PLAIN)
        testimonies.append(told)
        try:
            if told.result.ok:
                readings += _by_mlnx(item, qos.mlnx_qos(told.stdout))
                continue
            other = witness.ask(_dcb(item), timeout_s=SHORT_S, env=PLAIN)
            testimonies.append(other)
            readings += _by_dcb(item, told, other)
        except ParseError as err:
            readings += untold(QOS_MEASURES, err.message, [item])
    return answer(readings, *testimonies)


def _by_mlnx(item: str, found: qos.MlnxQos) -> Iterable[Reading]:
    lossless = found.pfc_enabled_priorities
    codes = [
        str(code) for code, priority in sorted(found.dscp2prio.items()) if priority in lossless
    ]
    none = "no DSCP maps to a lossless priority"
    yield reading(QOS_MEASURES[0], _listed(lossless), item=item)
    yield reading(QOS_MEASURES[1], found.trust, "mlnx_qos tells no trust", item=item)
    yield reading(QOS_MEASURES[2], ", ".join(codes) or None, none, item=item)


def _by_dcb(item: str, first: Testimony, told: Testimony) -> Iterable[Reading]:
    if not told.result.ok or not told.stdout.strip():
        missing = first.result.exit_status == NOT_FOUND and told.result.exit_status == NOT_FOUND
        why = (
            "neither 'mlnx_qos' nor 'dcb' is there: install mlnx-tools or iproute2"
            if missing
            else refusal(told, "iproute2")
            if not told.result.ok
            else f"{item} has no PFC to show (dcb)"
        )
        yield from untold(QOS_MEASURES, why, [item])
        return
    lossless = qos.dcb_pfc(told.stdout).pfc_enabled_priorities
    yield reading(QOS_MEASURES[0], _listed(lossless), item=item)
    yield from untold(QOS_MEASURES[1:], "dcb pfc does not tell it; mlnx_qos would", [item])


def _listed(priorities: Iterable[int]) -> str:
    return ", ".join(map(str, priorities)) or "none"


def ask_ecn(witness: Witness) -> Answer:
    """Return the priorities on which a declared port takes part in ECN, as both of its roles."""
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
    return answer(readings, asked)


def _each_nic(
    *argvs: Callable[[Host, str], tuple[str, ...]],
) -> Callable[[Host], tuple[Command, ...]]:
    return lambda host: tuple(
        Command(argv=argv(host, item)) for item in host.items("nic") for argv in argvs
    )


PROBES: tuple[Probe, ...] = (
    Probe(name="rdma", measures=MEASURES, ask=ask_devices, commands=asks(SYSFS), items="nic"),
    Probe(
        name="port qos",
        measures=QOS_MEASURES,
        ask=ask_qos,
        commands=_each_nic(_mlnx, lambda _, item: _dcb(item)),
        tools=("mlnx_qos", "dcb"),
        items="nic",
    ),
    Probe(
        name="port ecn",
        measures=("nic.ecn_notification", "nic.ecn_reaction"),
        ask=ask_ecn,
        commands=asks(ECN),
        items="nic",
    ),
)
