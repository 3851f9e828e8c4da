"""Requests and results between a scan and its workers: a line of JSON, then the bytes it names."""

from __future__ import annotations

import json
from typing import IO, Any

from kvgate.workloads.scanner.course import Settings
from kvgate.workloads.scanner.index import COLUMNS
from kvgate.workloads.scanner.reading import Piece, Reader
from kvgate.workloads.scanner.unit import Unit


def scan_pieces(pieces: list[Piece], settings: Settings, below: dict[int, int]) -> dict[str, Any]:
    """Scan `pieces` here and now; return what `Unit.packed` gives."""
    return scan_with(Reader(), pieces, settings, below)


def scan_with(
    reader: Reader, pieces: list[Piece], settings: Settings, below: dict[int, int]
) -> dict[str, Any]:
    """Scan `pieces` by `reader`."""
    reader.through_cache = 0
    unit = Unit(settings, below, reader)
    for piece in pieces:
        unit.scan(piece)
    return unit.packed()


def write_result(stream: IO[bytes], packed: dict[str, Any]) -> None:
    """Write what a unit gave."""
    blobs: list[bytes] = []
    levels = {}
    for size, level in packed["levels"].items():
        columns = [level[name] for name in COLUMNS]
        blobs += columns
        levels[size] = {
            **{name: value for name, value in level.items() if name not in COLUMNS},
            "lengths": [len(each) for each in columns],
        }
    stream.write(json.dumps({**packed, "levels": levels}).encode() + b"\n")
    for blob in blobs:
        stream.write(blob)
    stream.flush()


def read_result(stream: IO[bytes]) -> dict[str, Any] | None:
    """Read what a unit gave; None where the stream ends, or ends early."""
    line = stream.readline()
    if not line.endswith(b"\n"):
        return None
    packed: dict[str, Any] = json.loads(line)
    levels = {}
    for size, level in packed["levels"].items():
        for name, length in zip(COLUMNS, level.pop("lengths")):  # noqa: B905  Python 3.8
            level[name] = stream.read(length)
            if len(level[name]) < length:
                return None
        levels[int(size)] = level
    packed["levels"] = levels
    packed["groups"] = {int(group): count for group, count in packed["groups"].items()}
    return packed


def serve(requests: IO[bytes], results: IO[bytes], settings: Settings) -> None:
    """Be a worker: scan what each line asks for, until the lines end."""
    reader = Reader()
    for line in requests:
        asked = json.loads(line)
        below = {int(size): value for size, value in asked["below"].items()}
        pieces = [Piece(*each) for each in asked["pieces"]]
        write_result(results, scan_with(reader, pieces, settings, below))


def request(pieces: list[Piece], below: dict[int, int]) -> bytes:
    """Return the line that asks a worker for `pieces`."""
    return json.dumps({"pieces": pieces, "below": below}).encode() + b"\n"
