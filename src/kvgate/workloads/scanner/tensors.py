"""Reads the header of a safetensors file: names, types and places of its tensors, or ScanError.

Format: 8 bytes little-endian N, N bytes of JSON, then the data. Offsets count from the data's
start; they must cover it without gap or overlap, in the size that shape and type come to.
"""

from __future__ import annotations

import json
import struct
from typing import Any, NamedTuple

from kvgate.workloads.scanner.errors import ScanError

MOST_HEADER = 100_000_000
"""Bytes of a header at most, as in the reference implementation."""

_BITS = {
    **{"F64": 64, "I64": 64, "U64": 64, "C64": 64, "F32": 32, "I32": 32, "U32": 32, "F16": 16},
    **{"BF16": 16, "I16": 16, "U16": 16, "I8": 8, "U8": 8, "BOOL": 8, "F8_E4M3": 8, "F8_E5M2": 8},
    **{"F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4},
}


class Tensor(NamedTuple):
    """A tensor: its name, type and shape, and where its bytes lie in the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


def header_length(first: bytes, file_bytes: int) -> int:
    """Return the length of the JSON; raises ScanError where it can't be a header."""
    if len(first) < 8:
        raise ScanError(f"{file_bytes} bytes are too few for a safetensors header")
    length = int(struct.unpack("<Q", first[:8])[0])
    if not 2 <= length <= min(MOST_HEADER, file_bytes - 8):
        raise ScanError(f"its header says {length} bytes; the file has {file_bytes}")
    return length


def read_header(text: bytes, file_bytes: int) -> list[Tensor]:
    """Return the tensors of a header's JSON `text`, by place; raises ScanError where it lies."""
    start = 8 + len(text)
    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=_once)
    except (ValueError, RecursionError) as err:
        raise ScanError(f"its header is no JSON: {str(err)[:80]}") from err
    if not isinstance(header, dict):
        raise ScanError("its header is no JSON object")
    found = [_tensor(name, told, start) for name, told in header.items() if name != "__metadata__"]
    found.sort(key=lambda each: (each.start, each.end))
    at = start
    for each in found:
        if each.start != at:
            lie = "overlaps the one before" if each.start < at else "leaves a gap before it"
            raise ScanError(f"tensor '{each.name[:80]}' {lie}")
        at = each.end
    if at != file_bytes:
        raise ScanError(f"its tensors end at byte {at}, the file at {file_bytes}")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names: set[str] = set()
    for name, _ in pairs:
        if name in names:
            raise ValueError(f"'{name[:60]}' stands there twice")
        names.add(name)
    return dict(pairs)


def _tensor(name: str, told: Any, start: int) -> Tensor:
    def lies(what: str) -> ScanError:
        return ScanError(f"tensor '{name[:80]}': {what}")

    if not isinstance(told, dict):
        raise lies("is no JSON object")
    dtype: Any = told.get("dtype")
    shape: Any = told.get("shape")
    offsets: Any = told.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in _BITS:
        raise lies(f"unknown type {str(dtype)[:20]!r}")
    if not _counts(shape) or not _counts(offsets) or len(offsets) != 2:
        raise lies("shape or data_offsets are no lists of whole numbers")
    bits = _BITS[dtype]
    for size in shape:
        bits *= size
        if bits > 1 << 67:
            raise lies("its shape is larger than any file")
    if offsets[1] < offsets[0] or (offsets[1] - offsets[0]) * 8 != bits:
        raise lies(f"offsets {offsets[0]} to {offsets[1]} do not hold {bits // 8} bytes")
    return Tensor(name, dtype, tuple(shape), start + offsets[0], start + offsets[1])


def _counts(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, int) and not isinstance(each, bool) and 0 <= each < 1 << 63
        for each in value
    )
