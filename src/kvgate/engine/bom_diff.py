"""What changed between two bills of materials, or between what two runs found."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator

from kvgate.engine.bom import reported
from kvgate.engine.workspace import frozen_setup
from kvgate.errors import StoreError
from kvgate.spec.bom import Bom
from kvgate.store.reader import RunReader


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One part as a bill or a run has it; parts without serial number are alike and counted."""

    kind: str
    serial: str
    named: str  # model, else part number; what people call it
    host: str
    slot: str

    @property
    def place(self) -> str:
        """Return where it is, as people read it."""
        return " ".join(filter(None, (self.host or "anywhere", self.slot)))

    @property
    def text(self) -> str:
        """Return kind and serial number (or model)."""
        return f"{self.kind} {self.serial or self.named or 'without serial number'}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference: ``what`` is added, removed, moved, replaced, renamed or counted."""

    what: str
    text: str


def units_of_bom(bom: Bom) -> tuple[Unit, ...]:
    """Return every part of a bill of materials."""
    return tuple(
        Unit(
            kind=each.kind,
            serial=each.serial,
            named=each.model or each.part_number,
            host=each.host,
            slot=each.slot or each.port,
        )
        for each in bom.ordered()
        for _ in range(each.count)
    )


def units_of_run(reader: RunReader) -> tuple[Unit, ...]:
    """Return every part that a run's hosts and devices told of.

    Raises StoreError where the run asked nobody for parts: its inventory had no bill of materials.
    """
    inventory = frozen_setup(reader).inventory.value
    told = reported(reader.measurements(), inventory)
    if not told.told:
        raise StoreError(
            f"{reader.path.name}: tells of no parts",
            hint="only a run of G1 on an inventory with a bill of materials asks for them",
        )
    return tuple(
        Unit(
            kind=each.kind,
            serial=each.serial,
            named=each.model or each.part_number,
            host=each.host,
            slot=each.places[0] if each.places else "",
        )
        for each in told.found
    )


def changes(before: Iterable[Unit], after: Iterable[Unit]) -> tuple[Change, ...]:
    """Return what changed, sorted; nothing at all where both are the same.

    A serial number that went while another came to the same place is a replaced part.
    """
    old, new = tuple(before), tuple(after)
    was, now = _by_serial(old), _by_serial(new)
    gone = [was[key] for key in sorted(was.keys() - now.keys())]
    come = [now[key] for key in sorted(now.keys() - was.keys())]
    found = [*_kept(was, now), *_exchanged(gone, come), *_counted(old, new)]
    return tuple(sorted(found, key=lambda each: (each.what, each.text)))


BySerial = dict[tuple[str, str, int], Unit]


def _by_serial(units: Iterable[Unit]) -> BySerial:
    """Return the parts by kind and serial number; several that tell the same one are numbered."""
    found: BySerial = {}
    for each in sorted(units, key=lambda unit: (unit.kind, unit.serial, unit.place, unit.named)):
        if each.serial:
            number = 0
            while (each.kind, each.serial, number) in found:
                number += 1
            found[each.kind, each.serial, number] = each
    return found


def _kept(was: BySerial, now: BySerial) -> Iterator[Change]:
    for key in sorted(was.keys() & now.keys()):
        old, new = was[key], now[key]
        if _elsewhere(old, new):
            yield Change(what="moved", text=f"{new.text}: {old.place} → {new.place}")
        if old.named != new.named:
            yield Change(what="renamed", text=f"{new.text}: '{old.named}' → '{new.named}'")


def _elsewhere(old: Unit, new: Unit) -> bool:
    """Tell whether it is in another place: a host or slot that one side leaves open is no other."""
    sides = (old.host, new.host), (old.slot, new.slot)
    return any(before and after and before != after for before, after in sides)


def _exchanged(gone: list[Unit], come: list[Unit]) -> Iterator[Change]:
    left = list(come)
    for old in gone:
        same = [each for each in left if (each.kind, each.place) == (old.kind, old.place)]
        if same and old.slot:
            left.remove(same[0])
            text = f"{old.kind} in {old.place}: {old.serial} → {same[0].serial}"
            yield Change(what="replaced", text=text)
        else:
            yield Change(what="removed", text=f"{old.text}, was in {old.place}")
    for new in left:
        yield Change(what="added", text=f"{new.text} in {new.place}")


def _counted(old: Iterable[Unit], new: Iterable[Unit]) -> Iterator[Change]:
    """Yield where parts without serial numbers became more or fewer."""

    def counts(units: Iterable[Unit]) -> Counter[tuple[str, str, str]]:
        return Counter((each.kind, each.named, each.host) for each in units if not each.serial)

    was, now = counts(old), counts(new)
    for kind, named, host in sorted(was.keys() | now.keys()):
        before, after = was[kind, named, host], now[kind, named, host]
        if before != after:
            text = f"{kind} {named or 'without model'} in {host or 'anywhere'}: {before} → {after}"
            yield Change(what="counted", text=text)
