"""Clears a device for writing, or refuses it with every reason at once.

A declared disk is found now, by serial or WWN, in sysfs and by lsblk alike; never by its name.
Only `clear` makes a `ClearedDevice`, and only by one a workload writes: a guard on the host claims
the device exclusively, looks at everything again and starts the tool only if nothing differs; the
tool gets the claimed device itself (`devices_script.FD_PATH`), not a name.

What remains: programs that opened the device between the guard's look and their own end without
claiming it, and other hosts that the same volume of an array is given to.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from dataclasses import InitVar
from typing import TypeVar

from kvgate.errors import HarnessError, NotRunError, ParseError
from kvgate.model.record import EvidenceRef
from kvgate.parse import block
from kvgate.parse.block import BlockDevice
from kvgate.spec.declared import Disk
from kvgate.spec.inventory import Host, Role
from kvgate.witness import Witness
from kvgate.workloads import devices_facts, devices_script
from kvgate.workloads.devices_facts import Facts
from kvgate.workloads.devices_script import FD_PATH, LIST, LSBLK, TOOLS, Mode, Places

FRESH_S = 60.0
"""How long a look at a device counts; whoever wants to start a tool later looks again."""

_ASK_S = 60.0
_PLAIN = {"LC_ALL": "C"}
_KEY = object()


@dataclasses.dataclass(frozen=True, slots=True)
class Consent:
    """What people and gates said.

    ``destroy``: serials given by ``--yes-destroy``; ``identified``: the disks of the host that the
    gate found when it began (`probes.identity`).
    """

    destroy: frozenset[str] = frozenset()
    identified: frozenset[str] = frozenset()


class DeviceRefusedError(NotRunError):
    """A device is not to be touched: all ``reasons``, and the ``evidence`` they rest on."""

    def __init__(
        self, reasons: tuple[str, ...], *, hint: str = "", evidence: tuple[EvidenceRef, ...] = ()
    ) -> None:
        super().__init__(reasons, hint=hint)
        self.evidence = evidence


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KnownDevice:
    """A device that is the declared one, as it was looked at; made by `clear` and `recognise`.

    ``path`` is what a guarded tool opens; ``node`` its name at that time, for people and for tools
    that take only names. Raises HarnessError when it is made elsewhere.
    """

    host: Host
    id: str
    node: str
    size_bytes: int
    evidence: tuple[EvidenceRef, ...]
    facts: str
    places: Places
    looked_at: float = dataclasses.field(default_factory=time.monotonic)
    key: InitVar[object]

    def __post_init__(self, key: object) -> None:
        """Refuse to be made by anybody else."""
        if key is not _KEY:
            raise HarnessError("a device is known only by looking at it (workloads.devices)")

    @property
    def path(self) -> str:
        """Return the device as a guarded tool has it."""
        return FD_PATH

    @property
    def may_write(self) -> bool:
        """Tell whether it was cleared for writing."""
        return isinstance(self, ClearedDevice)

    def guarded(self, tool: Sequence[str]) -> list[str]:
        """Return the command that looks once more and then runs `tool`.

        It ends with `devices_script.REFUSED`, saying why on stderr, where anything differs. Raises
        DeviceRefusedError where the look is older than `FRESH_S`.
        """
        age = time.monotonic() - self.looked_at
        if age > FRESH_S:
            raise DeviceRefusedError(
                (f"{self.host.name}: {self.id} ({self.node}): was looked at {age:.0f} s ago",),
                hint="look again right before it is used",
                evidence=self.evidence,
            )
        mode: Mode = "write" if self.may_write else "read"
        return devices_script.argv(
            self.host, self.node, mode, places=self.places, cleared=self.facts, tool=tool
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClearedDevice(KnownDevice):
    """A device that may be written over: declared so, asked for so, and free."""


def clear(
    witness: Witness, disk: Disk, consent: Consent, *, places: Places | None = None
) -> ClearedDevice:
    """Return `disk` cleared for writing, or raise DeviceRefusedError with every reason.

    1. The inventory declares it destructive, on a serving host, with serial or WWN, and size; the
    command line consents; the gate saw it. 2. It is found by identity. 3. It is looked at, held
    exclusively for that long if 1. and 2. hold. `places` are for tests alone.
    """
    look = _Look(witness, disk, places or Places())
    reasons = [f"{witness.host.name}: {disk.id}: {why}" for why in _unsaid(witness, disk, consent)]
    found = look.find()
    facts, claims = None, not (reasons or look.reasons)
    if found is not None and (claims or witness.host.transport != "recorded"):
        facts = look.at(found, "look" if claims else "peek")  # a recording has only its own look
    if facts is not None and found is not None:
        node = look.node(found)
        unfit = list(_unfit(disk, facts, found))
        unfit += _safely(facts, node)
        look.reasons += [look.said(why) for why in unfit]
    return look.concluded(ClearedDevice, found, facts, reasons)


def recognise(witness: Witness, disk: Disk, *, places: Places | None = None) -> KnownDevice:
    """Return `disk`, found by identity, to be read only: it may be in use, nothing is claimed.

    Raises DeviceRefusedError with every reason why it is not surely that device.
    """
    look = _Look(witness, disk, places or Places())
    if not (disk.serial or disk.wwn):
        look.reasons.append(look.said("the inventory knows it by name alone"))
    found = look.find()
    facts = look.at(found, "peek") if found else None
    if facts and found:
        look.reasons += [look.said(why) for why in _unfit(disk, facts, found)]
    return look.concluded(KnownDevice, found, facts)


def _unsaid(witness: Witness, disk: Disk, consent: Consent) -> Iterator[str]:
    """Yield what the inventory, the command line and the gate do not say of `disk`."""
    known = {told for told in (disk.serial, disk.wwn) if told}
    if not known:
        yield "the inventory knows it by name alone: declare its serial or wwn"
    if disk not in witness.host.declared.disks:
        yield "the inventory does not declare it on this host"
    if Role.SERVING not in witness.host.roles:
        yield "its host has not the role serving: only hosts under test are written to"
    if not disk.destructive:
        yield "the inventory does not declare it 'destructive: true'"
    if disk.size is None:
        yield "the inventory declares no size: declare it in bytes"
    if not known & consent.destroy:
        yield f"--yes-destroy {disk.id} was not given on the command line"
    if disk.id not in consent.identified:
        yield "the gate did not find it when it began (journal, identity)"


def _unfit(disk: Disk, facts: Facts, found: BlockDevice) -> Iterator[str]:
    """Yield why what was looked at is not surely `disk`, as `found` in the list."""
    if facts.missing:
        names = ", ".join(f"{tool} ({TOOLS.get(tool, 'python3')})" for tool in facts.missing)
        yield f"can't be looked at without {names}: install it there, or set it under 'tools'"
        return
    declared = None if disk.size is None else int(disk.size.base)
    wanted = declared if declared is not None else found.size_bytes
    try:
        yield from devices_facts.unsure(facts, name=found.name, size_bytes=wanted)
        serial, wwn = facts.identity
    except ParseError as err:
        yield err.message
        return
    if not _is(disk, serial, wwn):
        yield f"is serial {serial}, wwn {wwn} now (/sys/block), not the declared one"


def _safely(facts: Facts, node: str) -> list[str]:
    if facts.missing:
        return []
    try:
        return list(devices_facts.in_use(facts, node=node))
    except ParseError as err:
        return [err.message]


def _is(disk: Disk, serial: str | None, wwn: str | None) -> bool:
    """Tell whether all that is declared of identity is told so, and something is declared."""
    same = [disk.serial == serial] if disk.serial else []
    same += [_one_spelling(disk.wwn) == _one_spelling(wwn)] if disk.wwn else []
    return bool(same) and all(same)


def _one_spelling(wwn: str | None) -> str:
    """Return a WWN in one spelling: sysfs writes ``naa.5000c5``, udev and lsblk ``0x5000c5``."""
    return (wwn or "").lower().removeprefix("naa.").removeprefix("0x")


_Known = TypeVar("_Known", bound=KnownDevice)


class _Look:
    """One search for a disk on a host: what was found out, and what speaks against it."""

    def __init__(self, witness: Witness, disk: Disk, places: Places) -> None:
        self.witness = witness
        self.disk = disk
        self.places = places
        self.evidence: list[EvidenceRef] = []
        self.reasons: list[str] = []
        self._name = ""

    def said(self, why: str) -> str:
        """Return `why` with host, disk and device before it."""
        name = f" ({self.places.dev}/{self._name})" if self._name else ""
        return f"{self.witness.host.name}: {self.disk.id}{name}: {why}"

    def node(self, found: BlockDevice) -> str:
        """Return the device file of `found`."""
        return f"{self.places.dev}/{found.name}"

    def find(self) -> BlockDevice | None:
        """Return the one device that sysfs and lsblk both tell to be the disk; else reasons."""
        by_sysfs = self._matching(("sh", "-c", LIST, "sh", self.places.sys), block.from_sysfs)
        by_lsblk = self._matching(LSBLK, block.from_lsblk)
        if by_sysfs is None or by_lsblk is None:
            return None
        if len(by_sysfs) != 1:
            self._count("/sys/block", by_sysfs)
            return None
        [found] = by_sysfs
        if not devices_facts.sound_name(found.name):
            self.reasons.append(self.said(f"{found.name!r} is no name of a device"))
            return None
        self._name = found.name
        if [each.name for each in by_lsblk] != [found.name]:
            self._count("lsblk", by_lsblk)
        elif by_lsblk[0].size_bytes != found.size_bytes:
            self.reasons.append(
                self.said(f"{by_lsblk[0].size_bytes} B by lsblk, {found.size_bytes} B by sysfs")
            )
        return found

    def _count(self, tool: str, devices: Sequence[BlockDevice]) -> None:
        names = ", ".join(each.name for each in devices)
        why = (
            f"several devices answer to it: {names} ({tool}); declare serial and wwn, and of "
            "several paths none is written to"
            if len(devices) > 1
            else f"{names or 'no device'} answers to it by {tool}"
            + ("" if devices else "; is it plugged in, and does udev know its serial?")
        )
        self.reasons.append(self.said(why))

    def _matching(
        self, command: Sequence[str], read: devices_facts.Reader
    ) -> list[BlockDevice] | None:
        asked = self.witness.ask(command, timeout_s=_ASK_S, env=_PLAIN)
        self.evidence.append(asked.ref)
        if not asked.result.ok:
            self.reasons.append(self.said(asked.result.describe()))
            return None
        try:
            devices = read(asked.stdout)
        except ParseError as err:
            self.reasons.append(self.said(err.message))
            return None
        return [each for each in devices if _is(self.disk, each.serial, each.wwn)]

    def at(self, found: BlockDevice, mode: Mode) -> Facts | None:
        """Return what a look at `found` tells; None, with the reason, where it tells none."""
        argv = devices_script.argv(self.witness.host, self.node(found), mode, places=self.places)
        asked = self.witness.ask(argv, timeout_s=_ASK_S, env=_PLAIN)
        self.evidence.append(asked.ref)
        facts = None
        try:
            facts = devices_facts.parse(asked.result.stdout)
        except ParseError as err:
            self.reasons.append(self.said(err.message))
        if not asked.result.ok and not (facts and facts.missing):
            self.reasons.append(self.said(f"the look {asked.result.describe()}"))
            return None
        return facts

    def concluded(
        self,
        kind: type[_Known],
        found: BlockDevice | None,
        facts: Facts | None,
        reasons: Sequence[str] = (),
    ) -> _Known:
        """Return the device as `kind`; raises DeviceRefusedError where it is not surely that.

        Something speaks against it, or nothing was found or told. `reasons` are told first.
        """
        against = (*reasons, *self.reasons)
        if against or facts is None or found is None or found.size_bytes is None:
            raise DeviceRefusedError(
                against or (self.said("was not looked at"),),
                hint="nothing was written; `kvgate plan --yes-destroy SERIAL` says what would be",
                evidence=tuple(self.evidence),
            )
        return kind(
            host=self.witness.host,
            id=self.disk.id,
            node=self.node(found),
            size_bytes=found.size_bytes,
            evidence=tuple(self.evidence),
            facts=facts.text,
            places=self.places,
            key=_KEY,
        )
