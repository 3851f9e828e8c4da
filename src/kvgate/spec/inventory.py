"""Inventory files: which hosts there are, how to reach them, and what they are declared to have.

Only what is declared is judged, and what is declared and absent fails. Secrets stand here only
by reference (an environment variable or a file).
"""

from __future__ import annotations

import decimal
import enum
import functools
import ipaddress
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Literal

import pydantic

from kvgate.model.quantity import Quantity
from kvgate.spec.base import Duration, Slug, Strict, Text, exactly_one_of
from kvgate.spec.declared import Declared
from kvgate.spec.faults import FaultTemplate
from kvgate.spec.telemetry import HostTelemetry


class Role(enum.StrEnum):
    """What a host is for. The last three are devices: no computers, asked by an adapter."""

    SERVING = "serving"  # under test; also the NVMe-oF initiator
    CLIENT = "client"  # load and test equipment
    ARRAY = "array"  # the device under test
    SWITCH = "switch"
    BMC = "bmc"  # the management controller of a host


DEVICES = (Role.ARRAY, Role.SWITCH, Role.BMC)
COMPUTERS = (Role.SERVING, Role.CLIENT)


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


_IDENTITY = {"model", "serial", "firmware"}
_DECLARES: dict[Role, set[str]] = {
    Role.ARRAY: _IDENTITY | {"controllers", "drives", "pools", "ports", "capacity"},
    Role.SWITCH: _IDENTITY | {"ports", "ecn"},
    Role.BMC: _IDENTITY | {"bios", "psus", "fans"},
}
_OF_DEVICES: set[str] = set().union(*_DECLARES.values())
_OF_HOSTS = ("jump", "sudo", "tools", "scratch", "arms", "telemetry")
_WEB = ("https", "http")
_USUAL_CONNECT_S = 10


class Tls(Strict):
    """How a device's certificate is known: by its own SHA-256 fingerprint, or by a CA's file.

    Neither: by the authorities that this machine trusts. There is no way not to check it.
    """

    model_config = exactly_one_of("fingerprint", "ca")

    fingerprint: (
        Annotated[str, pydantic.AfterValidator(lambda value: fingerprint(value))] | None
    ) = None
    ca: Text | None = None

    @pydantic.model_validator(mode="after")
    def _one(self) -> Tls:
        if (self.fingerprint is None) == (self.ca is None):
            raise ValueError("a certificate is known by exactly one of 'fingerprint' or 'ca'")
        return self


StorageArm = Literal["local", "device"]
"""An arm of a comparison of storage: local NVMe, or the device under test."""


class ArmPlace(Strict):
    """Where the storage of one arm is on a host: files in a ``scratch`` folder, or a ``disk``.

    ``disk`` is the serial number or WWN of one that the host declares. Alone it is a whole device
    to be measured, which takes 'destructive: true' and --yes-destroy; beside ``scratch`` it is
    what must lie under that folder.
    """

    model_config = pydantic.ConfigDict(
        json_schema_extra={"anyOf": [{"required": ["scratch"]}, {"required": ["disk"]}]}
    )

    scratch: Text | None = None
    disk: Text | None = None

    @pydantic.model_validator(mode="after")
    def _some(self) -> ArmPlace:
        if self.scratch is None and self.disk is None:
            raise ValueError("an arm is given by a 'scratch' folder, a 'disk', or both")
        return self


def fingerprint(text: str) -> str:
    """Return a SHA-256 fingerprint as 64 small hex digits, however it is written.

    ``sha256:`` before it and colons between bytes may stand there. Raises ValueError otherwise.
    """
    digits = text.strip().lower().removeprefix("sha256:").replace(":", "")
    if len(digits) != 64 or set(digits) - set("0123456789abcdef"):
        raise ValueError(f"'{text}' is not a SHA-256 fingerprint: sha256: and 64 hex digits")
    return digits


