"""The logs of children, made harmless when these end: people `cat` logs and send them on."""

from __future__ import annotations

import os
from pathlib import Path

from kvgate.store import disk
from kvgate.untrusted import mask_bytes, plain

_PIECE = 16 * 2**20


def make_harmless(log: Path, start: int) -> None:
    """Show control characters in what `log` holds from byte `start` on, and mask secrets in it.

    The log is replaced whole, and only where something in it has to change. Raises
    WriteFailedError where the disk does not take it.
    """
    with disk.told(log, "masking it"):
        _make_harmless(log, start)


def _make_harmless(log: Path, start: int) -> None:
    spare = log.with_name(f".{log.name}.{os.getpid()}")
    changed = False
    try:
        with log.open("rb") as source, spare.open("wb") as target:
            target.write(source.read(start))
            while piece := source.read(_PIECE) + source.readline(_PIECE):
                clean = _clean(piece)
                changed = changed or clean != piece
                target.write(clean)
        if changed:
            spare.replace(log)
    finally:
        spare.unlink(missing_ok=True)


def _clean(piece: bytes) -> bytes:
    masked, _ = mask_bytes(piece)
    return plain(masked.decode("utf-8", "replace")).encode("utf-8", "replace")
