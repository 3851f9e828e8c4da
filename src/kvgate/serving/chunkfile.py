"""The file format of one KV chunk: a page of header, then its payload, plain or compressed.

The header is a line of JSON (model fingerprint, shape, SHA-256 of the payload, how it is
compressed, XXH3 of what is stored), a line with the SHA-256 of that line, and zeros up to 4,096
bytes; so both parts lie aligned for direct reads. Whose chunk it is stands in the link that leads
to it (`serving.pool`), since equal payloads are stored once.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence

import xxhash

from kvgate.errors import ParseError
from kvgate.serving.config import PAGE_BYTES

FORMAT = "kvgate-kv/2"


def chunk_keys(fingerprint: str, tokens: Sequence[int], block: int, salt: str = "") -> list[str]:
    """Return the key of every full block of `tokens`.

    Key i is SHA-256(key i-1 + token ids as little-endian 32-bit integers), key -1 is the model's
    fingerprint, with a `salt` SHA-256(fingerprint + salt): equal keys mean equal tokens from the
    very first one, under the same model and salt.
    """
    keys: list[str] = []
    last = bytes.fromhex(fingerprint)
    if salt:
        last = hashlib.sha256(last + salt.encode("utf-8", "surrogatepass")).digest()
    for start in range(0, len(tokens) - block + 1, block):
        ids = b"".join(token.to_bytes(4, "little") for token in tokens[start : start + block])
        last = hashlib.sha256(last + ids).digest()
        keys.append(last.hex())
    return keys


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """What a header says: SHA-256 of the payload, its codec, and length and XXH3 of what is stored.

    XXH3 (128 bits) finds damage at memory speed; SHA-256, ten times as slow, is only made when
    a chunk is stored, where it is its address.
    """

    sha256: str
    codec: str
    stored: int
    xxh3: str


def facts_of_stored(sha256: str, codec: str, stored: bytes | memoryview) -> Facts:
    """Return the facts of a payload that is stored as `stored`."""
    return Facts(sha256, codec, len(stored), xxhash.xxh3_128_hexdigest(stored))


def header(fingerprint: str, shape: Sequence[int], facts: Facts) -> bytes:
    """Return the header page of a chunk."""
    line = json.dumps(
        {
            "format": FORMAT,
            "model": fingerprint,
            "shape": list(shape),
            "dtype": "<f4",
            **dataclasses.asdict(facts),
        },
        sort_keys=True,
    ).encode()
    page = line + b"\n" + hashlib.sha256(line).hexdigest().encode() + b"\n"
    return page.ljust(PAGE_BYTES, b"\0")


def read_header(page: bytes, *, fingerprint: str, shape: Sequence[int], name: str) -> Facts:
    """Return what the header of chunk file `name` says; raises ParseError where it is not whole.

    Another model's chunk is one too: its bytes would be wrong in every place.
    """
    line, newline, rest = page.partition(b"\n")
    if not newline or rest[:65] != hashlib.sha256(line).hexdigest().encode() + b"\n":
        raise ParseError(f"chunk {name}: the header's checksum does not match")
    try:
        told = json.loads(line)
        found = (told["format"], told["model"], told["shape"], told["dtype"])
        facts = Facts(
            str(told["sha256"]), str(told["codec"]), int(told["stored"]), str(told["xxh3"])
        )
    except (ValueError, KeyError, TypeError) as err:
        raise ParseError(f"chunk {name}: header: {type(err).__name__}: {err}") from err
    if found != (FORMAT, fingerprint, list(shape), "<f4"):
        raise ParseError(f"chunk {name}: holds {found}, another chunk than was asked for")
    return facts


def check(facts: Facts, stored: bytes | memoryview, *, name: str) -> None:
    """Raise ParseError unless `stored` is what the header was written for."""
    if len(stored) != facts.stored or xxhash.xxh3_128_hexdigest(stored) != facts.xxh3:
        raise ParseError(f"chunk {name}: the payload's checksum does not match")
