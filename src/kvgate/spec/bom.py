"""Bills of materials: what was ordered, by part number, quantity and serial number, and where.

Nothing in such a file is ever executed, or used as a path: its texts are compared, and shown.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Annotated, Any

import pydantic

from kvgate.model.part import BY_HAND, PartKind, item_of, serial_key
from kvgate.spec.base import Slug, Strict, Text


def _quoted(value: Any) -> Any:
    if isinstance(value, int | float):
        raise ValueError(  # noqa: TRY004  pydantic explains ValueError, not TypeError
            "is a number in YAML, which drops leading zeros and digits; put it in quotes"
        )
    return value


Serial = Annotated[
    str,
    pydantic.BeforeValidator(_quoted),
    pydantic.StringConstraints(pattern=r"^[!-~]([ -~]{0,62}[!-~])?$"),
]
"""A serial number: printable ASCII, 64 characters at most, no blanks around it."""

Number = Annotated[Text, pydantic.BeforeValidator(_quoted)]
"""A part number, slot or position: a text even where it has only digits."""


class Place(Strict):
    """Where a part should be: a host or device of the inventory, and a slot or port of it.

    ``slot`` is any name that the host has for the place: the number of a slot, a PCI address
    (``0000:41:00.0``), a memory slot's locator (``P0_DIMMA1``). Without a host a part may be
    anywhere.
    """

    host: Slug | None = None
    slot: Number | None = None
    port: Number | None = None

    @pydantic.model_validator(mode="after")
    def _on_a_host(self) -> Place:
        if (self.slot or self.port) and not self.host:
            raise ValueError("a slot or port goes with the host it is of")
        return self


class Unit(Strict):
    """One part by its serial number, with a place of its own where it differs from the line's."""

    serial: Serial
    host: Slug | None = None
    slot: Number | None = None
    port: Number | None = None


class Line(Strict):
    """One line of the order: so many parts of one kind.

    Serial numbers stand in ``serials`` (all at ``where``), or in ``units`` with a place each; a
    line without any is judged by count and model.
    """

    kind: PartKind
    quantity: Annotated[int, pydantic.Field(ge=1, le=1_000_000)]
    part_number: Number | None = None
    model: Text | None = None
    description: Text | None = None
    position: Number | None = None  # of the order, as the supplier counts its lines
    serials: list[Serial] = pydantic.Field(default_factory=list)
    units: list[Unit] = pydantic.Field(default_factory=list)
    where: Place = Place()

    @pydantic.model_validator(mode="after")
    def _counted(self) -> Line:
        if not (self.part_number or self.model or self.description):
            raise ValueError("a line has a part_number, a model, or at least a description")
        if self.serials and self.units:
            raise ValueError("serial numbers stand in serials or in units, not in both")
        count = len(self.serials) + len(self.units)
        if count not in (0, self.quantity):
            raise ValueError(f"quantity is {self.quantity}, and {count} serial numbers are listed")
        if any((unit.slot or unit.port) and not self._host(unit) for unit in self.units):
            raise ValueError("a slot or port goes with the host it is of")
        return self

    def _host(self, unit: Unit) -> str | None:
        return unit.host or self.where.host

    @property
    def named(self) -> str:
        """Return what people call it: model, else part number, else description."""
        return self.model or self.part_number or self.description or ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """One thing to look for: a part by serial number, or `count` alike without any.

    ``host``, ``slot``, ``port``, ``serial``, ``model`` and ``part_number`` are "" where the bill
    doesn't say. ``where`` is where it stands in the file.
    """

    item: str
    kind: str
    serial: str
    model: str
    part_number: str
    host: str
    slot: str
    port: str
    count: int
    where: tuple[str | int, ...]

    @property
    def place(self) -> str:
        """Return host, slot and port as people read them; "anywhere" without a host."""
        named = [self.host or "anywhere"]
        named += [f"slot {self.slot}"] if self.slot else []
        named += [f"port {self.port}"] if self.port else []
        return " ".join(named)


class Bom(Strict):
    """A whole bill of materials; ``date`` and ``order`` are for people."""

    bom: Slug
    title: str = ""
    supplier: str = ""
    order: Number | None = None
    date: Text | None = None
    lines: Annotated[list[Line], pydantic.Field(min_length=1)]

    def ordered(self) -> tuple[Ordered, ...]:
        """Return everything to look for, in the file's order."""
        return tuple(
            each for index, line in enumerate(self.lines) for each in _ordered(index, line)
        )

    def judged(self) -> tuple[Ordered, ...]:
        """Return what machines can tell of: all but what people count by hand."""
        return tuple(each for each in self.ordered() if each.kind not in BY_HAND)


def _ordered(index: int, line: Line) -> Iterator[Ordered]:
    at: tuple[str | int, ...] = ("lines", index)
    same = {
        "kind": line.kind,
        "model": line.model or "",
        "part_number": line.part_number or "",
    }
    units = line.units or [Unit(serial=serial) for serial in line.serials]
    where = "units" if line.units else "serials"
    for number, unit in enumerate(units):
        moved = unit.host is not None and unit.host != line.where.host
        yield Ordered(
            item=item_of(line.kind, unit.serial),
            serial=serial_key(unit.serial),
            host=unit.host or line.where.host or "",
            slot=unit.slot or ("" if moved else line.where.slot or ""),
            port=unit.port or ("" if moved else line.where.port or ""),
            count=1,
            where=(*at, where, number),
            **same,
        )
    if not units:
        yield Ordered(
            item=f"{line.kind}/line {index + 1}",
            serial="",
            host=line.where.host or "",
            slot=line.where.slot or "",
            port=line.where.port or "",
            count=line.quantity,
            where=at,
            **same,
        )
