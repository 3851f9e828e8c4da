"""Inventory files: which hosts there are, how to reach them, and what they are declared to have.

Only what is declared is judged, and what is declared and absent fails. Secrets stand here only
by reference (an environment variable or a file).
"""

from __future__ import annotations

import enum
from typing import Annotated, Literal

import pydantic

from kvgate.model.quantity import Quantity
from kvgate.spec.base import (
    BitRate,
    Duration,
    LinkSpeed,
    Size,
    Slug,
    Strict,
    Text,
    exactly_one_of,
)


class Role(enum.StrEnum):
    """What a host is for. `array`, `switch` and `bmc` follow with the device adapters."""

    SERVING = "serving"  # under test; also the NVMe-oF initiator
    CLIENT = "client"  # load and test equipment


class Secret(Strict):
    """A secret by reference: exactly one of an environment variable or a file."""

    model_config = exactly_one_of("env", "file")

    env: Text | None = None
    file: Text | None = None

    @pydantic.model_validator(mode="after")
    def _one(self) -> Secret:
        if (self.env is None) == (self.file is None):
            raise ValueError("a secret is given by exactly one of 'env' or 'file'")
        return self


class Cpu(Strict):
    """The processors, as lscpu counts them."""

    model: Text | None = None
    sockets: int | None = None
    threads: int | None = None


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


class PcieLink(Strict):
    """A PCIe device by its address; ``id`` is ``vvvv:dddd``; speed and width as they should run."""

    address: Annotated[
        str, pydantic.StringConstraints(pattern=r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")
    ]
    id: Annotated[str, pydantic.StringConstraints(pattern=r"^[0-9a-f]{4}:[0-9a-f]{4}$")] | None = (
        None
    )
    speed: LinkSpeed | None = None
    width: int | None = None


class Gpus(Strict):
    """The GPUs expected: how many of which PCI id (``1002:74a2`` is MI308X)."""

    count: int
    id: Annotated[str, pydantic.StringConstraints(pattern=r"^[0-9a-f]{4}:[0-9a-f]{4}$")]


class Declared(Strict):
    """What the host is declared to have; what stands here is judged."""

    cpu: Cpu | None = None
    memory: Size | None = None
    numa_nodes: int | None = None
    disks: list[Disk] = pydantic.Field(default_factory=list)
    nics: list[Nic] = pydantic.Field(default_factory=list)
    pcie: list[PcieLink] = pydantic.Field(default_factory=list)
    gpus: Gpus | None = None


class Host(Strict):
    """One host: its roles, the way to it, and what it is declared to have.

    ``tools`` maps a command's name to its path on the host; ``scratch`` is the folder in which
    workloads may make (and must remove) files. ``recording`` (transport: recorded) is a file that
    `kvgate record` wrote, or the folder with the host's, beside the inventory.
    """

    roles: list[Role]
    transport: Literal["ssh", "local", "recorded"] = "ssh"
    recording: Text | None = None
    address: Text | None = None
    port: Annotated[int, pydantic.Field(ge=1, le=65535)] = 22
    user: Text | None = None
    key: Secret | None = None
    key_passphrase: Secret | None = None
    agent: bool = False
    known_hosts: Text | None = None
    jump: Slug | None = None
    sudo: Literal["never", "passwordless"] = "never"
    connect_timeout: Duration = Quantity.of(10, "s")
    tools: dict[str, Text] = pydantic.Field(default_factory=dict)
    scratch: Text | None = None
    baseline: Slug | None = None
    declared: Declared = Declared()
    name: str = ""  # set by Inventory from the key the host stands under

    @pydantic.field_validator("roles", mode="before")
    @classmethod
    def _roles(cls, value: object) -> object:
        if not isinstance(value, list) or not value:
            raise ValueError("name at least one role in a list: [serving], [client] or both")
        known = [role.value for role in Role]
        for role in value:
            if role in ("array", "switch", "bmc"):
                raise ValueError(
                    f"role '{role}' needs a device adapter, which this version has not"
                )
            if role not in known:
                raise ValueError(f"'{role}' is not a role; one of: {', '.join(known)}")
        return [Role(role) for role in value]

    @pydantic.model_validator(mode="after")
    def _reachable(self) -> Host:
        if self.transport == "ssh" and not self.address:
            raise ValueError("address is missing (transport: ssh)")
        if self.transport != "ssh" and (self.jump or self.address):
            raise ValueError(f"transport: {self.transport} takes no address and no jump host")
        if (self.transport == "recorded") != bool(self.recording):
            raise ValueError("transport: recorded and a recording go together")
        return self

    @pydantic.field_validator("recording", mode="after")
    @classmethod
    def _beside(cls, recording: str | None) -> str | None:
        parts = (recording or "").split("/")
        if recording and (not all(parts) or {".", ".."} & set(parts) or "\\" in recording):
            raise ValueError("a recording is named by its path from the inventory's folder down")
        return recording

    def items(self, kind: str) -> tuple[str, ...]:
        """Return the ids of the declared items of `kind`: disk, nvme, nic or pcie."""
        have = self.declared
        return {
            "disk": tuple(disk.id for disk in have.disks),
            "nvme": tuple(disk.id for disk in have.disks if disk.nvme),
            "nic": tuple(nic.name for nic in have.nics),
            "pcie": tuple(link.address for link in have.pcie),
        }[kind]


class Inventory(Strict):
    """The hosts of one site, by name; ``baseline`` is the file of required versions."""

    inventory: Slug
    title: str = ""
    baseline: Text | None = None
    hosts: dict[Slug, Host]

    @pydantic.field_validator("hosts", mode="after")
    @classmethod
    def _named(cls, hosts: dict[str, Host]) -> dict[str, Host]:
        if not hosts:
            raise ValueError("hosts is empty: no gate can pass on no hosts")
        return {name: host.model_copy(update={"name": name}) for name, host in hosts.items()}

    @property
    def recorded(self) -> bool:
        """Tell whether any host is a recording: what is found there can't be accepted."""
        return any(host.transport == "recorded" for host in self.hosts.values())

    def with_role(self, role: str) -> tuple[Host, ...]:
        """Return the hosts that have `role`, or all of them for ``all``."""
        return tuple(host for host in self.hosts.values() if role == "all" or role in host.roles)
