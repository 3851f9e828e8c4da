"""Photos as they are filed with an answer: looked at by their first bytes, metadata taken out.

JPEG by ITU-T T.81 annex B (markers), PNG by W3C PNG 3rd edition, section 5 (chunks).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

from kvgate.errors import UsageError

MOST_BYTES = 64 * 2**20
"""No photo is larger."""

_JPEG, _PNG = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"
_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".heic", ".webp", ".pdf", ".tif", ".tiff", ".mp4"})
_SOS, _EOI, _APP0, _APP2, _APP14 = 0xDA, 0xD9, 0xE0, 0xE2, 0xEE
_APPS, _COMMENT = range(0xE0, 0xF0), 0xFE
_ALONE = frozenset({0x01, *range(0xD0, 0xD8)})  # markers without a length
_PNG_KEPT = frozenset(
    {b"gAMA", b"cHRM", b"sRGB", b"iCCP", b"sBIT", b"pHYs", b"tRNS", b"bKGD"}
    | {b"acTL", b"fcTL", b"fdAT", b"cICP"}
)


def read(path: Path, *, strip: bool) -> tuple[bytes, str]:
    """Return a photo's bytes and the suffix to file it by; `strip`: without its metadata.

    Raises UsageError where it can't be read, is empty or too large, or can't be stripped.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as err:
        raise UsageError(f"{path}: {err.strerror or err}") from err
    if not content:
        raise UsageError(f"{path}: is empty")
    if len(content) > MOST_BYTES:
        raise UsageError(f"{path}: is larger than {MOST_BYTES // 2**20} MiB")
    return (stripped(content, str(path)) if strip else content), _suffix(content, path)


def _suffix(content: bytes, path: Path) -> str:
    if content.startswith(_JPEG):
        return ".jpg"
    if content.startswith(_PNG):
        return ".png"
    return path.suffix.lower() if path.suffix.lower() in _SUFFIXES else ".bin"


def stripped(content: bytes, name: str) -> bytes:
    """Return a JPEG or PNG without anything but the picture: no EXIF, place, preview, comment.

    What follows the picture's end goes too. A JPEG's orientation is metadata: it may lie on its
    side afterwards. Raises UsageError for any other file, or one that is not sound.
    """
    if content.startswith(_JPEG):
        parts = _jpeg(content)
    elif content.startswith(_PNG):
        parts = _png(content)
    else:
        raise UsageError(
            f"{name}: metadata can be taken out of JPEG and PNG only",
            hint="save it as JPEG, or file it as it is without --strip-metadata",
        )
    try:
        return b"".join(parts)
    except (IndexError, ValueError) as err:
        raise UsageError(f"{name}: is no sound picture: {err}; nothing was filed") from err


def _jpeg(content: bytes) -> Iterator[bytes]:
    """Yield the parts of a JPEG that are the picture; raises ValueError where it is not sound."""
    yield content[:2]
    at = 2
    while True:
        begin = at
        if content[at] != 0xFF:
            raise ValueError(f"no marker at byte {at}")
        while content[at] == 0xFF:  # fill bytes
            at += 1
        marker = content[at]
        at += 1
        if marker == _EOI:
            yield b"\xff\xd9"
            return
        if marker in _ALONE:
            yield content[begin:at]
            continue
        end = at + int.from_bytes(content[at : at + 2], "big")
        if end < at + 2 or end > len(content):
            raise ValueError(f"the segment at byte {begin} is cut off")
        if marker == _SOS:
            end = _entropy_end(content, end)
        if _is_picture(marker, content[at + 2 : end]):
            yield b"\xff" + bytes([marker]) + content[at:end]
        at = end


def _is_picture(marker: int, body: bytes) -> bool:
    if marker == _APP2:
        return body.startswith(b"ICC_PROFILE\0")
    return marker in (_APP0, _APP14) or not (marker in _APPS or marker == _COMMENT)


def _entropy_end(content: bytes, at: int) -> int:
    """Return where the compressed data that begins at `at` ends: at the next real marker."""
    while True:
        at = content.index(b"\xff", at)  # ValueError: it has no end
        following = content[at + 1]
        if following and following not in _ALONE and following != 0xFF:
            return at
        at += 1 if following == 0xFF else 2


def _png(content: bytes) -> Iterator[bytes]:
    """Yield the parts of a PNG that are the picture; raises ValueError where it is not sound."""
    yield _PNG
    at = len(_PNG)
    while True:
        length, kind = int.from_bytes(content[at : at + 4], "big"), content[at + 4 : at + 8]
        end = at + 12 + length
        if len(kind) < 4 or end > len(content):
            raise ValueError(f"the chunk at byte {at} is cut off")
        if zlib.crc32(content[at + 4 : end - 4]) != int.from_bytes(content[end - 4 : end], "big"):
            raise ValueError(f"the chunk at byte {at} has another checksum")
        if kind[0] & 0x20 == 0 or kind in _PNG_KEPT:  # a critical chunk begins with a capital
            yield content[at:end]
        if kind == b"IEND":
            return
        at = end
