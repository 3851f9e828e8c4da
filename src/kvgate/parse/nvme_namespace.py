"""`nvme id-ns` and `nvme fw-log`: a namespace's LBA format, a drive's firmware slots."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from kvgate.parse.ending import reads
from kvgate.parse.text import json_object, lines, refuse, shown
from kvgate.parse.typed import count, hexed, rows, words

ID_NS, FW_LOG = "nvme id-ns", "nvme fw-log"
_FIELD = re.compile(r"([a-z][a-z0-9_]{0,20})\s*:\s?(\S*).*")
_FORMAT = re.compile(
    r"lbaf\s*([0-9]{1,2}) : ms:([0-9]{1,5})\s+lbads:([0-9]{1,2})\s+rp:(0x[0-3]|[0-3])(?: .*)?"
)
_SHIFTS = range(9, 32)  # 512 B up; 0: the format is not there (NVM Command Set, LBA Format)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LbaFormat:
    """A format; ``performance`` 0 best, 1 better, 2 good, 3 degraded (relative, RP)."""

    index: int
    data_bytes: int
    metadata_bytes: int
    performance: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """A namespace; sizes in blocks. ``in_use``: the index of its format."""

    size_blocks: int
    capacity_blocks: int | None
    used_blocks: int | None
    in_use: int
    formats: tuple[LbaFormat, ...]
    nguid: str | None

    @property
    def format(self) -> LbaFormat:
        """Return the format in use."""
        return next(each for each in self.formats if each.index == self.in_use)


def namespace(answer: bytes) -> Namespace:
    """Parse the JSON or the text of ``nvme id-ns`` (1.x, 2.x; not ``--human-readable``).

    Raises ParseError where the format in use is not among those that are told.
    """
    if answer.lstrip().startswith(b"{"):
        told = json_object(answer, ID_NS)
        listed = list(map(_row, range(64), rows(told.get("lbafs"), ID_NS, "lbafs")))
    else:
        told, listed = _from_text(lines(answer, ID_NS))
    formats = tuple(_format(*each) for each in listed if each[2])
    size, flbas = count(told.get("nsze"), ID_NS, "nsze"), count(told.get("flbas"), ID_NS, "flbas")
    if size is None or flbas is None:
        refuse(ID_NS, "it has no nsze, or no flbas")
    in_use = flbas & 0xF if len(listed) <= 16 else (flbas & 0xF) | (flbas >> 5 & 3) << 4
    if [each.index for each in formats].count(in_use) != 1:
        refuse(ID_NS, f"flbas {flbas} chooses a format that it does not tell")
    return Namespace(
        size_blocks=size,
        capacity_blocks=count(told.get("ncap"), ID_NS, "ncap"),
        used_blocks=count(told.get("nuse"), ID_NS, "nuse"),
        in_use=in_use,
        formats=formats,
        nguid=words(told.get("nguid"), ID_NS, "nguid"),
    )


_Row = tuple[int, int | None, int | None, int | None]  # index, ms, ds, rp


def _row(index: int, row: dict[str, Any]) -> _Row:
    metadata, shift, rp = (count(row.get(key), ID_NS, f"lbafs {key}") for key in ("ms", "ds", "rp"))
    return index, metadata, shift, rp


def _format(index: int, metadata: int | None, shift: int | None, rp: int | None) -> LbaFormat:
    if metadata is None or shift is None or shift not in _SHIFTS or rp is None or rp > 3:
        refuse(ID_NS, f"format {index} is not told with its metadata, size and performance")
    return LbaFormat(index=index, data_bytes=1 << shift, metadata_bytes=metadata, performance=rp)


def _from_text(printed: list[str]) -> tuple[dict[str, Any], list[_Row]]:
    told: dict[str, Any] = {}
    listed: list[_Row] = []
    for line in printed:
        if line.startswith("lbaf"):
            match = _FORMAT.fullmatch(line.rstrip())
            if not match:
                refuse(ID_NS, f"{shown(line)} is no LBA format")
            numbers = [int(match[n]) for n in (1, 2, 3)]
            listed.append((numbers[0], numbers[1], numbers[2], hexed(match[4], ID_NS, "rp")))
        elif (field := _FIELD.fullmatch(line)) and told.setdefault(field[1], field[2]) != field[2]:
            refuse(ID_NS, f"'{field[1]}' stands twice")
    return told, listed


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FirmwareLog:
    """The firmware slots; ``next_slot`` None: the active one stays at the next reset."""

    active_slot: int
    next_slot: int | None
    slots: Mapping[int, str]  # those that hold a firmware


_SLOT = re.compile(r"(?:firmware rev slot |frs)([1-7])", re.IGNORECASE)
_REVISION = re.compile(r"(?:0x)?[0-9a-fA-F]{1,20} \(([!-~](?:[ -~]{0,6}[!-~])?)\s*\)")
_TEXT = re.compile(r"\s*(afi|frs[1-7])\s*:\s*(.*)")


def firmware_log(answer: bytes) -> FirmwareLog:
    """Parse the JSON or the text of ``nvme fw-log`` (1.x, 2.x): log page 03h."""
    told: dict[str, Any] = {}
    if answer.lstrip().startswith(b"{"):
        document = json_object(answer, FW_LOG)
        held = next((each for each in document.values() if isinstance(each, dict)), document)
        told = {key.lower(): value for key, value in held.items()}
    else:
        for line in lines(answer, FW_LOG):
            match = _TEXT.fullmatch(line)
            if match and told.setdefault(match[1], match[2].strip()) != match[2].strip():
                refuse(FW_LOG, f"'{match[1]}' stands twice")
    afi = count(told.get("afi", told.get("active firmware slot (afi)")), FW_LOG, "afi")
    if afi is None or afi & 7 == 0 or afi > 0xFF:
        refuse(FW_LOG, f"the active slot (afi) is {shown(afi)}, not one of seven")
    slots = {
        int(match[1]): _revision(value)
        for key, value in told.items()
        if (match := _SLOT.fullmatch(key))
    }
    if (afi & 7) not in slots:
        refuse(FW_LOG, f"it tells no firmware of slot {afi & 7}, the active one")
    return FirmwareLog(active_slot=afi & 7, next_slot=(afi >> 4 & 7) or None, slots=slots)


def _revision(value: Any) -> str:
    match = _REVISION.fullmatch(words(value, FW_LOG, "revision") or "")
    return match[1] if match else refuse(FW_LOG, f"{shown(value)} is no revision")


TOOLS = {"nvme_id_ns": reads(ID_NS, namespace), "nvme_fw_log": reads(FW_LOG, firmware_log)}
