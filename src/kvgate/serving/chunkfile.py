"""The file format of one KV chunk: a page of header, then the block's bytes.

The header is a line of JSON (model fingerprint, key, shape, SHA-256 of the payload), a line with
the SHA-256 of that line, and zeros up to 4,096 bytes; so both parts lie aligned for direct reads.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from kvgate.errors import ParseError
from kvgate.serving.config import PAGE_BYTES

FORMAT = "kvgate-kv/1"


def chunk_keys(fingerprint: str, tokens: Sequence[int], block: int) -> list[str]:
    """Return the key of every full block of `tokens`.

    Key i is SHA-256(key i-1 + token ids as little-endian 32-bit integers), key -1 is the model's
    fingerprint: equal keys mean equal tokens from the very first one, under the same model.
    """
    keys: list[str] = []
    last = bytes.fromhex(fingerprint)
    for start in range(0, len(tokens) - block + 1, block):
        ids = b"".join(token.to_bytes(4, "little") for token in tokens[start : start + block])
        last = hashlib.sha256(last + ids).digest()
        keys.append(last.hex())
    return keys


def header(fingerprint: str, key: str, shape: Sequence[int], payload: bytes | memoryview) -> bytes:
    """Return the header page of a chunk."""
    line = json.dumps(
        {
            "format": FORMAT,
            "model": fingerprint,
            "key": key,
            "shape": list(shape),
            "dtype": "<f4",
            "sha256": hashlib.sha256(payload).hexdigest(),
        },
        sort_keys=True,
    ).encode()
    page = line + b"\n" + hashlib.sha256(line).hexdigest().encode() + b"\n"
    return page.ljust(PAGE_BYTES, b"\0")


def check(
    page: bytes, payload: bytes | memoryview, *, fingerprint: str, key: str, shape: Sequence[int]
) -> None:
    """Raise ParseError unless `page` and `payload` are whole and the chunk that was asked for."""
    line, newline, rest = page.partition(b"\n")
    if not newline or rest[:65] != hashlib.sha256(line).hexdigest().encode() + b"\n":
        raise ParseError(f"chunk {key}: the header's checksum does not match")
    try:
        facts = json.loads(line)
        found = (facts["format"], facts["model"], facts["key"], facts["shape"], facts["dtype"])
        digest = facts["sha256"]
    except (ValueError, KeyError, TypeError) as err:
        raise ParseError(f"chunk {key}: header: {type(err).__name__}: {err}") from err
    if found != (FORMAT, fingerprint, key, list(shape), "<f4"):
        raise ParseError(f"chunk {key}: holds {found}, another chunk than was asked for")
    if hashlib.sha256(payload).hexdigest() != digest:
        raise ParseError(f"chunk {key}: the payload's checksum does not match")
