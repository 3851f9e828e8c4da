"""Seal layers as files in the format of sha256sum: ``sha256sum -c`` is enough to check one."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from kvgate.errors import DamagedRunError, StoreError
from kvgate.store.canonical import sha256
from kvgate.store.layout import open_regular, read_bytes, safe_name, sums_name

_CHUNK = 1 << 18
_LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a regular file, read in pieces; raises StoreError."""
    with open_regular(path) as file:
        try:
            digest, room = hashlib.sha256(), memoryview(bytearray(_CHUNK))
            while length := file.readinto(room):
                digest.update(room[:length])
            return digest.hexdigest()
        except OSError as err:
            raise StoreError(f"{path}: can't be read: {err.strerror}") from err


def text(entries: Mapping[str, str]) -> bytes:
    """Return the sums file of `entries` (name → SHA-256), ordered by name."""
    lines = (f"{entries[name]}  {safe_name(name)}\n" for name in sorted(entries))
    return "".join(lines).encode()


def read(data: bytes) -> dict[str, str]:
    """Return name → SHA-256 of a sums file; raises DamagedRunError unless `text` wrote it."""
    entries = {}
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        match = _LINE.fullmatch(line)
        if match is None or match[2] in entries:
            raise DamagedRunError(f"line {number} is not '<SHA-256>  <name>', or names it again")
        try:
            entries[safe_name(match[2])] = match[1]
        except StoreError as err:
            raise DamagedRunError(f"line {number}: {err.message}") from err
    if not entries or text(entries) != data:
        raise DamagedRunError("it is not as kvgate writes it: ordered, whole, one line a file")
    return entries


def layers(run: Path, files: Mapping[str, int]) -> list[tuple[str, str, bytes]]:
    """Return (name, SHA-256, bytes) of each layer's file that is there, from the first on.

    `files` are the run's regular files. Stops at the first that is absent.
    """
    found: list[tuple[str, str, bytes]] = []
    while (name := sums_name(len(found))) in files:
        data = read_bytes(run / name)
        found.append((name, sha256(data), data))
    return found
