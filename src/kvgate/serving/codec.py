"""Compresses the payload of a chunk and undoes it; a payload that would not shrink stays as it is.

Float32 hardly shrinks as it lies: three of its four bytes are noise here. So the bytes are laid out
in four planes first, all first bytes, all second bytes and so on (as Blosc's shuffle does), where
those of sign and exponent do shrink.
"""

from __future__ import annotations

import importlib
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
    planes = np.frombuffer(payload, np.uint8).reshape(-1, _WIDTH).T.tobytes()
    if codec == "zstd":
        packed: bytes = _module(codec).ZstdCompressor(level=_ZSTD_LEVEL).compress(planes)
    else:
        packed = _module(codec).compress(planes, store_size=False)
    return packed if _pages(len(packed)) < _pages(len(payload)) else None


def unpack(codec: str, packed: memoryview, payload: memoryview) -> None:
    """Undo `pack` into `payload`; raises ParseError where `packed` is not what it should be."""
    size = len(payload)
    module = _module(codec)
    try:
        if codec == "zstd":
            planes = module.ZstdDecompressor().decompress(packed, max_output_size=size)
        else:
            planes = module.decompress(packed, uncompressed_size=size)
    except (ValueError, RuntimeError, module_error(module)) as err:
        raise ParseError(f"{codec}: {err}") from err
    if len(planes) != size:
        raise ParseError(f"{codec}: {len(planes)} bytes came out, not {size}")
    into: npt.NDArray[np.uint8] = np.frombuffer(payload, np.uint8).reshape(-1, _WIDTH)
    into[:] = np.frombuffer(planes, np.uint8).reshape(_WIDTH, -1).T


def module_error(module: ModuleType) -> type[Exception]:
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
