"""Lossless priorities, trust and DSCPs of declared ports: by vendors' tools, else by dcb."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable, Iterable, Mapping

from kvgate.errors import ParseError
from kvgate.model.record import Reading
from kvgate.parse import dcb_app, net, qos, vendor_qos
from kvgate.parse.vendor_qos import NicQos
from kvgate.probes.base import (
    NOT_FOUND,
    PLAIN,
    SHORT_S,
    Command,
    Probe,
    answer,
    class_argv,
    reading,
    refusal,
    untold,
)
from kvgate.spec.inventory import Host
from kvgate.witness import Answer, Testimony, Witness

MEASURES = ("nic.pfc_priorities", "nic.trust", "nic.dscp_of_lossless", "nic.dscp26_lossless")
RDMA_DSCP = 26
"""What RoCE v2 is marked with by custom: TOS 106 is DSCP 26 with ECN switched on."""

PLACES = class_argv("/sys/class/net", "*/device/uevent")
BROADCOM, PENSANDO = "bnxt_en", "ionic"
_NICCLI = (
    'list=$({tool} --list_devices </dev/null) || exit; echo "$list"; '
    "for n in $(echo \"$list\" | sed -n 's/^ *\\([0-9][0-9]*\\) ).*/\\1/p'); do "
    'echo "# niccli --dev $n qos --ets --show"; {tool} --dev "$n" qos --ets --show </dev/null; done'
)


def mlnx_argv(host: Host, item: str) -> tuple[str, ...]:
    """Return the command that asks NVIDIA's tool of one port."""
    return host.as_root("mlnx_qos", "-i", item)


def niccli_argv(host: Host) -> tuple[str, ...]:
    """Return the command that asks Broadcom's tool for its devices, and then for each one's QoS."""
    tool = shlex.quote(host.tools.get("niccli", "niccli"))
    return host.as_root("sh", "-c", _NICCLI.format(tool=tool))


def nicctl_argv(host: Host) -> tuple[str, ...]:
    """Return the command that asks AMD Pensando's tool of all of its ports."""
    return host.as_root("nicctl", "show", "qos")


def _dcb(what: str, item: str) -> tuple[str, ...]:
    return ("dcb", "-j", what, "show", "dev", item)


@dataclasses.dataclass(slots=True)
class _Asked:
    """What was asked so far; a vendor's tool, which tells of all its ports, only once."""

    witness: Witness
    testimonies: list[Testimony] = dataclasses.field(default_factory=list)
    vendors: dict[str, Testimony] = dataclasses.field(default_factory=dict)
    places: Mapping[str, net.Place] | None = None

    def ask(self, argv: tuple[str, ...]) -> Testimony:
        told = self.witness.ask(argv, timeout_s=SHORT_S, env=PLAIN)
        self.testimonies.append(told)
        return told

    def place(self, item: str) -> net.Place | None:
        if self.places is None:
            told = self.ask(PLACES)
            found = net.places(told.result.stdout) if told.result.exit_status == 0 else ()
            self.places = {each.name: each for each in found}
        return self.places.get(item)

    def vendor(self, driver: str) -> Testimony:
        if driver not in self.vendors:
            argv = niccli_argv if driver == BROADCOM else nicctl_argv
            self.vendors[driver] = self.ask(argv(self.witness.host))
        return self.vendors[driver]


def ask_qos(witness: Witness) -> Answer:
    """Return which priorities are lossless (PFC), what is trusted, and the DSCPs that map there.

    1. mlnx_qos. 2. Where that is missing or refuses the port: niccli of a port that bnxt_en
    drives, nicctl of one that ionic drives. 3. Else iproute2's dcb, which tells no trust.
    """
    asked = _Asked(witness)
    readings: list[Reading] = []
    for item in witness.host.items("nic"):
        try:
            readings += _of_port(asked, item)
        except ParseError as err:
            readings += untold(MEASURES, err.message, [item])
    return answer(readings, *asked.testimonies)