class Host(Strict):
    """One host: its roles, the way to it, and what it is declared to have.

    ``tools`` maps a command's name to its path on the host; ``scratch`` is the folder in which
    workloads may make (and must remove) files; ``arms`` say where the storage of each arm of a
    comparison is; ``telemetry`` says what is sampled beside the host's own files. ``recording``
    (transport: recorded) is a file that `kvgate record` wrote, or the folder with the host's,
    beside the inventory.

    An array, switch or BMC (``of`` a host) is asked by its ``adapter``: by ssh with its own
    command line, by https, or by http where it is on loopback. ``simulated``: it is none.
    """

    roles: list[Role]
    transport: Literal["ssh", "local", "recorded", "https", "http"] = "ssh"
    adapter: Slug | None = None
    of: Slug | None = None
    simulated: bool = False
    password: Secret | None = None
    tls: Tls | None = None
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
    connect_timeout: Duration = Quantity.of(_USUAL_CONNECT_S, "s")
    tools: dict[str, Text] = pydantic.Field(default_factory=dict)
    scratch: Text | None = None
    arms: dict[StorageArm, ArmPlace] = pydantic.Field(default_factory=dict)
    baseline: Slug | None = None
    telemetry: HostTelemetry = HostTelemetry()
    declared: Declared = Declared()
    name: str = ""  # set by Inventory from the key the host stands under

    @pydantic.model_validator(mode="before")
    @classmethod
    def _usual_port(cls, value: object) -> object:
        if isinstance(value, dict) and "port" not in value and value.get("transport") in _WEB:
            return {**value, "port": 443 if value["transport"] == "https" else 80}
        return value

    @pydantic.field_validator("roles", mode="before")
    @classmethod
    def _roles(cls, value: object) -> object:
        if not isinstance(value, list) or not value:
            raise ValueError("name at least one role in a list: [serving], [client] or both")
        known = [role.value for role in Role]
        for role in value:
            if role not in known:
                raise ValueError(f"'{role}' is not a role; one of: {', '.join(known)}")
        roles = [Role(role) for role in value]
        if len(roles) > 1 and any(role in DEVICES for role in roles):
            raise ValueError("an array, switch or bmc has this one role: give each its own entry")
        return roles

    @property
    def is_device(self) -> bool:
        """Tell whether it is an array, a switch or a BMC: no computer, asked by its adapter."""
        return self.roles[0] in DEVICES

    def as_root(self, *argv: str) -> tuple[str, ...]:
        """Return `argv` by its tool's path, and by ``sudo -n`` where that is allowed.

        A device's own command line has neither.
        """
        if self.is_device:
            return argv
        sudo = ("sudo", "-n") if self.sudo == "passwordless" else ()
        return (*sudo, self.tools.get(argv[0], argv[0]), *argv[1:])

    @property
    def role(self) -> Role:
        """Return the first role: of a device, its only one."""
        return self.roles[0]

    @property
    def slack_s(self) -> float:
        """Return how many seconds later answers may come: what connecting may take beyond 10 s."""
        return _slack_s(self.connect_timeout.number, self.connect_timeout.unit)

    @pydantic.model_validator(mode="after")
    def _reachable(self) -> Host:
        by_net = self.transport in ("ssh", *_WEB)
        if by_net and not self.address:
            raise ValueError(f"address is missing (transport: {self.transport})")
        if not by_net and (self.jump or (self.address and self.transport == "local")):
            raise ValueError(f"transport: {self.transport} takes no address and no jump host")
        if (self.transport == "recorded") != bool(self.recording):
            raise ValueError("transport: recorded and a recording go together")
        return self

    @pydantic.model_validator(mode="after")
    def _apart(self) -> Host:
        """Refuse arms on a disk that is not declared, and two in one place."""
        known = {told for disk in self.declared.disks for told in (disk.serial, disk.wwn) if told}
        for arm, place in self.arms.items():
            if place.disk and place.disk not in known:
                raise ValueError(f"arms: {arm}: no declared disk has serial or WWN {place.disk}")
        local, device = self.arms.get("local"), self.arms.get("device")
        for each in ("scratch", "disk"):
            if (
                local
                and device
                and getattr(local, each)
                and getattr(local, each) == getattr(device, each)
            ):
                raise ValueError(f"arms: local and device have the same {each}")
        return self

    @pydantic.model_validator(mode="after")
    def _device(self) -> Host:
        """Refuse what a device can't have, and what only a device has."""
        if not self.is_device:
            given = sorted(self.model_fields_set & {"adapter", "of", "password", "tls"})
            given += ["transport"] * (self.transport in _WEB)
            if given:
                raise ValueError(f"{given[0]}: only an array, switch or bmc has it")
        else:
            self._sound_device()
        allowed = _DECLARES.get(self.role, set(Declared.model_fields) - _OF_DEVICES)
        if strange := sorted(self.declared.model_fields_set - allowed):
            raise ValueError(f"declared: {strange[0]}: no {self.role.value} host is declared by it")
        return self

    def _sound_device(self) -> None:
        if self.adapter is None:
            raise ValueError("adapter is missing: name how this device is asked")
        if given := [name for name in _OF_HOSTS if name in self.model_fields_set]:
            raise ValueError(f"{given[0]}: a device has none")
        if self.transport == "local":
            raise ValueError("a device is reached by ssh, https, http on loopback, or recorded")
        if (self.role is Role.BMC) != (self.of is not None):
            raise ValueError("of: HOST goes with the role bmc: whose BMC it is")
        if self.tls and self.transport != "https":
            raise ValueError("tls goes with transport: https")
        if self.transport == "http" and not _on_loopback(self.address or ""):
            raise ValueError("http, unencrypted, goes to this machine only (127.0.0.1, ::1)")

    @pydantic.field_validator("recording", mode="after")
    @classmethod
    def _beside(cls, recording: str | None) -> str | None:
        parts = (recording or "").split("/")
        if recording and (not all(parts) or {".", ".."} & set(parts) or "\\" in recording):
            raise ValueError("a recording is named by its path from the inventory's folder down")
        return recording

    def items(self, kind: str) -> tuple[str, ...]:
        """Return the ids of the declared items of `kind`, one of `spec.gate.ItemKind`."""
        return tuple(_ITEMS[kind](self.declared))


