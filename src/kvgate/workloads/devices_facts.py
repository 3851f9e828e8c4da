"""Reads the facts of a block device and tells every reason why it may not be written to.

Silence is a reason: a device is free only where each fact was told, once, and says so.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator

from kvgate.errors import ParseError
from kvgate.parse import block, sysfs
from kvgate.parse.block import BlockDevice
from kvgate.parse.text import shown, whole

Reader = Callable[[bytes], tuple[BlockDevice, ...]]
"""A parser of a list of devices."""

WHAT = "the look at the device"
_FIRST, _LAST = "kvgate-device-facts 1", "end"
_SINGLE = ("claim", "lock", "number", "node", "name", "blkid-exit", "wipefs-exit")
_BARE = ("no-device", "no-sysfs")
_NUMBER = re.compile(r"[0-9]{1,4}:[0-9]{1,7}", re.ASCII)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}(?:/[A-Za-z0-9_-]{1,31})?", re.ASCII)
_LINES = ("dev", "hidden", "partition", "ro", "size")
"""Attributes that the kernel always ends with a line's end: one without it was cut."""
_TEXTS = ("serial", "wwid", "device/serial", "device/wwid", "device/vpd_pg80", "device/model")
"""The other attributes that a look tells (`devices_script`)."""

_NOTHING = {"blkid-exit": "2", "wipefs-exit": "0"}  # what each ends with that found nothing

_MUST_READ = {
    "holder": "/sys/block/*/holders",
    "slave": "/sys/block/*/slaves",
    "mount": "/proc/*/mountinfo",
    "swap": "/proc/swaps",
    "loop": "/sys/block/loop*/loop/backing_file",
    "opener": "/proc/*/fd",
    "magic": "the first bytes of the device",
}
_BY_HAND = "if nothing on it is needed, clear it by hand there: wipefs -a {node}"
_FOUND = {
    "part": ("has a partition {}", "/sys/block", _BY_HAND),
    "holder": (
        "is held by {} (LVM, md, multipath, crypt or cache)",
        "/sys/block/*/holders",
        "take it out of there",
    ),
    "slave": ("is made of {}", "/sys/block/*/slaves", "declare a whole device"),
    "mount": ("is mounted on {}", "/proc/*/mountinfo", "unmount it"),
    "swap": ("is swap ({})", "/proc/swaps", "swapoff it"),
    "loop": ("is what {} rests on", "loop/backing_file", "detach that with losetup -d"),
    "export": ("is served to others: {}", "configfs", "end that target there"),
    "opener": ("is open in process {}", "/proc/*/fd", "end that process"),
    "blkid": ("has a signature: {}", "blkid -p", _BY_HAND),
    "wipefs": ("has a signature: {}", "wipefs -n", _BY_HAND),
    "magic": ("has a signature: {}", "its first bytes", _BY_HAND),
}
"""Fact that must not be there → what it says, what told it, and the next step."""

