"""Reads the parts of a host, kind by kind: firmware tables, drives, GPUs, cards."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence

from kvgate.errors import KvgateError
from kvgate.model.part import PartKind
from kvgate.parse import dmi, drvinfo, sysfs, vpd
from kvgate.parse.pci import DISPLAY, Function
from kvgate.parse.text import available
from kvgate.probes import drives, pci
from kvgate.probes.base import (
    PLAIN,
    SHORT_S,
    Command,
    class_argv,
    refusal,
)
from kvgate.spec.inventory import Host
from kvgate.witness import Testimony, Witness

NVME = class_argv(
    "/sys/class/nvme",
    "*/serial",
    "*/model",
    "*/firmware_rev",
    "*/state",
    "*/transport",
    "*/address",
)
SLOTS = class_argv("/sys/bus/pci/slots", "*/address")
AMDGPU = class_argv(
    "/sys/bus/pci/drivers/amdgpu",
    "*/serial_number",
    "*/unique_id",
    "*/product_name",
    "*/product_number",
    "*/vbios_version",
)
PORTS = ("ls", "-l", "/sys/class/net")
_CARD_CLASSES = ("::0200", "::0207")  # Ethernet, InfiniBand
_NVME_CLASS = "0108"
_PORT = re.compile(rb"/([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])/net/([^/\s]{1,64})\s*$", re.M)
_GPU_VENDORS = ("1002", "10de")
_VIRTIO = "1af4"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part; None and "" where the host doesn't tell. ``places``: the plainest name first."""

    kind: PartKind
    serial: str | None = None
    model: str | None = None
    part_number: str | None = None
    firmware: str | None = None
    places: tuple[str, ...] = ()
    fault: str = ""


class UntoldError(KvgateError):
    """The host can't tell of its parts of a kind: why, and what was asked to find that out.

    ``parts`` are those that it could tell of: one that is not among them is not known.
    """

    def __init__(self, because: str, *asked: Testimony, parts: Sequence[Part] = ()) -> None:
        super().__init__(because)
        self.asked = asked
        self.parts = parts


Found = tuple[Sequence[Part], list[Testimony]]


# firmware tables


def tables_commands(host: Host) -> tuple[Command, ...]:
    """Return what is asked for the firmware's tables."""
    return (Command(argv=_dmidecode(host)),)


def _dmidecode(host: Host) -> tuple[str, ...]:
    # BIOS, system, board, chassis, processors, memory arrays and devices, power supplies
    return host.as_root("dmidecode", "-t", "0,1,2,3,4,16,17,39")


def _tables(witness: Witness) -> tuple[dmi.Inventory, Testimony]:
    asked = witness.ask(_dmidecode(witness.host), timeout_s=SHORT_S, env=PLAIN)
    if not asked.result.ok:
        raise UntoldError(refusal(asked, "dmidecode"), asked)
    return dmi.inventory(asked.stdout), asked


def tables(witness: Witness) -> Found:
    """Return server, chassis, board, processors and memory modules (SMBIOS types 1 to 4, 17)."""
    found, asked = _tables(witness)
    bios = found.firmware.version if found.firmware else None
    parts = [*_products(found, bios)]
    parts += [
        Part(kind="cpu", model=each.version, places=(each.name or "",))
        for each in found.processors
        if each.populated
    ]
    parts += [
        Part(
            kind="dimm",
            serial=each.serial,
            model=each.part_number,
            part_number=each.part_number,
            places=tuple(filter(None, (each.locator, each.bank and f"{each.bank} {each.locator}"))),
        )
        for each in found.memory
        if each.populated and each.use != "Flash Memory"
    ]
    return parts, [asked]


def _products(found: dmi.Inventory, bios: str | None) -> Iterator[Part]:
    kinds: tuple[tuple[PartKind, dmi.Product | None], ...] = (
        ("server", found.system),
        ("chassis", found.chassis),
        ("board", found.board),
    )
    for kind, product in kinds:
        if product:
            name = " ".join(filter(None, (product.manufacturer, product.product_name)))
            firmware = bios if kind == "board" else None
            yield Part(kind=kind, serial=product.serial, model=name or None, firmware=firmware)


