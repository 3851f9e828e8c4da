"""What a machine shows of itself when its inventory is drafted; nothing is judged here."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TypeVar

from kvgate.errors import HostKeyError, HostUnreachableError, KvgateError, LoginError
from kvgate.model.record import Value
from kvgate.parse import block, net, pci, system
from kvgate.probes import drives, kernel_since, network
from kvgate.probes import pci as pci_probes
from kvgate.probes import system as system_probes
from kvgate.probes.base import PLAIN, SHORT_S
from kvgate.witness import Testimony, Witness

T = TypeVar("T")

TOOLS_TO_FIND = ("fio", "nvme")
_FIND = 'for t in {}; do PATH="$PATH:/usr/sbin:/sbin:/usr/local/sbin" command -v "$t"; done; true'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What was seen; what could not be asked is missing and stands in ``remarks``."""

    told: dict[str, Value]  # measure → value: cpu.*, memory.size, numa.nodes
    disks: tuple[block.BlockDevice, ...]
    ports: tuple[net.Port, ...]
    functions: tuple[pci.Function, ...]
    tools: dict[str, str]
    remarks: tuple[str, ...]

    @property
    def own_disks(self) -> tuple[block.BlockDevice, ...]:
        """Return the disks to declare: on a bus, not removable, with a size."""
        return tuple(
            disk for disk in self.disks if disk.attached and not disk.removable and disk.size_bytes
        )

    @property
    def own_ports(self) -> tuple[net.Port, ...]:
        """Return the ports to declare: on a bus and with a link."""
        return tuple(port for port in self.ports if port.attached and port.carrier)

    @property
    def links(self) -> tuple[pci.Function, ...]:
        """Return the PCIe links to declare: of devices that have one, not of bridges."""
        return tuple(f for f in self.functions if f.width and f.kind != pci.BRIDGE)

    @property
    def gpus(self) -> tuple[pci.Function, ...]:
        """Return the GPUs of makers whose cards serve models (AMD, NVIDIA)."""
        return tuple(
            f
            for f in self.functions
            if f.kind in pci.DISPLAY and f.id.split(":")[0] in ("1002", "10de")
        )


def look(witness: Witness) -> Facts:
    """Ask for everything that an inventory may declare; raises only where nothing can be asked."""
    remarks: list[str] = []
    told: dict[str, Value] = {}
    for probe in system_probes.HARDWARE:
        answer = _try(functools.partial(probe.ask, witness), remarks)
        for reading in answer.readings if answer else ():
            if reading.value is None:
                remarks.append(f"{reading.problem}: {reading.name} is not declared")
            else:
                told[reading.name] = reading.value
    disks = _first(_try(lambda: drives.look(witness), remarks))
    ports = _first(_try(lambda: network.look(witness), remarks))
    functions = _first(_try(lambda: pci_probes.look(witness), remarks))
    return Facts(
        told=told,
        disks=disks,
        ports=ports,
        functions=functions,
        tools=_tools(witness),
        remarks=tuple(remarks),
    )


def _try(question: Callable[[], T], remarks: list[str]) -> T | None:
    try:
        return question()
    except (HostUnreachableError, HostKeyError, LoginError):
        raise  # no other question would be answered either
    except KvgateError as err:
        remarks.append(err.message)
        return None


def _first(found: tuple[tuple[T, ...], Testimony] | None) -> tuple[T, ...]:
    return found[0] if found else ()


def _tools(witness: Witness) -> dict[str, str]:
    """Return where tools are; an SSH login of an ordinary user has no sbin in its PATH."""
    asked = witness.ask(["sh", "-c", _FIND.format(" ".join(TOOLS_TO_FIND))], timeout_s=SHORT_S)
    paths = asked.stdout.decode("utf-8", "replace").splitlines()
    return {path.rpartition("/")[2]: path for path in paths if path.startswith("/")}


@dataclasses.dataclass(frozen=True, slots=True)
class Scratch:
    """What a reader of G2's and G3's figures must know of the scratch folder's storage."""

    remarks: tuple[str, ...] = ()
    no_direct: str = ""  # why O_DIRECT can't be had there; empty where it can

    @property
    def silent(self) -> dict[tuple[str, str], str]:
        """Return (measure, item) → why, for what can't be measured there."""
        return {("fio.direct", ""): self.no_direct} if self.no_direct else {}


def about_scratch(witness: Witness, folder: str) -> Scratch:
    """Return what stores `folder`; writes one block there past the page cache, and removes it."""
    try:
        asked = witness.ask(["df", "--output=source,fstype", folder], timeout_s=SHORT_S, env=PLAIN)
        source, kind = system.file_system(asked.stdout)
    except KvgateError as err:
        return Scratch((f"scratch: {err.message}",))
    remarks = []
    if not source.startswith("/dev/"):
        remarks.append(
            f"scratch {folder} is on {kind} ({source}), not on a block device of its "
            "own: figures of fio and of the KV tier say nothing about a disk"
        )
    block_file = f"{folder.rstrip('/')}/.kvgate-direct"
    wrote = witness.ask(
        ["dd", "if=/dev/zero", f"of={block_file}", "bs=4096", "count=1", "oflag=direct"],
        timeout_s=SHORT_S,
        env=PLAIN,
    )
    witness.ask(["rm", "-f", block_file], timeout_s=SHORT_S)
    no_direct = (
        ""
        if wrote.result.ok
        else (
            f"the scratch folder's file system ({kind}) refuses O_DIRECT: "
            "fio reads through the page cache there"
        )
    )
    return Scratch((*remarks, *([no_direct] if no_direct else [])), no_direct)


def about_kernel_log(witness: Witness) -> dict[tuple[str, str], str]:
    """Return (measure, item) → why the kernel log can't be read from a mark on; empty where it can.

    It is read, and nothing is written to it.
    """
    try:
        kernel_since.mark(witness)
    except KvgateError as err:
        why = f"the kernel log can't be read from a mark on: {err.message}"
        return {(measure, ""): why for measure in kernel_since.MEASURES}
    return {}
