"""Block devices: from sysfs, and from `lsblk` as JSON or as text."""

from __future__ import annotations

import dataclasses
import decimal
import re
from collections.abc import Iterator
from typing import Any

from kvgate.parse import sysfs
from kvgate.parse.ending import reads
from kvgate.parse.text import available, json_object, lines, refuse, shown, whole

SECTOR_BYTES = 512
"""/sys/block/*/size counts these, whatever the device's own sector is (kernel ABI sysfs-block)."""

_UNIT = {"B": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}  # lsblk: powers of 1024
_SIZE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([BKMGTPE])")
_TREE = re.compile(r"^[\s├└─│|`-]+")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BlockDevice:
    """A block device; None where nothing is told. ``attached``: it sits on a bus (no loop, dm)."""

    name: str
    size_bytes: int | None
    serial: str | None = None
    wwn: str | None = None
    model: str | None = None
    type: str = "disk"
    attached: bool = True
    removable: bool = False

    @property
    def nvme(self) -> bool:
        """Tell whether it is an NVMe namespace."""
        return re.fullmatch(r"nvme[0-9]+n[0-9]+", self.name) is not None


def from_sysfs(answer: bytes) -> tuple[BlockDevice, ...]:
    """Parse the attributes below /sys/block (whole devices, no partitions)."""
    what = "/sys/block"
    found = []
    for name, values in sysfs.attributes(answer, what).items():
        if sysfs.text(values, "hidden", what) == "1":  # one path of an NVMe namespace: nvme0c0n1
            continue
        size = sysfs.text(values, "size", what)
        if size is None:
            refuse(what, f"{name} has no size")
        serial, wwn = identity_of(values, what)
        found.append(
            BlockDevice(
                name=name.replace("!", "/"),  # the kernel writes cciss/c0d0 as cciss!c0d0
                size_bytes=whole(size, what, f"size of {name}") * SECTOR_BYTES,
                serial=serial,
                wwn=wwn,
                model=available(_first(values, ("device/model",), what)),
                attached="device/modalias" in values or "device/model" in values,
                removable=sysfs.text(values, "removable", what) == "1",
            )
        )
    return tuple(found)


def identity_of(values: dict[str, bytes], what: str) -> tuple[str | None, str | None]:
    """Return the serial and the WWN that the sysfs attributes of one device tell; None: none."""
    wwn = available(_first(values, ("wwid", "device/wwid"), what))
    return _serial(values, what), wwn


def _first(values: dict[str, bytes], names: tuple[str, ...], what: str) -> str | None:
    return next((found for name in names if (found := sysfs.text(values, name, what))), None)


def _serial(values: dict[str, bytes], what: str) -> str | None:
    """Return the serial: of virtio and NVMe as text, of SCSI and SATA from VPD page 0x80."""
    told = available(_first(values, ("serial", "device/serial"), what))
    page = values.get("device/vpd_pg80")
    if told or page is None:
        return told
    # SPC-4 7.8.13: byte 1 page code, bytes 2-3 length, then the serial in ASCII
    if len(page) < 4 or page[1] != 0x80:
        refuse(what, f"vpd_pg80 is {shown(page)}, not VPD page 0x80")
    held = page[4 : 4 + int.from_bytes(page[2:4], "big")].strip(b" \0")
    if not held.isascii() or not held.decode("ascii").isprintable():
        refuse(what, f"vpd_pg80 holds {shown(held)}, not a printable serial number")
    return available(held.decode("ascii"))


def from_lsblk(answer: bytes) -> tuple[BlockDevice, ...]:
    """Parse ``lsblk -J -b -o NAME,TYPE,SIZE,SERIAL,WWN,MODEL`` or the default text table.

    Sizes in JSON must be bytes (``-b``), as number or text; those of the table are rounded by
    lsblk. A device below several others is returned once.
    """
    if answer.lstrip().startswith(b"{"):
        found = list(_rows(json_object(answer, "lsblk").get("blockdevices")))
    else:
        found = list(_table(lines(answer, "lsblk")))
    unique = {device.name: device for device in found}
    for device in found:
        if unique[device.name] != device:
            refuse("lsblk", f"tells two different things about {shown(device.name)}")
    return tuple(unique.values())


def _rows(rows: Any) -> Iterator[BlockDevice]:
    if not isinstance(rows, list):
        refuse("lsblk", "its JSON has no list 'blockdevices'")
    for row in rows:
        if not isinstance(row, dict):
            refuse("lsblk", f"{shown(row)} is no device")
        name = _told(row, "name") or _told(row, "kname")
        if not name:
            refuse("lsblk", f"{shown(row)} has no name")
        yield BlockDevice(
            name=name,
            size_bytes=_bytes(row.get("size")),
            serial=_told(row, "serial"),
            wwn=_told(row, "wwn"),
            model=_told(row, "model"),
            type=_told(row, "type") or "",
        )
        if "children" in row:
            yield from _rows(row["children"])


def _told(row: dict[str, Any], key: str) -> str | None:
    value = row.get(key)
    if value is not None and not isinstance(value, str):
        refuse("lsblk", f"{key} is {shown(value)}, not a text")
    return available(value)


def _bytes(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str):
        return whole(value, "lsblk", "size")
    return refuse("lsblk", f"size is {shown(value)}, not bytes")


def _table(printed: list[str]) -> Iterator[BlockDevice]:
    """Yield the rows below the heading; what stands before it (a shell's trace) is no row."""
    start = next((i for i, line in enumerate(printed) if line.startswith("NAME ")), None)
    heading = printed[start].split() if start is not None else []
    if start is None or not {"SIZE", "TYPE"} <= set(heading):
        refuse("lsblk", "it prints no table with NAME, SIZE and TYPE")
    for line in printed[start + 1 :]:
        if not line.strip():
            continue
        words = _TREE.sub("", line).split()
        row = dict(zip(heading, words, strict=False))
        size = _SIZE.fullmatch(row.get("SIZE", ""))
        if not size or "TYPE" not in row or (size[2] == "B" and "." in size[1]):
            refuse("lsblk", f"{shown(line)} is no row of the table")
        yield BlockDevice(
            name=row["NAME"],
            type=row["TYPE"],
            size_bytes=int(decimal.Decimal(size[1]) * 1024 ** _UNIT[size[2]]),
        )


TOOLS = {
    "lsblk": reads("lsblk", from_lsblk),
    "sysfs_block": reads("sysfs_block", from_sysfs, fine=(0, 1, 2)),
}
"""grep ends with 1 where nothing is there, with 2 where a file can't be read."""