_BOOT = ("/", "/boot", "/boot/efi", "/usr")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What one look told: single facts, attributes of sysfs, lists, and which lists were read."""

    text: str
    single: dict[str, str]
    attributes: dict[str, bytes]
    found: dict[str, tuple[str, ...]]
    read: frozenset[str]
    missing: tuple[str, ...] = ()

    @property
    def size_bytes(self) -> int | None:
        """Return its size as the kernel has it now; None where it tells none."""
        told = sysfs.text(self.attributes, "size", WHAT)
        return None if told is None else whole(told, WHAT, "size") * block.SECTOR_BYTES

    @property
    def identity(self) -> tuple[str | None, str | None]:
        """Return its serial and WWN as the kernel has them now; raises ParseError."""
        return block.identity_of(self.attributes, WHAT)


def sound_name(name: str) -> bool:
    """Tell whether `name` can be that of a device file below /dev: ``sda``, ``cciss/c0d0``."""
    return _NAME.fullmatch(name) is not None


def parse(answer: bytes) -> Facts:
    """Read what a look printed; raises ParseError for anything that is no fact, or told twice."""
    try:
        text = answer.decode("ascii").rstrip("\n")
    except UnicodeDecodeError as err:
        raise ParseError(f"{WHAT}: {shown(answer[:80])} is not ASCII") from err
    lines = text.split("\n")
    missing = [line.removeprefix("missing ") for line in lines if line.startswith("missing ")]
    if missing and len(missing) == len(lines):
        return _facts(text, [], tuple(missing))
    if lines[0] != _FIRST or lines[-1] != _LAST:
        told = next((line for line in lines if line in _BARE), None)
        raise ParseError(f"{WHAT}: {told or 'is not whole: ' + shown(lines[-1].encode()[:80])}")
    return _facts(text, lines[1:-1])


def _facts(text: str, lines: list[str], missing: tuple[str, ...] = ()) -> Facts:
    single: dict[str, str] = {}
    attributes: dict[str, bytes] = {}
    found: dict[str, tuple[str, ...]] = {}
    read: list[str] = []
    for line in lines:
        key, _, value = line.partition(" ")
        if key in _SINGLE and key not in single:
            single[key] = value
        elif key == "attr":
            name, raw = _attribute(line, value)
            if name in attributes:
                raise ParseError(f"{WHAT}: attribute {name} is told twice")
            attributes[name] = raw
        elif key == "read" and value in _MUST_READ and value not in read:
            read.append(value)
        elif key in _FOUND and value:
            found[key] = (*found.get(key, ()), value)
        else:
            raise ParseError(f"{WHAT}: {shown(line.encode()[:80])} is no fact, or told twice")
    return Facts(
        text=text,
        single=single,
        attributes=attributes,
        found=found,
        read=frozenset(read),
        missing=missing,
    )


def _attribute(line: str, value: str) -> tuple[str, bytes]:
    match = re.fullmatch(r"([a-z_0-9/]{1,32}) ((?:[0-9a-f]{2}){0,512})", value, re.ASCII)
    if not match or match[1] not in (*_LINES, *_TEXTS):
        raise ParseError(f"{WHAT}: {shown(line.encode()[:80])} is no attribute")
    told = bytes.fromhex(match[2])
    if match[1] in _LINES and not told.endswith(b"\n"):
        raise ParseError(f"{WHAT}: attribute {match[1]} is cut: {shown(told)} has no line's end")
    return match[1], told.removesuffix(b"\n")


def unsure(facts: Facts, *, name: str, size_bytes: int | None) -> Iterator[str]:
    """Yield why this is not surely the device called `name` of `size_bytes`, whole and usable."""
    number, node = facts.single.get("number", ""), facts.single.get("node", "")
    if not _NUMBER.fullmatch(number) or number != node:
        yield f"its name leads to device {shown(node.encode())}, what is open is {number} (stat)"
    if (told := sysfs.text(facts.attributes, "dev", WHAT)) != number:
        yield f"sysfs tells its number as {told}, stat as {number}"
    if not sound_name(name) or facts.single.get("name") != name.replace("/", "!"):
        yield f"what is open is {facts.single.get('name')}, not {name} (/sys/dev/block)"
    for attribute in ("partition", "hidden"):
        wanted = None if attribute == "partition" else "0"
        if (told := sysfs.text(facts.attributes, attribute, WHAT)) != wanted:
            yield f"is no whole device of its own: {attribute} is {told} (/sys/block)"
    try:
        size = facts.size_bytes
    except ParseError as err:
        yield err.message
        return
    if size is None or size == 0 or size != size_bytes:
        yield (
            f"has {size} B now (/sys/block/*/size), not the declared {size_bytes} B: "
            "correct the inventory, or find out which device this is"
        )


def in_use(facts: Facts, *, node: str) -> Iterator[str]:
    """Yield why the device may not be written to; nothing only where every fact says it is free."""
    claim, lock = facts.single.get("claim"), facts.single.get("lock")
    if claim != "yes":
        yield f"can't be opened exclusively: {claim} (open, O_EXCL): end what uses it"
    elif lock != "yes":
        yield f"is locked by another process: {lock} (flock): is another kvgate at work on it?"
    if (told := sysfs.text(facts.attributes, "ro", WHAT)) != "0":
        yield f"is read-only, or does not tell: ro is {told} (/sys/block/*/ro)"
    for kind, (says, by, step) in _FOUND.items():
        for each in facts.found.get(kind, ()):
            boot = ": it is the machine's own disk" if kind == "mount" and each in _BOOT else ""
            yield f"{says.format(each)}{boot} ({by}); {step.format(node=node)}"
    for kind, by in _MUST_READ.items():
        if kind not in facts.read:
            yield f"{by} could not be read, so that it is not known to be free"
    for tool, nothing in _NOTHING.items():
        name = tool.removesuffix("-exit")
        if facts.single.get(tool) != nothing and name not in facts.found:
            told = facts.single.get(tool)
            yield f"{name} ended with {told}, not with {nothing}, which is nothing found"
