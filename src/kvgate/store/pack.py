r"""The form of a piece of evidence, and of the packs that hold many of them.

A piece is one line of canonical JSON (command, host, exit status, times, notes, lengths), then
stdout, then stderr; its SHA-256 is its name. In a pack it stands behind a frame line::

    kvgate-evidence/1 <sha256, 64 hex digits> <bytes of the piece, 15 digits>\n

and is followed by a newline. So a pack needs no index, and ``tail -c +OFFSET | head -c BYTES |
sha256sum`` is enough to check a piece without kvgate.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from kvgate.errors import DamagedRunError, StoreError
from kvgate.model.record import Evidence, EvidenceRef
from kvgate.store.canonical import parse, sha256, utc_text, utc_time
from kvgate.store.layout import open_regular

MAGIC = b"kvgate-evidence/1 "
FRAME_BYTES = len(MAGIC) + 64 + 1 + 15 + 1
PACK_LIMIT_BYTES = 256 * 2**20
"""A pack that would grow beyond it is closed and the next one begun."""

_FRAME = re.compile(re.escape(MAGIC) + rb"([0-9a-f]{64}) (\d{15})\n")
_NAME = re.compile(r"pack-(\d{6})\.kvp", re.ASCII)
_CHUNK = 1 << 20
_quote = json.encoder.encode_basestring_ascii


class Place(NamedTuple):
    """Where a piece lies: the pack's number, the offset of its first byte, its length."""

    pack: int
    offset: int
    bytes: int


def pack_name(number: int) -> str:
    """Return the file name of a pack (numbers from 1)."""
    return f"pack-{number:06d}.kvp"


def pack_number(name: str) -> int | None:
    """Return the number of the pack called `name`, None if no pack is called so."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def packs(folder: Path) -> list[int]:
    """Return the numbers of the packs in `folder`, in order; DamagedRunError if it is gone."""
    try:
        found = [pack_number(entry.name) for entry in folder.iterdir()]
    except OSError as err:
        raise DamagedRunError(f"{folder}: can't be listed: {err.strerror or err}") from err
    return sorted(number for number in found if number is not None)


def header(piece: Evidence) -> bytes:
    """Return the first line of `piece` as it is stored and digested: canonical JSON.

    Spelled out, as this is the hot path; a test holds it against `canonical.compact`.
    """
    try:
        command, notes = ",".join(map(_quote, piece.command)), ",".join(map(_quote, piece.notes))
        status = "null" if piece.exit_status is None else f"{piece.exit_status:d}"
        return (
            f'{{"command":[{command}],"ended_at":"{utc_text(piece.ended_at)}",'
            f'"exit_status":{status},"host":{_quote(piece.host)},"notes":[{notes}],'
            f'"started_at":"{utc_text(piece.started_at)}",'
            f'"stderr_bytes":{len(piece.stderr)},"stdout_bytes":{len(piece.stdout)}}}\n'
        ).encode("ascii")
    except (TypeError, ValueError) as err:
        raise StoreError(f"a piece of evidence can't be stored: {err}") from err


def frame(ref: EvidenceRef, length: int) -> bytes:
    """Return the frame line of a piece."""
    return b"%s%s %015d\n" % (MAGIC, ref.encode("ascii"), length)


def read_frame(data: bytes) -> tuple[str, int] | None:
    """Return (sha256, length) of a frame line, None if `data` is none."""
    match = _FRAME.fullmatch(data)
    return (match[1].decode("ascii"), int(match[2])) if match else None


def decode(data: bytes, ref: EvidenceRef) -> Evidence:
    """Return the evidence of a stored piece; raises DamagedRunError unless its SHA-256 is `ref`."""
    if (actual := sha256(data)) != ref:
        raise DamagedRunError(f"evidence {ref} was altered: its SHA-256 is {actual}")
    first, _, rest = data.partition(b"\n")
    try:
        return _evidence(parse(first), rest)
    except (ValueError, KeyError, TypeError) as err:
        raise DamagedRunError(f"evidence {ref} can't be read: {err!r}") from err


def _evidence(fields: dict[str, Any], rest: bytes) -> Evidence:
    cut: int = fields["stdout_bytes"]
    if cut + fields["stderr_bytes"] != len(rest) or cut < 0:
        raise ValueError("its lengths don't add up")
    started: datetime.datetime = utc_time(fields["started_at"])
    return Evidence(
        host=fields["host"],
        command=tuple(fields["command"]),
        exit_status=fields["exit_status"],
        stdout=rest[:cut],
        stderr=rest[cut:],
        started_at=started,
        ended_at=utc_time(fields["ended_at"]),
        notes=tuple(fields["notes"]),
    )


class Piece(NamedTuple):
    """A whole piece found in a pack; `actual` is the SHA-256 of its bytes where it was taken."""

    ref: EvidenceRef
    offset: int
    bytes: int
    actual: str

    @property
    def end(self) -> int:
        """Return the offset behind the piece and its newline, where the next frame begins."""
        return self.offset + self.bytes + 1


class Scan:
    """Reads a pack's frames from `start`; with `hashing` also every piece.

    Stops at the first thing that is no whole piece (`end` is where, `torn` how many bytes follow),
    or once `end` has reached `upto`.
    """

    def __init__(
        self, path: Path, start: int = 0, *, upto: int | None = None, hashing: bool = False
    ) -> None:
        self.path, self.end, self.torn = path, start, 0
        self._upto, self._hashing = upto, hashing

    def __iter__(self) -> Iterator[Piece]:
        """Yield the whole pieces in order."""
        with open_regular(self.path) as file:
            size = file.seek(0, 2)
            file.seek(self.end)
            while self.end < (size if self._upto is None else self._upto):
                piece = self._piece(file, size)
                if piece is None:
                    self.torn = size - self.end
                    return
                self.end = piece.end
                yield piece

    def _piece(self, file: IO[bytes], size: int) -> Piece | None:
        read = read_frame(file.read(FRAME_BYTES))
        if read is None or self.end + FRAME_BYTES + read[1] + 1 > size:
            return None
        ref, length = read
        if self._hashing:
            actual = hash_span(file, length)
        else:
            actual = ""
            file.seek(length, 1)
        if file.read(1) != b"\n":
            return None
        return Piece(ref, self.end + FRAME_BYTES, length, actual)


def hash_span(file: IO[bytes], length: int) -> str:
    """Return the SHA-256 of the next `length` bytes of `file`."""
    if length <= _CHUNK:
        return hashlib.sha256(file.read(length)).hexdigest()
    digest = hashlib.sha256()
    while length:
        chunk = file.read(min(length, _CHUNK))
        if not chunk:
            break
        digest.update(chunk)
        length -= len(chunk)
    return digest.hexdigest()
