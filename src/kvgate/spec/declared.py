"""What hosts and devices are declared to have: only what stands here is judged."""

from __future__ import annotations

from typing import Annotated

import pydantic

from kvgate.spec.base import BitRate, LinkSpeed, Rate, Size, Strict, Text
from kvgate.spec.fabric import FabricLink, Nqn, NvmeSubsystem


class Cpu(Strict):
    """The processors, as lscpu counts them."""

    model: Text | None = None
    sockets: int | None = None
    threads: int | None = None


class Datasheet(Strict):
    """What a drive's datasheet says it carries at most, and which datasheet that is.

    ``endurance`` is how many bytes may be written to it over its life (TBW).
    """

    read_bw: Rate | None = None
    write_bw: Rate | None = None
    endurance: Size | None = None
    source: Text


class Disk(Strict):
    """A block device, known by serial number or WWN.

    ``name`` alone (a virtual disk without identity) is enough to be looked for, never enough to
    be written to.
    """

    serial: Text | None = None
    wwn: Text | None = None
    name: Text | None = None
    model: Text | None = None
    size: Size | None = None
    nvme: bool = False
    destructive: bool = False
    datasheet: Datasheet | None = None

    @pydantic.model_validator(mode="after")
    def _known(self) -> Disk:
        if not (self.serial or self.wwn or self.name):
            raise ValueError("a disk needs a serial, a wwn or at least a name")
        if self.destructive and not (self.serial or self.wwn):
            raise ValueError("destructive: a device is written to only by serial number or WWN")
        return self

    @property
    def id(self) -> str:
        """Return what identifies it in records: the serial, else the WWN, else the name."""
        return self.serial or self.wwn or self.name or ""


class Nic(Strict):
    """A network port by its name on the host; ``speed`` None: it reports none (virtual).

    ``fec`` is the correction in use as ethtool names it (RS); ``neighbour`` the switch and its
    port as LLDP tells them, ``leaf1 Ethernet1/1``.
    """

    name: Text
    mac: Annotated[str, pydantic.StringConstraints(to_lower=True, min_length=1)] | None = None
    speed: BitRate | None = None
    mtu: Size | None = None
    fec: Text | None = None
    neighbour: Text | None = None


PciAddress = Annotated[
    str, pydantic.StringConstraints(pattern=r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")
]


class PcieLink(Strict):
    """A PCIe device by its address; ``id`` is ``vvvv:dddd``; speed and width as they should run."""

    address: PciAddress
    id: Annotated[str, pydantic.StringConstraints(pattern=r"^[0-9a-f]{4}:[0-9a-f]{4}$")] | None = (
        None
    )
    speed: LinkSpeed | None = None
    width: int | None = None


class Gpus(Strict):
    """The GPUs expected: how many of which PCI id (``1002:74a2`` is MI308X).

    With ``addresses``, one a GPU, each is judged by itself too (``each: gpu``).
    """

    count: int
    id: Annotated[str, pydantic.StringConstraints(pattern=r"^[0-9a-f]{4}:[0-9a-f]{4}$")]
    addresses: list[PciAddress] = pydantic.Field(default_factory=list)

    @pydantic.model_validator(mode="after")
    def _one_each(self) -> Gpus:
        if self.addresses and len(set(self.addresses)) != self.count:
            raise ValueError(
                f"addresses: {len(set(self.addresses))} different ones for {self.count} GPUs; "
                "give each GPU's, or none"
            )
        return self

    @property
    def maker(self) -> str:
        """Return the PCI vendor: 1002 is AMD, 10de NVIDIA."""
        return self.id[:4]


PortName = Annotated[
    str, pydantic.StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/:-]{0,63}$")
]
"""A port's name as devices write it; it stands in commands, so nothing else may be one."""


class Port(Strict):
    """A port of an array or a switch, by its name there.

    ``pfc``: the priorities without loss, ``'3'`` or ``'3,4'``; ``neighbour``: the host and its
    port as the switch sees them by LLDP, ``node1 ens1f0np0``.
    """

    name: PortName
    speed: BitRate | None = None
    mtu: Size | None = None
    pfc: Text | None = None
    neighbour: Text | None = None


class Drives(Strict):
    """The drives of an array: all of one model, at one firmware, where these are given."""

    count: int
    model: Text | None = None
    firmware: Text | None = None


class Pool(Strict):
    """A pool (or RAID group) of an array, its layout as the array words it."""

    name: Text
    layout: Text | None = None
    capacity: Size | None = None


class Declared(Strict):
    """What the host is declared to have; what stands here is judged.

    The last ones are of devices: ``controllers`` by their names, ``capacity`` physical, ``ecn``
    of a switch as it words it (``ecn_all``).
    """

    cpu: Cpu | None = None
    memory: Size | None = None
    numa_nodes: int | None = None
    disks: list[Disk] = pydantic.Field(default_factory=list)
    nics: list[Nic] = pydantic.Field(default_factory=list)
    pcie: list[PcieLink] = pydantic.Field(default_factory=list)
    gpus: Gpus | None = None
    host_nqn: Nqn | None = None
    nvmeof: list[NvmeSubsystem] = pydantic.Field(default_factory=list)
    fabric: list[FabricLink] = pydantic.Field(default_factory=list)
    model: Text | None = None
    serial: Text | None = None
    firmware: Text | None = None
    controllers: list[Text] = pydantic.Field(default_factory=list)
    drives: Drives | None = None
    pools: list[Pool] = pydantic.Field(default_factory=list)
    ports: list[Port] = pydantic.Field(default_factory=list)
    capacity: Size | None = None
    ecn: Text | None = None
    bios: Text | None = None
    psus: int | None = None
    fans: int | None = None
