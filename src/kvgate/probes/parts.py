"""Parts: what a host is made of, by serial number, to be compared with what was ordered.

How parts are told, by these probes and by the adapters of devices (arrays, switches, BMCs):

- For each kind of part that the host or device knows about (see `model.part.KINDS`) one reading
  ``part.count`` with the kind as its item: how many there are; or, with a problem, why that can't
  be told. A kind without it is one that nobody there knows about: what was ordered of it is then
  `not_known`, never missing.
- For each part one reading ``part.place`` with the item `model.part.item_of` gives it
  (``drive/S6BENE0R200123``, ``nic/@0000:41:00.0``): all names that its place has there, joined by
  ", " and the plainest first: ``12, 0000:41:00.0, nvme3``.
- Of the same item, each only where it is told: ``part.serial``, ``part.model``,
  ``part.part_number``, ``part.firmware``, and ``part.fault``: what is wrong with a part that is
  there and does not work.

A BMC tells the parts of the host it manages in the same way, as readings of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from kvgate.errors import CommandError, ParseError
from kvgate.model.part import PartKind, item_of, kind_of, serial_key
from kvgate.model.quantity import Quantity
from kvgate.model.record import Reading
from kvgate.probes import parts_optics, parts_read
from kvgate.probes.base import Command, Probe, answer, reading
from kvgate.probes.parts_read import Part
from kvgate.spec.inventory import Host
from kvgate.witness import Answer, Testimony, Witness

COUNT = "part.count"
PLACE = "part.place"
TEXTS = ("part.serial", "part.model", "part.part_number", "part.firmware", "part.fault")
MEASURES = (COUNT, PLACE, *TEXTS)

Read = Callable[[Witness], tuple[Sequence[Part], list[Testimony]]]


def told(kind: PartKind, parts: Sequence[Part]) -> Iterator[Reading]:
    """Yield the readings of all parts of one kind, and how many they are.

    Two that tell one serial number (a placeholder of the firmware) are told by their places.
    """
    yield reading(COUNT, Quantity.of(len(parts), ""), item=kind)
    yield from each_of(kind, parts)


def each_of(kind: PartKind, parts: Sequence[Part]) -> Iterator[Reading]:
    """Yield the readings of `parts` of one kind, without saying that these are all."""
    keys = [serial_key(part.serial) if part.serial else "" for part in parts]
    for number, (part, key) in enumerate(zip(parts, keys, strict=True)):
        known = key if keys.count(key) == 1 else ""
        places = ", ".join(dict.fromkeys(filter(None, part.places)))
        item = item_of(kind, known, part.places[0] if part.places else f"{number + 1}")
        yield reading(PLACE, places or f"{kind} {number + 1}", item=item)
        texts = (known, part.model, part.part_number, part.firmware, part.fault)
        for name, text in zip(TEXTS, texts, strict=True):
            if text:
                yield reading(name, text, item=item)


def untold(kinds: Iterable[PartKind], because: str) -> Iterator[Reading]:
    """Yield that nothing is known of the parts of `kinds`, and why."""
    yield from (reading(COUNT, None, because, item=kind) for kind in kinds)


def _probe(
    name: str,
    kinds: tuple[PartKind, ...],
    read: Read,
    commands: Callable[[Host], tuple[Command, ...]],
    *tools: str,
) -> Probe:
    """Return the probe that tells the parts of `kinds`; what fails is told for these kinds."""

    def ask(witness: Witness) -> Answer:
        try:
            parts, asked = read(witness)
        except parts_read.UntoldError as err:
            some = [r for kind in kinds for r in each_of(kind, err.parts)]
            return answer([*untold(kinds, err.message), *some], *err.asked)
        except (CommandError, ParseError) as err:
            return answer(untold(kinds, err.message))
        readings: list[Reading] = []
        for kind in kinds:
            readings += told(kind, [part for part in parts if part.kind == kind])
        return answer(readings, *asked)

    return Probe(name=name, measures=MEASURES, ask=ask, commands=commands, tools=tools)


def serials(witness: Witness, kinds: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield kind and serial number of every part of `kinds` that tells one."""
    for probe, told_kinds in zip(PROBES, KINDS_TOLD, strict=True):
        if kinds.intersection(told_kinds):
            for each in probe.ask(witness).readings:
                if each.name == TEXTS[0] and kind_of(each.item) in kinds:
                    yield kind_of(each.item), str(each.value)


KINDS_TOLD: tuple[tuple[PartKind, ...], ...] = (
    ("server", "chassis", "board", "cpu", "dimm"),
    ("psu",),
    ("drive",),
    ("gpu",),
    ("nic",),
    ("optic",),
)
"""The kinds that each of `PROBES` tells of."""

PROBES: tuple[Probe, ...] = (
    _probe(
        "parts of the firmware's tables",
        KINDS_TOLD[0],
        parts_read.tables,
        parts_read.tables_commands,
        "dmidecode",
    ),
    _probe(
        "power supplies", ("psu",), parts_read.supplies, parts_read.tables_commands, "dmidecode"
    ),
    _probe("parts: drives", ("drive",), parts_read.drives_of, parts_read.drives_commands),
    _probe("parts: GPUs", ("gpu",), parts_read.gpus_of, parts_read.gpus_commands),
    _probe(
        "parts: network cards",
        ("nic",),
        parts_read.cards_of,
        parts_read.cards_commands,
        "lspci",
        "ethtool",
    ),
    _probe(
        "parts: optics", ("optic",), parts_optics.optics_of, parts_optics.optics_commands, "ethtool"
    ),
)
