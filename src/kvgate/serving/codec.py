"""Compresses the payload of a chunk and undoes it; a payload that would not shrink stays as it is.

Float32 hardly shrinks as it lies: three of its four bytes are noise here. So the bytes are laid out
in four planes first, all first bytes, all second bytes and so on (as Blosc's shuffle does), where
those of sign and exponent do shrink. Each plane is compressed by itself: first the four lengths
(32 bits each, little-endian), then the four.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Callable
from types import ModuleType

import numpy as np
import numpy.typing as npt

from kvgate.errors import ParseError, UsageError
from kvgate.serving.config import PAGE_BYTES

PLAIN = "none"
CODECS = (PLAIN, "zstd", "lz4")
_MODULES = {"zstd": "zstandard", "lz4": "lz4.block"}
_ZSTD_LEVEL = 1
_WIDTH = 4  # bytes of a float32
_LENGTHS = struct.Struct("<4I")


class CodecMissingError(ParseError):
    """A chunk is compressed by something that is not installed here: no damage, but of no use."""


def need(codec: str) -> None:
    """Raise UsageError unless `codec` is known, and what it takes is installed."""
    if codec not in CODECS:
        raise UsageError(f"'{codec}' is no compression", hint=f"one of: {', '.join(CODECS)}")
    if codec != PLAIN:
        try:
            _module(codec)
        except CodecMissingError as err:
            raise UsageError(f"compression {codec}: {err.message}", hint=err.hint) from err


def pack(codec: str, payload: memoryview) -> bytes | None:
    """Return `payload` compressed, or None where that saves no page of the disk."""
    if codec == PLAIN:
        return None
    planes = np.frombuffer(payload, np.uint8).reshape(-1, _WIDTH).T
    squeeze = _squeezer(codec)
    packed = [squeeze(np.ascontiguousarray(plane).data) for plane in planes]
    whole = _LENGTHS.pack(*map(len, packed)) + b"".join(packed)
    return whole if _pages(len(whole)) < _pages(len(payload)) else None


def unpack(codec: str, packed: memoryview, payload: memoryview) -> None:
    """Undo `pack` into `payload`; raises ParseError where `packed` is not what it should be."""
    size = len(payload) // _WIDTH
    into: npt.NDArray[np.uint8] = np.frombuffer(payload, np.uint8).reshape(-1, _WIDTH)
    if len(packed) < _LENGTHS.size or len(packed) != _LENGTHS.size + sum(_lengths(packed)):
        raise ParseError(f"{codec}: the lengths of its planes are not those of {len(packed)} bytes")
    at = _LENGTHS.size
    for number, length in enumerate(_lengths(packed)):
        plane = _released(codec, packed[at : at + length], size)
        if len(plane) != size:
            raise ParseError(f"{codec}: {len(plane)} bytes came out of a plane, not {size}")
        into[:, number] = np.frombuffer(plane, np.uint8)
        at += length


def _lengths(packed: memoryview) -> tuple[int, ...]:
    return _LENGTHS.unpack(packed[: _LENGTHS.size])


def _squeezer(codec: str) -> Callable[[memoryview], bytes]:
    """Return what compresses a plane."""
    module = _module(codec)
    if codec == "zstd":
        compress: Callable[[memoryview], bytes] = module.ZstdCompressor(level=_ZSTD_LEVEL).compress
        return compress
    return lambda plane: bytes(module.compress(plane, store_size=False))


def _released(codec: str, plane: memoryview, size: int) -> bytes:
    """Return a plane of `size` bytes; raises ParseError for bytes that are not the codec's."""
    module = _module(codec)
    try:
        if codec == "zstd":
            return bytes(module.ZstdDecompressor().decompress(plane, max_output_size=size))
        return bytes(module.decompress(plane, uncompressed_size=size))
    except (ValueError, RuntimeError, _error_of(module)) as err:
        raise ParseError(f"{codec}: {err}") from err


def _error_of(module: ModuleType) -> type[Exception]:
    """Return the exception that a compression library raises for bytes that are not its own."""
    found: type[Exception] = getattr(module, "ZstdError", None) or module.LZ4BlockError
    return found


def _pages(size: int) -> int:
    return -(-size // PAGE_BYTES)


def _module(codec: str) -> ModuleType:
    name = _MODULES.get(codec)
    if name is None:
        raise ParseError(f"'{codec}' is no compression of ours")
    try:
        return importlib.import_module(name)
    except ImportError as err:
        raise CodecMissingError(
            f"the package {name.split('.')[0]} is not installed",
            hint="install kvgate[serve], or serve without --compress",
        ) from err
