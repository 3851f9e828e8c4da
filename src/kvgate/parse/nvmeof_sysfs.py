"""NVMe subsystems below /sys/class/nvme-subsystem: controllers, addresses, states, namespaces."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from kvgate.parse import sysfs
from kvgate.parse.ending import reads
from kvgate.parse.text import refuse, shown, whole

WHAT = "/sys/class/nvme-subsystem"
ATTRIBUTES = (
    "*/subsysnqn",
    "*/iopolicy",
    "*/model",
    "*/serial",
    "*/nvme*/state",
    "*/nvme*/transport",
    "*/nvme*/address",
    "*/nvme*/cntlid",
    "*/nvme*/cntrltype",
    "*/nvme*/kato",
    "*/nvme*/ctrl_loss_tmo",
    "*/nvme*/reconnect_delay",
    "*/nvme*/fast_io_fail_tmo",
    "*/nvme*/queue_count",
    "*/nvme*/sqsize",
    "*/nvme*/hostnqn",
    "*/nvme*/hostid",
    "*/nvme*/nvme*n*/ana_state",
    "*/nvme*/nvme*n*/nsid",
    "*/nvme*/nvme*n*/wwid",
    "*/nvme*/nvme*n*/uuid",
    "*/nvme*/nvme*n*/nguid",
    "*/nvme*/nvme*n*/stat",
    "*/nvme*n*/wwid",
)
"""What is read, as patterns below the folder; a path's block device lies below its controller."""

_CONTROLLER = re.compile(r"(nvme[0-9]{1,5})/([a-z_]{1,32})")
_PATH = re.compile(r"(nvme[0-9]{1,5})/(nvme[0-9]{1,5}(?:c[0-9]{1,5})?n[0-9]{1,5})/([a-z_]{1,32})")
_HEAD = re.compile(r"(nvme[0-9]{1,5}n[0-9]{1,5})/wwid")
_OFF = "off"
SECTOR_BYTES = 512
"""What a sector of ``stat`` is, whatever the device's own (kernel: block/stat)."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NamespacePath:
    """A namespace as one controller shows it: ``nvme3c4n1``, or ``nvme3n1`` without multipath.

    ``ana_state`` None: the controller reports no ANA. Bytes are those since it was connected.
    """

    name: str
    nsid: int | None
    ana_state: str | None
    wwid: str | None
    uuid: str | None
    nguid: str | None
    sectors_read: int | None
    sectors_written: int | None

    @property
    def identity(self) -> str | None:
        """Return what names the namespace over all its paths: NGUID or UUID, else the WWID."""
        ids = [each for each in (self.nguid, self.uuid) if each and set(each) - set("0-")]
        return ids[0] if ids else self.wwid


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """A controller: one path to its subsystem. Its name changes over reconnects, its address not.

    ``ctrl_loss_tmo``, ``reconnect_delay``, ``fast_io_fail_tmo`` are seconds as the kernel prints
    them, or ``off``; ``queue_count`` counts the admin queue too. None: the kernel tells none.
    """

    name: str
    transport: str | None  # rdma, tcp, pcie
    address: str | None  # as printed
    state: str | None  # live, connecting, resetting, deleting, dead
    cntlid: int | None
    kind: str | None  # io, discovery
    keep_alive_s: int | None
    ctrl_loss_tmo: str | None
    reconnect_delay: str | None
    fast_io_fail_tmo: str | None
    queue_count: int | None
    queue_size: int | None
    hostnqn: str | None
    hostid: str | None
    paths: tuple[NamespacePath, ...]

    @property
    def parts(self) -> Mapping[str, str]:
        """Return the address by its parts: traddr, trsvcid, host_traddr, host_iface, src_addr."""
        return address_parts(self.address)

    @property
    def traddr(self) -> str | None:
        """Return the target's address: IP, or PCI address of a local drive."""
        return self.parts.get("traddr") or (self.address if self.transport == "pcie" else None)

    @property
    def trsvcid(self) -> str | None:
        """Return the target's port number, as printed."""
        return self.parts.get("trsvcid")

    @property
    def source(self) -> str | None:
        """Return the host's address of this path, where the kernel tells it."""
        return self.parts.get("src_addr") or self.parts.get("host_traddr")

    @property
    def ana_states(self) -> tuple[str | None, ...]:
        """Return the ANA state of each namespace on this path."""
        return tuple(path.ana_state for path in self.paths)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Subsystem:
    """A subsystem as the host sees it, with its controllers in the order of their numbers.

    ``heads`` are the block devices that multipath shows (``nvme3n1``); () without multipath.
    """

    name: str
    nqn: str | None
    iopolicy: str | None
    model: str | None
    serial: str | None
    controllers: tuple[Controller, ...]
    heads: tuple[str, ...]