_ITEMS: Mapping[str, Callable[[Declared], Iterable[str]]] = {
    "disk": lambda have: (disk.id for disk in have.disks),
    "nvme": lambda have: (disk.id for disk in have.disks if disk.nvme),
    "nic": lambda have: (nic.name for nic in have.nics),
    "pcie": lambda have: (link.address for link in have.pcie),
    "controller": lambda have: have.controllers,
    "pool": lambda have: (pool.name for pool in have.pools),
    "port": lambda have: (port.name for port in have.ports),
    "subsystem": lambda have: (each.name for each in have.nvmeof),
    "path": lambda have: (each.item(path) for each in have.nvmeof for path in each.paths),
    "link": lambda have: (each.name for each in have.fabric),
    "roce": lambda have: dict.fromkeys(each.nic for each in have.fabric),  # their ports
    "gpu": lambda have: have.gpus.addresses if have.gpus else (),
}


@functools.lru_cache  # every question to every host asks for it
def _slack_s(number: decimal.Decimal, unit: str) -> float:
    return max(0.0, Quantity(number, unit).to("s") - _USUAL_CONNECT_S)


def _on_loopback(address: str) -> bool:
    """Tell whether `address`, given as numbers, is of this machine only."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


class Inventory(Strict):
    """The hosts of one site, by name; ``baseline`` is the file of required versions.

    ``composed``: its recordings were written, no such site ever answered.
    """

    inventory: Slug
    title: str = ""
    composed: bool = False
    baseline: Text | None = None
    bom: Text | None = None  # the file of what was ordered, beside the inventory or in inventory/
    hosts_at_once: Annotated[int, pydantic.Field(ge=1, le=4096)] | None = None  # asked at a time
    hosts: dict[Slug, Host]
    faults: list[FaultTemplate] = pydantic.Field(default_factory=list)  # a plan says which are done

    @pydantic.field_validator("hosts", mode="after")
    @classmethod
    def _named(cls, hosts: dict[str, Host]) -> dict[str, Host]:
        if not hosts:
            raise ValueError("hosts is empty: no gate can pass on no hosts")
        return {name: host.model_copy(update={"name": name}) for name, host in hosts.items()}

    @pydantic.model_validator(mode="after")
    def _faults_sound(self) -> Inventory:
        names = [each.fault for each in self.faults]
        for each in self.faults:
            if names.count(each.fault) > 1:
                raise ValueError(f"faults: '{each.fault}' stands twice")
            host = self.hosts.get(each.on)
            if host is None:
                raise ValueError(f"faults: {each.fault}: on: '{each.on}' is no host here")
            if each.by is not None and host.adapter is None:
                raise ValueError(f"faults: {each.fault}: by: '{each.on}' has no adapter")
            if host.transport in (*_WEB, "recorded"):
                raise ValueError(f"faults: {each.fault}: on: '{each.on}' is reached by no ssh")
        return self

    @pydantic.model_validator(mode="after")
    def _all_composed(self) -> Inventory:
        real = [host.name for host in self.hosts.values() if host.transport != "recorded"]
        if self.composed and real:
            raise ValueError(f"composed: {real[0]} is no recording")
        return self

    @property
    def recorded(self) -> bool:
        """Tell whether any host is a recording: what is found there can't be accepted."""
        return any(host.transport == "recorded" for host in self.hosts.values())

    @property
    def simulated(self) -> bool:
        """Tell whether any device is simulated: what is found there can't be accepted."""
        return any(host.simulated for host in self.hosts.values())

    @property
    def devices(self) -> tuple[Host, ...]:
        """Return the arrays, switches and BMCs, in the file's order."""
        return tuple(host for host in self.hosts.values() if host.is_device)

    def with_role(self, role: str) -> tuple[Host, ...]:
        """Return the hosts that have `role`; for ``all`` every computer, and no device."""
        return tuple(
            host
            for host in self.hosts.values()
            if (role == "all" and not host.is_device) or role in host.roles
        )
