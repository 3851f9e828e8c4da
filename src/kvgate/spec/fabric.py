"""What hosts are declared to reach over the fabric: NVMe-oF subsystems by path, and RoCE pairs."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

import pydantic

from kvgate.model.quantity import Quantity
from kvgate.spec.base import BitRate, Duration, Size, Slug, Strict, Text, at_least_one, within

NVME_PORT = 4420
"""The port that NVMe-oF targets listen on by custom (IANA)."""

OFF = "off"


def _address(value: str) -> str:
    return str(ipaddress.ip_address(value))


Address = Annotated[Text, pydantic.AfterValidator(_address)]
"""An IP address; it stands in commands, so nothing else may be one."""

Mtu = Annotated[Size, within("576 B", "65535 B")]
PortNumber = Annotated[int, pydantic.Field(ge=1, le=65535)]
NetDevice = Annotated[str, pydantic.StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,14}$")]
Nqn = Annotated[str, pydantic.StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9.:_+=/-]{0,222}$")]
Serial = Annotated[str, pydantic.StringConstraints(min_length=1, max_length=20)]


def _seconds(value: Quantity) -> str:
    if value.base != int(value.base) or value.base < 0:
        raise ValueError(f"'{value}' is no whole number of seconds; 'off' is for no limit")
    return str(int(value.base))


def _timeout(value: object) -> object:
    """Return the whole seconds that `value` says as text, or ``off``."""
    if value is None or value == OFF:
        return value
    if value is False:  # YAML 1.1 reads a bare off as false
        return OFF
    if not isinstance(value, str) or not value[:1].isdigit():
        raise ValueError(f"{value!r} is no time-out; write '600 s' or 'off'")
    return value if value.isdigit() else _seconds(Quantity.parse(value))


Timeout = Annotated[
    str,
    pydantic.BeforeValidator(_timeout),
    pydantic.WithJsonSchema({"type": ["string", "boolean"]}),
]
"""Whole seconds as the kernel prints them, or ``off``."""


class NvmePath(Strict):
    """One path to a subsystem: a port of the array, and the port of the host that reaches it.

    ``host`` is the host's address on it. ``ana``: what this path should be to the namespaces;
    without it optimized or non-optimized will do.
    """

    name: Slug
    target: Address
    port: PortNumber = NVME_PORT
    host: Address | None = None
    ana: Literal["optimized", "non-optimized"] | None = None

    def __str__(self) -> str:
        where = f"{self.target}:{self.port}"
        return f"{self.host} to {where}" if self.host else where


class Discovery(Strict):
    """Where the discovery service answers: the array's address and port."""

    target: Address
    port: PortNumber = 8009


class NvmeSubsystem(Strict):
    """A subsystem that a host has to be connected to, by exactly these paths.

    ``serial`` as the array tells it for the subsystem, ``namespaces`` how many each path has to
    show; ``queues`` counts I/O queues of a path; ``mtu`` is what goes to the array in one piece.
    What is None is not judged.
    """

    name: Slug
    nqn: Nqn
    transport: Literal["rdma", "tcp"]
    paths: Annotated[list[NvmePath], pydantic.AfterValidator(at_least_one)]
    serial: Serial | None = None
    namespaces: Annotated[int, pydantic.Field(ge=1, le=65536)] | None = None
    iopolicy: Literal["numa", "round-robin", "queue-depth"] | None = None
    ctrl_loss_tmo: Timeout | None = None
    reconnect_delay: Timeout | None = None
    fast_io_fail_tmo: Timeout | None = None
    keep_alive: Duration | None = None
    queues: Annotated[int, pydantic.Field(ge=1, le=65535)] | None = None
    mtu: Mtu | None = None
    discovery: list[Discovery] = pydantic.Field(default_factory=list)

    @pydantic.model_validator(mode="after")
    def _distinct(self) -> NvmeSubsystem:
        if len({path.name for path in self.paths}) != len(self.paths):
            raise ValueError(f"subsystem {self.name}: two paths have one name")
        ways = [(path.target, path.port, path.host) for path in self.paths]
        if len(set(ways)) != len(ways):
            raise ValueError(f"subsystem {self.name}: two paths have the same addresses")
        shared = [way[:2] for way in ways if way[2] is None]
        if any([way[:2] for way in ways].count(each) > 1 for each in shared):
            raise ValueError(
                f"subsystem {self.name}: paths to one port of the array are told apart by 'host'"
            )
        return self

    def item(self, path: NvmePath) -> str:
        """Return what `path` is called in records: ``array1/a``."""
        return f"{self.name}/{path.name}"


class FabricLink(Strict):
    """A pair of ports between which RoCE has to carry its rate: this host's, and another's.

    ``to`` names the other host of the inventory; ``gid_index`` is that of RoCE v2 over IPv4 on
    this host's port (`show_gids`), ``to_gid_index`` that on the other's. ``rate`` is the line
    rate, where the port itself reports none; ``mtu`` what goes through in one piece.
    """

    name: Slug
    nic: NetDevice
    address: Address
    to: Slug
    to_nic: NetDevice
    to_address: Address
    gid_index: Annotated[int, pydantic.Field(ge=0, le=255)] | None = None
    to_gid_index: Annotated[int, pydantic.Field(ge=0, le=255)] | None = None
    rate: BitRate | None = None
    mtu: Mtu | None = None