def address_parts(address: str | None) -> dict[str, str]:
    """Return an address by its parts: ``traddr=…,trsvcid=…``, older tools part them by blanks."""
    pairs = (part.partition("=") for part in re.split(r"[ ,]+", address or ""))
    return {name: value for name, equals, value in pairs if equals and value}


def subsystems(answer: bytes) -> tuple[Subsystem, ...]:
    """Parse the attributes below /sys/class/nvme-subsystem that `ATTRIBUTES` name.

    (Kernel: drivers/nvme/host/sysfs.c, fabrics.c, multipath.c.) A controller that vanished while
    it was read has attributes that are None. Raises ParseError for a line of another shape.
    """
    found = sysfs.attributes(answer, WHAT)
    return tuple(_subsystem(name, found[name]) for name in sorted(found, key=_number))


def _number(name: str) -> tuple[int, str]:
    digits = re.search(r"([0-9]{1,9})\Z", name)
    return (int(digits[1]) if digits else -1, name)


def _subsystem(name: str, values: dict[str, bytes]) -> Subsystem:
    controllers: dict[str, dict[str, str]] = {}
    paths: dict[str, dict[str, dict[str, str]]] = {}
    heads: set[str] = set()
    for attribute in values:
        told = sysfs.text(values, attribute, WHAT)
        if not told:
            continue
        if match := _CONTROLLER.fullmatch(attribute):
            controllers.setdefault(match[1], {})[match[2]] = told
        elif match := _PATH.fullmatch(attribute):
            paths.setdefault(match[1], {}).setdefault(match[2], {})[match[3]] = told
        elif match := _HEAD.fullmatch(attribute):
            heads.add(match[1])
    return Subsystem(
        name=name,
        nqn=sysfs.text(values, "subsysnqn", WHAT) or None,
        iopolicy=sysfs.text(values, "iopolicy", WHAT) or None,
        model=sysfs.text(values, "model", WHAT) or None,
        serial=sysfs.text(values, "serial", WHAT) or None,
        controllers=tuple(
            _controller(each, controllers.get(each, {}), paths.get(each, {}))
            for each in sorted({*controllers, *paths}, key=_number)
        ),
        heads=tuple(sorted(heads, key=_number)),
    )


def _controller(
    name: str, told: Mapping[str, str], paths: Mapping[str, Mapping[str, str]]
) -> Controller:
    return Controller(
        name=name,
        transport=told.get("transport"),
        address=told.get("address"),
        state=told.get("state"),
        cntlid=_whole(told, "cntlid"),
        kind=told.get("cntrltype"),
        keep_alive_s=_whole(told, "kato"),
        ctrl_loss_tmo=_seconds(told, "ctrl_loss_tmo"),
        reconnect_delay=_seconds(told, "reconnect_delay"),
        fast_io_fail_tmo=_seconds(told, "fast_io_fail_tmo"),
        queue_count=_whole(told, "queue_count"),
        queue_size=_whole(told, "sqsize"),
        hostnqn=told.get("hostnqn"),
        hostid=told.get("hostid"),
        paths=tuple(_path(each, paths[each]) for each in sorted(paths, key=_number)),
    )


def _whole(told: Mapping[str, str], name: str) -> int | None:
    return whole(told[name], WHAT, name) if name in told else None


def _seconds(told: Mapping[str, str], name: str) -> str | None:
    """Return the seconds, digits only, or ``off``: the kernel's word for no limit, or for -1."""
    value = told.get(name)
    if value is None or value == _OFF:
        return value
    return _OFF if value == "-1" else str(whole(value, WHAT, name))


def _path(name: str, told: Mapping[str, str]) -> NamespacePath:
    read, written = _sectors(told.get("stat"))
    return NamespacePath(
        name=name,
        nsid=_whole(told, "nsid"),
        ana_state=told.get("ana_state"),
        wwid=told.get("wwid"),
        uuid=told.get("uuid"),
        nguid=told.get("nguid"),
        sectors_read=read,
        sectors_written=written,
    )


def _sectors(stat: str | None) -> tuple[int | None, int | None]:
    """Return sectors read and written: the 3rd and 7th number of ``stat`` (kernel: block/stat)."""
    if stat is None:
        return None, None
    numbers = stat.split()
    if len(numbers) < 11:
        refuse(WHAT, f"stat is {shown(stat)}, not 11 numbers or more")
    return whole(numbers[2], WHAT, "stat"), whole(numbers[6], WHAT, "stat")


TOOLS = {"sysfs_nvme_subsystem": reads(WHAT, subsystems, fine=(0, 1, 2))}
"""grep ends with 1 where nothing is there, with 2 where a file can't be read."""
