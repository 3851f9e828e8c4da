"""Reads single cells of a packing list: serial numbers, quantities, kinds of part, texts.

What Excel or a keyboard does to them is undone where nothing is lost (full-width characters),
and refused with the cell where something is (scientific notation, more than 15 digits).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence

from kvgate.model.part import KINDS, PartKind
from kvgate.spec.importing.bom_cells import Cell
from kvgate.spec.load import nearest

_SCIENTIFIC = re.compile(r"[+-]?[0-9]+(?:[.,][0-9]*)?[eE][+-][0-9]{1,3}", re.ASCII)
_SERIAL = re.compile(r"[!-~]([ -~]{0,62}[!-~])?", re.ASCII)
_QUANTITY = re.compile(r"([0-9]{1,7})(?:[.,](?!000$)0{1,6})?", re.ASCII)
_THOUSANDS = re.compile(r"[0-9]{1,3}(?:[.,' ]000)+", re.ASCII)  # or decimals: not to be known
_NONE = frozenset({"", "-", "--", "/", "n/a", "na", "none", "nil", "无", "没有", "待定", "tbd"})
_EXACT_DIGITS = 15  # what a number of Excel (an IEEE double) holds without loss
_LONGEST_TEXT = 500

WORDS: dict[str, PartKind] = {
    **{kind: kind for kind in KINDS},
    "服务器": "server",
    "主机": "server",
    "机箱": "chassis",
    "enclosure": "chassis",
    "主板": "board",
    "motherboard": "board",
    "mainboard": "board",
    "处理器": "cpu",
    "processor": "cpu",
    "内存": "dimm",
    "memory": "dimm",
    "ram": "dimm",
    "显卡": "gpu",
    "加速卡": "gpu",
    "accelerator": "gpu",
    "网卡": "nic",
    "network card": "nic",
    "hca": "nic",
    "硬盘": "drive",
    "固态硬盘": "drive",
    "ssd": "drive",
    "nvme": "drive",
    "hdd": "drive",
    "disk": "drive",
    "电源": "psu",
    "电源模块": "psu",
    "power supply": "psu",
    "风扇": "fan",
    "光模块": "optic",
    "transceiver": "optic",
    "optics": "optic",
    "线缆": "cable",
    "光纤": "cable",
    "dac": "cable",
    "aoc": "cable",
    "存储": "array",
    "storage": "array",
    "控制器": "controller",
    "交换机": "switch",
    "其他": "other",
}
"""What suppliers write for a kind of part, in small letters."""


class Reader:
    """Reads cells, and gathers remarks on what was changed in doing so."""

    def __init__(self, kinds: Mapping[str, PartKind]) -> None:
        self.kinds = {**WORDS, **{word.casefold(): kind for word, kind in kinds.items()}}
        self.remarks: list[str] = []

    def normal(self, cell: Cell) -> str:
        """Return the cell's text in normal form (NFKC), invisible characters left out.

        Raises SpecError for a formula: its value is not known without evaluating it.
        """
        if cell.stored == "formula":
            raise cell.error(
                f"holds the formula {cell.text[:40]!r}, and formulas are never evaluated",
                hint="paste it as a value (Paste Special, Values), and save",
            )
        text = unicodedata.normalize("NFKC", cell.text)
        text = "".join(c for c in text if unicodedata.category(c) not in ("Cf", "Co", "Cn", "Cs"))
        return "\n".join(" ".join(line.split()) for line in text.splitlines()).strip()

    def text(self, cell: Cell) -> str:
        """Return a description or the like, on one line; "" where it says that there is none."""
        text = " ".join(self.normal(cell).split())
        bad = next((c for c in text if not c.isprintable()), None)
        if bad is not None:
            raise cell.error(f"holds the control character U+{ord(bad):04X}")
        return "" if text.casefold() in _NONE else text[:_LONGEST_TEXT]

    def number(self, cell: Cell) -> str:
        """Return a part number, slot or port as text, as exact as it was stored."""
        text = self._exact(cell, self.text(cell))
        if text and text != " ".join(cell.text.split()):
            self.remarks.append(f"{cell.where}: full-width characters: read as {text}")
        return text

    def serials(self, cell: Cell) -> tuple[str, ...]:
        """Return the serial numbers in a cell: one, or several on lines or between , ; or 、."""
        text = self.normal(cell)
        parts = [part.strip() for part in re.split(r"[\n,;、]", text)]
        found = tuple(part for part in parts if part.casefold() not in _NONE)
        for each in found:
            self._exact(cell, each)
            if not _SERIAL.fullmatch(each):
                odd = next((c for c in each if not "!" <= c <= "~" and c != " "), "")
                named = f" ('{odd}' is U+{ord(odd):04X})" if odd else ""
                raise cell.error(
                    f"{each[:40]!r} is no serial number: printable ASCII, 64 characters at most"
                    f"{named}",
                    hint="letters of other alphabets look alike: type it anew from the label",
                )
        if found and "".join(text.split()) != "".join(cell.text.split()):
            self.remarks.append(
                f"{cell.where}: full-width or invisible characters: read as {', '.join(found)}"
            )
        if found and cell.stored == "number":
            self.remarks.append(
                f"{cell.where}: {found[0]} is stored as a number: leading zeros would be lost; "
                "compare it with the label"
            )
        return found

    def _exact(self, cell: Cell, text: str) -> str:
        """Return `text`; raises SpecError where Excel has lost digits of it."""
        if _SCIENTIFIC.fullmatch(text):
            raise cell.error(
                f"'{text}' is a number in scientific notation: digits are lost",
                hint="format the column as text in Excel, type it anew from the label",
            )
        if text and cell.stored == "scientific":
            raise cell.error(
                f"{text[:40]} is shown in scientific notation: digits may be lost",
                hint="format the column as text in Excel, type it anew from the label",
            )
        if text and cell.stored in ("date", "truth", "error"):
            raise cell.error(
                f"'{text[:40]}' is stored as a {cell.stored}, not as the text on the label",
                hint="format the column as text in Excel, type it anew from the label",
            )
        digits = text.removeprefix("-")
        if (
            cell.stored == "number"
            and text
            and (not digits.isdecimal() or len(digits) > _EXACT_DIGITS)
        ):
            raise cell.error(
                f"'{text}' is stored as a number of which Excel keeps {_EXACT_DIGITS} digits only",
                hint="format the column as text in Excel, type it anew from the label",
            )
        return text

    def quantity(self, cell: Cell) -> int | None:
        """Return a quantity, None of an empty cell; raises SpecError for any other text."""
        text = self.text(cell)
        if not text:
            return None
        match = _QUANTITY.fullmatch(text)
        if not match or int(match[1]) == 0:
            hint = "write it without a separator" if _THOUSANDS.fullmatch(text) else ""
            raise cell.error(f"'{text[:40]}' is no quantity: a whole number above 0", hint=hint)
        if text != cell.text.strip():
            self.remarks.append(f"{cell.where}: full-width digits: read as {match[1]}")
        return int(match[1])

    def kind(self, cell: Cell) -> PartKind:
        """Return the kind of part that a word means; raises SpecError for an unknown one."""
        word = self.text(cell).casefold()
        if word not in self.kinds:
            raise cell.error(
                f"'{word[:40]}' is no kind of part{nearest(word, KINDS)}",
                hint="say what it is, e.g. --kind 'NVMe SSD'=drive",
            )
        return self.kinds[word]


def shorter(serials: Sequence[tuple[str, Cell]]) -> list[str]:
    """Return remarks on serial numbers of digits that are shorter than others of their part.

    That is what is left of 0012345 where a spreadsheet took it for a number.
    """
    digits = [(serial, cell) for serial, cell in serials if serial.isdecimal()]
    longest = max((len(serial) for serial, _ in digits), default=0)
    return [
        f"{cell.where}: {serial} is shorter than others of this part: were leading zeros lost?"
        for serial, cell in digits
        if len(serial) < longest
    ]
