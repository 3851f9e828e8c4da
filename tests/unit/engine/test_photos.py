"""Metadata is taken out of photos: the picture stays, what says where it was taken goes."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.engine import photos
from kvgate.errors import UsageError

GPS = b"Exif\0\0GPS 31.2304 N 121.4737 E"


def segment(marker: int, body: bytes) -> bytes:
    return bytes([0xFF, marker]) + (len(body) + 2).to_bytes(2, "big") + body


SCAN = segment(0xDA, b"\x01\x01\x00\x00\x3f\x00") + b"data\xff\x00more\xff\xd0end\xff\xffx"
KEPT = (
    segment(0xE0, b"JFIF\0"),
    segment(0xE2, b"ICC_PROFILE\0icc"),
    segment(0xEE, b"Adobe"),
    segment(0xDB, b"tables"),
)
DROPPED = (
    segment(0xE1, GPS),
    segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + GPS),
    segment(0xE2, b"MPF\0" + GPS),
    segment(0xED, b"Photoshop " + GPS),
    segment(0xFE, b"a comment " + GPS),
)


def chunk(kind: bytes, body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")


def png(*chunks: bytes) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks) + chunk(b"IEND", b"")


def jpeg(*parts: bytes) -> bytes:
    return b"\xff\xd8" + b"".join(parts) + b"\xff\xd9"


def test_a_jpeg_keeps_its_picture_and_loses_the_rest() -> None:
    scan = SCAN.replace(b"\xff\xffx", b"\xff\x00x")
    more = segment(0xC4, b"huffman") + scan  # progressive: tables and a second scan
    whole = jpeg(*DROPPED, *KEPT, scan, more) + b"ftyp a film behind it " + GPS
    assert photos.stripped(whole, "a.jpg") == jpeg(*KEPT, scan, more)


def test_a_png_keeps_its_picture_and_loses_the_rest() -> None:
    kept = (chunk(b"IHDR", b"x" * 13), chunk(b"gAMA", b"1234"), chunk(b"IDAT", b"pixels"))
    dropped = (chunk(b"eXIf", GPS), chunk(b"tEXt", b"Author\0Li"), chunk(b"iTXt", GPS))
    whole = png(kept[0], *dropped, *kept[1:]) + GPS
    assert photos.stripped(whole, "a.png") == png(*kept)


@pytest.mark.parametrize(
    "content",
    [
        jpeg(*KEPT, SCAN)[:-2],
        jpeg(segment(0xE1, GPS)[:-4]),
        b"\xff\xd8\xff",
        png(chunk(b"IDAT", b"pixels"))[:-3],
        png(chunk(b"IDAT", b"pixels").replace(b"pix", b"PIX")),
        b"%PDF-1.7",
    ],
)
def test_what_can_not_be_stripped_with_certainty_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"photo\.jpg"):
        photos.read(path, strip=True)
    assert photos.read(path, strip=False)[0] == content


def test_photos_are_looked_at_before_they_are_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        photos.read(tmp_path / "gone.jpg", strip=False)
    (tmp_path / "empty.jpg").touch()
    with pytest.raises(UsageError, match="is empty"):
        photos.read(tmp_path / "empty.jpg", strip=False)
    (tmp_path / "odd.sh").write_bytes(b"#!/bin/sh")
    assert photos.read(tmp_path / "odd.sh", strip=False) == (b"#!/bin/sh", ".bin")


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=200), st.sampled_from([b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"]))
def test_any_bytes_are_stripped_or_refused(content: bytes, head: bytes) -> None:
    try:
        found = photos.stripped(head + content, "x")
    except UsageError:
        return
    assert len(found) <= len(head + content)
    assert GPS not in found
