"""The form of an exported run: a POSIX ustar of plain files only, the same bytes each time.

Written and read by hand: links, devices, holes and extension headers are not only unwanted here,
nothing in the reader knows what they would do.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from kvgate.errors import DamagedRunError, StoreError
from kvgate.store.layout import open_regular, safe_name, shown

BLOCK = 512
LONGEST_FILE_BYTES = 8**11 - 1
"""The largest size a ustar header can say: 8 GiB less a byte."""

_CHUNK = 1 << 20
_END_BLOCKS = 2
_KINDS = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a device",
    b"4": "a device",
    b"5": "a folder",
    b"6": "a pipe",
}


class Member(NamedTuple):
    """One file of an archive: its safe relative name and its length."""

    name: str
    bytes: int


def header(name: str, length: int, mtime: int) -> bytes:
    """Return the header of a file; raises StoreError where a ustar can't hold its name or size."""
    prefix, leaf = _split(safe_name(name))
    if length > LONGEST_FILE_BYTES:
        raise StoreError(f"{shown(name)}: has {length} bytes; an archive's file has at most 8 GiB")
    fields = (
        leaf.ljust(100, b"\0"),
        b"0000644\0" + b"0000000\0" * 2,  # mode, owner, group
        b"%011o\0%011o\0" % (length, mtime),
        b" " * 8,  # the checksum is taken over blanks
        b"0".ljust(101, b"\0"),  # a plain file; no link
        b"ustar\x0000",
        b"\0" * 64,  # no names of owner and group
        b"0000000\0" * 2,
        prefix.ljust(155, b"\0"),
    )
    block = b"".join(fields).ljust(BLOCK, b"\0")
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def _split(name: str) -> tuple[bytes, bytes]:
    """Return (prefix, name) as the two fields of a header hold them."""
    whole = name.encode("utf-8")
    if len(whole) <= 100:
        return b"", whole
    cut = whole.rfind(b"/", 0, 156)
    if cut < 0 or len(whole) - cut - 1 > 100:
        raise StoreError(f"{shown(name)}: is too long a name for an archive")
    return whole[:cut], whole[cut + 1 :]


def write(out: BinaryIO, files: Iterator[tuple[str, Path]], mtime: int) -> None:
    """Write an archive of `files` (name, where it lies) to `out`; raises StoreError."""
    for name, path in files:
        with open_regular(path) as file:
            length = file.seek(0, 2)
            file.seek(0)
            out.write(header(name, length, mtime))
            left = length
            while left:
                chunk = file.read(min(left, _CHUNK))
                if not chunk:
                    raise StoreError(f"{path}: was cut while it was read")
                out.write(chunk)
                left -= len(chunk)
            out.write(b"\0" * (-length % BLOCK))
    out.write(b"\0" * BLOCK * _END_BLOCKS)


def members(source: BinaryIO) -> Iterator[Member]:
    """Yield the files of the archive `source`; the caller reads `bytes_of` each before the next.

    Raises DamagedRunError for anything but plain files with safe names, in order, each once, as
    `write` makes them, and for bytes behind the end.
    """
    before = ""
    while True:
        block = _exactly(source, BLOCK)
        if block == bytes(BLOCK):
            break
        member = _member(block)
        if member.name <= before:
            raise DamagedRunError(f"{shown(member.name)} stands behind {shown(before)}, or twice")
        before = member.name
        yield member
    if _exactly(source, BLOCK) != bytes(BLOCK) or source.read(1):
        raise DamagedRunError("there are bytes behind the archive's end")


def bytes_of(source: BinaryIO, member: Member) -> Iterator[bytes]:
    """Yield the content of `member`, which `members` has just yielded, in pieces."""
    left = member.bytes
    while left:
        chunk = _exactly(source, min(left, _CHUNK))
        yield chunk
        left -= len(chunk)
    if any(_exactly(source, -member.bytes % BLOCK)):
        raise DamagedRunError(f"{shown(member.name)}: there are bytes behind its end")


def _member(block: bytes) -> Member:
    try:
        length, mtime = (int(block[at : at + 11], 8) for at in (124, 136))
        leaf, prefix = (block[a:b].rstrip(b"\0").decode("utf-8") for a, b in ((0, 100), (345, 500)))
    except ValueError as err:
        raise DamagedRunError(f"a header of the archive can't be read: {err}") from err
    kind = block[156:157]
    if kind != b"0":
        what = _KINDS.get(kind, f"of kind {ascii(kind)[1:]}")
        raise DamagedRunError(f"{shown(leaf)} is {what}, which no exported run holds")
    try:
        name = safe_name(f"{prefix}/{leaf}" if prefix else leaf)
        same = header(name, length, mtime) == block
    except StoreError as err:
        raise DamagedRunError(err.message) from err
    if not same:
        raise DamagedRunError(f"{shown(name)}: its header is not as kvgate writes it")
    return Member(name, length)


def _exactly(source: BinaryIO, length: int) -> bytes:
    """Return `length` bytes of `source`, which may give fewer at a time."""
    parts = []
    while length:
        part = source.read(length)
        if not part:
            raise DamagedRunError("the archive is cut off")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)