def supplies(witness: Witness) -> Found:
    """Return the power supplies (SMBIOS type 39), as far as the firmware lists them."""
    found, asked = _tables(witness)
    if not found.power:
        raise UntoldError("the firmware lists no power supplies; the BMC may", asked)
    parts = [
        Part(
            kind="psu",
            serial=each.serial,
            model=each.name,
            part_number=each.part_number,
            places=(each.location,) if each.location else (),
            fault=_status(each.status),
        )
        for each in found.power
        if not (each.status or "").startswith("Not Present")
    ]
    return parts, [asked]


def _status(status: str | None) -> str:
    """Return what is wrong; SMBIOS 3.6, 7.40.1: status 3 is OK, 4 non-critical, 5 critical."""
    bad = any(word in (status or "") for word in ("Critical", "Non-critical"))
    return f"its status is '{status}'" if bad else ""


# drives


def drives_commands(host: Host) -> tuple[Command, ...]:
    """Return what is asked for drives."""
    del host
    return tuple(Command(argv=argv) for argv in (NVME, SLOTS, drives.SYSFS, pci.SYSFS))


def drives_of(witness: Witness) -> Found:
    """Return NVMe drives by their controllers, other disks by their block devices.

    A controller that is not live is a fault, and so is an NVMe device that no driver has.
    """
    controllers, asked = _class(witness, NVME, "NVMe controllers")
    slots, asked_too = _slots(witness)
    devices, told = drives.look(witness)
    functions, told_too = pci.look(witness)
    parts = [
        _nvme(name, values, slots)
        for name, values in sorted(controllers.items())
        if sysfs.text(values, "transport", name) == "pcie"
    ]
    driven = {place for part in parts for place in part.places}
    parts += [
        Part(kind="drive", places=_places(each.address, slots), fault="no driver drives it")
        for each in functions
        if each.kind == _NVME_CLASS and each.address not in driven
    ]
    parts += [
        Part(kind="drive", serial=each.serial, model=each.model, places=(each.name,))
        for each in devices
        if each.attached and not each.removable and not each.nvme and each.size_bytes
    ]
    return parts, [asked, asked_too, told, told_too]


def _nvme(name: str, values: dict[str, bytes], slots: dict[str, str]) -> Part:
    def text(key: str) -> str | None:
        return available(sysfs.text(values, key, name))

    address, state = text("address") or "", text("state")
    return Part(
        kind="drive",
        serial=text("serial"),
        model=text("model"),
        firmware=text("firmware_rev"),
        places=(*_places(address, slots), name),
        fault="" if state in (None, "live") else f"its controller is '{state}'",
    )


def _class(
    witness: Witness, argv: tuple[str, ...], what: str
) -> tuple[sysfs.Attributes, Testimony]:
    """Return a class of sysfs, {} where the kernel has none of it."""
    asked = witness.ask(argv, timeout_s=SHORT_S, env=PLAIN)
    if asked.result.exit_status is None:
        asked.result.expect_ok()
    return sysfs.attributes(asked.result.stdout, what) if asked.result.ok else {}, asked


def _slots(witness: Witness) -> tuple[dict[str, str], Testimony]:
    """Return PCI device (without its function) → name of its slot, as printed on the chassis."""
    found, asked = _class(witness, SLOTS, "PCI slots")
    by_address = {}
    for name, values in found.items():
        address = sysfs.text(values, "address", name)
        if address:
            by_address[address.rpartition(".")[0] or address] = name
    return by_address, asked


def _places(address: str, slots: dict[str, str]) -> tuple[str, ...]:
    device = address.rpartition(".")[0]
    return tuple(filter(None, (slots.get(device), address)))


# GPUs


def gpus_commands(host: Host) -> tuple[Command, ...]:
    """Return what is asked for GPUs."""
    del host
    return tuple(Command(argv=argv) for argv in (AMDGPU, SLOTS, pci.SYSFS))


def gpus_of(witness: Witness) -> Found:
    """Return the GPUs of AMD and NVIDIA; one that amdgpu doesn't drive is a fault.

    The serial number is that of the product (FRU), as the packing list has it; where the driver
    tells none, the chip's unique id.
    """
    functions, asked = pci.look(witness)
    cards = [each for each in functions if _is_gpu(each)]
    slots, asked_too = _slots(witness)
    if not cards:
        return (), [asked, asked_too]
    driven, told = _class(witness, AMDGPU, "amdgpu in sysfs")
    amd = [each for each in cards if each.id.startswith("1002:")]
    if amd and not driven:
        raise UntoldError(
            "the driver amdgpu is not loaded: its GPUs tell no serial number", asked, told
        )
    return [_gpu(each, driven, slots) for each in cards], [asked, asked_too, told]