def _of_port(asked: _Asked, item: str) -> Iterable[Reading]:
    told = asked.ask(mlnx_argv(asked.witness.host, item))
    if told.result.ok:
        found = qos.mlnx_qos(told.stdout)
        return _told(item, found.pfc_enabled_priorities, found.trust, found.dscp2prio, "mlnx_qos")
    place = asked.place(item)
    if place and place.driver in (BROADCOM, PENSANDO):
        by_vendor = asked.vendor(place.driver)
        if by_vendor.result.ok:
            parse = vendor_qos.niccli if place.driver == BROADCOM else vendor_qos.nicctl
            return _by_vendor(item, place, parse(by_vendor.stdout))
    pfc, app = asked.ask(_dcb("pfc", item)), asked.ask(_dcb("app", item))
    return _by_dcb(item, told, pfc, app)


def _by_vendor(item: str, place: net.Place, ports: Iterable[NicQos]) -> Iterable[Reading]:
    for port in ports:
        if port.interface == item or (port.address and port.address == place.address):
            return _told(item, port.pfc_enabled_priorities, port.trust, port.dscp2prio, "its tool")
    return untold(MEASURES, f"the vendor's tool tells nothing of {item}", [item])


def _told(
    item: str,
    lossless: tuple[int, ...],
    trust: str | None,
    table: Mapping[int, int],
    tool: str,
) -> list[Reading]:
    codes = [str(code) for code, priority in sorted(table.items()) if priority in lossless]
    none = "no DSCP maps to a lossless priority"
    return [
        reading(MEASURES[0], ", ".join(map(str, lossless)) or "none", item=item),
        reading(MEASURES[1], trust, f"{tool} tells no trust", item=item),
        reading(MEASURES[2], ", ".join(codes) or None, none, item=item),
        reading(
            MEASURES[3],
            table[RDMA_DSCP] in lossless if RDMA_DSCP in table else None,
            f"{tool} tells no priority of DSCP {RDMA_DSCP}",
            item=item,
        ),
    ]


def _by_dcb(item: str, first: Testimony, pfc: Testimony, app: Testimony) -> Iterable[Reading]:
    if not pfc.result.ok or not pfc.stdout.strip():
        missing = first.result.exit_status == NOT_FOUND and pfc.result.exit_status == NOT_FOUND
        why = (
            "neither 'mlnx_qos' nor 'dcb' is there: install mlnx-tools or iproute2"
            if missing
            else refusal(pfc, "iproute2")
            if not pfc.result.ok
            else f"{item} has no PFC to show (dcb)"
        )
        return untold(MEASURES, why, [item])
    lossless = qos.dcb_pfc(pfc.stdout).pfc_enabled_priorities
    table = dcb_app.dcb_app(app.stdout).dscp_prio if app.result.ok and app.stdout.strip() else {}
    # a DSCP that stands in the table is what the port goes by (dcb-app(8)); without one it may be
    return _told(item, lossless, "dscp" if table else None, table, "dcb")


def _commands(
    *each: Callable[[Host, str], tuple[str, ...]],
) -> Callable[[Host], tuple[Command, ...]]:
    def of(host: Host) -> tuple[Command, ...]:
        items = host.items("nic")
        if not items:
            return ()
        once = (PLACES, niccli_argv(host), nicctl_argv(host))
        asked = (argv(host, item) for item in items for argv in each)
        return tuple(Command(argv=argv) for argv in (*once, *asked))

    return of


PROBES: tuple[Probe, ...] = (
    Probe(
        name="port qos",
        measures=MEASURES,
        ask=ask_qos,
        commands=_commands(
            mlnx_argv, lambda _, item: _dcb("pfc", item), lambda _, item: _dcb("app", item)
        ),
        tools=("mlnx_qos", "niccli", "nicctl", "dcb"),
        items="nic",
    ),
)
