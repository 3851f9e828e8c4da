"""Loads a bill of materials, and refuses what only shows across its lines or the inventory."""

from __future__ import annotations

from pathlib import Path

from kvgate.spec import yamlfile
from kvgate.spec.bom import Bom
from kvgate.spec.inventory import Inventory
from kvgate.spec.load import Loaded, nearest, validate
from kvgate.spec.yamlfile import YamlFile

MOST_VALUES = 2_500_000
"""What a bill may hold: 100,000 lines, each with 20 keys and values and as many serial numbers."""


def load_bom(
    path: Path, inventory: Loaded[Inventory] | None = None, *, name: str | None = None
) -> Loaded[Bom]:
    """Load the bill of materials at `path`, as `bom_of` checks it; raises SpecError."""
    return bom_of(yamlfile.read(path, name=name, most=MOST_VALUES), inventory)


def bom_of(file: YamlFile, inventory: Loaded[Inventory] | None = None) -> Loaded[Bom]:
    """Check a bill of materials; raises SpecError with file and line.

    A serial number stands once for a kind of part (a server and its chassis may share one), and
    with an `inventory` every host it names is one of it.
    """
    bom = validate(Bom, file)
    seen: dict[str, int] = {}
    for each in bom.ordered():
        if each.serial and each.item in seen:
            raise file.error(
                each.where, f"{each.item} stands twice, first in line {seen[each.item]}"
            )
        seen[each.item] = file.line(each.where)
        if inventory and each.host and each.host not in inventory.value.hosts:
            raise file.error(
                each.where,
                f"'{each.host}' is not a host of inventory '{inventory.value.inventory}'"
                f"{nearest(each.host, inventory.value.hosts)}",
            )
    return Loaded(bom, (file,))