def _is_gpu(function: Function) -> bool:
    return function.kind in DISPLAY and function.id.split(":")[0] in _GPU_VENDORS


def _gpu(function: Function, driven: sysfs.Attributes, slots: dict[str, str]) -> Part:
    values = driven.get(function.address, {})

    def text(key: str) -> str | None:
        return available(sysfs.text(values, key, function.address))

    dead = function.id.startswith("1002:") and not values
    return Part(
        kind="gpu",
        serial=text("serial_number") or text("unique_id"),
        model=text("product_name") or function.id,
        part_number=text("product_number"),
        firmware=text("vbios_version"),
        places=_places(function.address, slots),
        fault="no driver drives it" if dead else "",
    )


# network cards


def _lspci(host: Host, kind: str) -> tuple[str, ...]:
    return host.as_root("lspci", "-D", "-vv", "-d", kind)


def ethtool(host: Host, what: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return each declared port, and the command that asks ethtool `what` of it."""
    names = host.items("nic")
    return [(name, host.as_root("ethtool", what, name)) for name in names]


def cards_commands(host: Host) -> tuple[Command, ...]:
    """Return what is asked for network cards."""
    listed = [_lspci(host, kind) for kind in _CARD_CLASSES]
    ports = [argv for _, argv in ethtool(host, "-i")]
    return tuple(Command(argv=argv) for argv in (*listed, SLOTS, PORTS, *ports))


def cards_of(witness: Witness) -> Found:
    """Return the network cards, all functions of one as one part, by their vital product data."""
    found: list[vpd.Card] = []
    asked = []
    for kind in _CARD_CLASSES:
        told = witness.ask(_lspci(witness.host, kind), timeout_s=SHORT_S, env=PLAIN)
        asked.append(told)
        if not told.result.ok:
            raise UntoldError(refusal(told, "pciutils"), *asked)
        found += vpd.cards(told.stdout)
    if any(not each.readable for each in found):
        why = "lspci may not read the cards' data: log in as root, or set 'sudo: passwordless'"
        raise UntoldError(why, *asked)
    slots, told_slots = _slots(witness)
    ports = witness.ask(PORTS, timeout_s=SHORT_S, env=PLAIN)
    if not ports.result.ok:
        raise UntoldError(refusal(ports, "coreutils"), *asked, ports)
    firmware, told_firmware = _firmware(witness)
    names: dict[str, list[str]] = {}
    for address, port in _PORT.findall(ports.stdout):
        names.setdefault(address.decode(), []).append(port.decode("utf-8", "replace"))
    cards: dict[str, list[vpd.Card]] = {}
    for card in found:
        cards.setdefault(card.address.rpartition(".")[0], []).append(card)
    parts = [_card(functions, names, firmware, slots) for functions in cards.values()]
    return parts, [*asked, told_slots, ports, *told_firmware]


def _card(
    functions: Sequence[vpd.Card],
    names: dict[str, list[str]],
    firmware: dict[str, str],
    slots: dict[str, str],
) -> Part:
    first = functions[0]
    ports = [name for each in functions for name in names.get(each.address, ())]
    idle = [each.address for each in functions if each.driver is None]
    versions = {firmware[each.address] for each in functions if each.address in firmware}
    return Part(
        kind="nic",
        serial=next((each.serial for each in functions if each.serial), None),
        model=next((each.product for each in functions if each.product), first.description),
        part_number=next((each.part_number for each in functions if each.part_number), None),
        firmware=", ".join(sorted(versions)) or None,
        places=(*_places(first.address, slots), *ports),
        fault=f"no driver drives {', '.join(idle)}" if idle else "",
    )


def _firmware(witness: Witness) -> tuple[dict[str, str], list[Testimony]]:
    """Return PCI address → firmware of the declared ports that tell theirs."""
    found: dict[str, str] = {}
    asked = []
    for _, argv in ethtool(witness.host, "-i"):
        told = witness.ask(argv, timeout_s=SHORT_S, env=PLAIN)
        asked.append(told)
        if told.result.ok:
            info = drvinfo.driver_info(told.stdout)
            if info.bus and info.firmware:
                found[info.bus] = info.firmware
    return found, asked
