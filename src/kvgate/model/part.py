"""Parts: the kinds there are, and the one spelling of a serial number that is compared.

A part is named in records by its item: ``KIND/SERIAL`` (``drive/S6BENE0R200123``), or
``KIND/@PLACE`` where it tells no serial number (``nic/@0000:41:00.0``). Whoever reports parts
(probes of hosts, adapters of devices) and whoever orders them (a bill of materials) makes items
by `item_of`, so that both name the same thing alike.
"""

from __future__ import annotations

from typing import Literal, get_args

PartKind = Literal[
    "server",
    "chassis",
    "board",
    "cpu",
    "dimm",
    "gpu",
    "nic",
    "drive",
    "psu",
    "fan",
    "optic",
    "cable",
    "array",
    "controller",
    "switch",
    "bmc",
    "other",
]
KINDS: tuple[PartKind, ...] = get_args(PartKind)
BY_HAND: frozenset[str] = frozenset({"cable", "other"})
"""Kinds that no machine tells: they are counted by people (a manual check), never judged here."""

AS_ORDERED = "as_ordered"
"""What ``part.status`` says of a part that is where it should be, of the ordered model."""

NO_SURPLUS = "none"
"""What ``parts.surplus`` says of a host on which nothing is found that was not ordered."""


def serial_key(serial: str) -> str:
    """Return `serial` as it is compared: tools pad it, and BMCs write small letters."""
    return " ".join(serial.split()).upper()


def item_of(kind: str, serial: str | None, place: str = "") -> str:
    """Return the item of a part: by its serial number, else by its place."""
    return f"{kind}/{serial_key(serial)}" if serial else f"{kind}/@{place}"


def kind_of(item: str) -> str:
    """Return the kind of the part that `item` names."""
    return item.partition("/")[0]


def text_key(text: str | None) -> str:
    """Return a model or part number as it is compared: blanks and letter case tell nothing."""
    return "".join((text or "").split()).casefold()
