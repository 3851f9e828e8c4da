"""One value, one spelling: JSON and UTC times written the same way by every writer.

Text is escaped to ASCII, so that no byte a host answered can reach a terminal from a run's files
and every Python string (lone surrogates too) survives the way there and back.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from kvgate.errors import StoreError

JSON = None | bool | int | float | str | Sequence["JSON"] | Mapping[str, "JSON"]
"""What can be written: finite numbers only, texts as keys."""


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


_TIME_LENGTH = len("2026-05-12T08:00:00.000000Z")
_ZONE = len("+00:00")
_DECODER = json.JSONDecoder(parse_constant=_no_number)
_COMPACT = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
_LAID_OUT = json.JSONEncoder(sort_keys=True, indent=2, allow_nan=False)


def compact(value: object) -> bytes:
    """Return `value` as one line of JSON, keys sorted; raises StoreError if it is none."""
    return _encode(_COMPACT, value)


def laid_out(value: object) -> bytes:
    """Return `value` as JSON for people, keys sorted, two spaces a level, newline at the end."""
    return _encode(_LAID_OUT, value) + b"\n"


def _encode(encoder: json.JSONEncoder, value: object) -> bytes:
    try:
        return encoder.encode(value).encode("ascii")
    except (TypeError, ValueError, RecursionError) as err:
        raise StoreError(f"a value can't be stored as JSON: {err}") from err


def parse(data: bytes) -> Any:
    """Return the value of JSON `data`; raises ValueError for anything else, NaN included."""
    try:
        return _DECODER.decode(data.decode("utf-8"))
    except RecursionError as err:
        raise ValueError("nested too deeply") from err


def utc_text(moment: datetime.datetime) -> str:
    """Return `moment` in RFC 3339, UTC, microseconds: ``2026-05-12T08:00:00.000000Z``."""
    if moment.tzinfo is None:
        raise StoreError(f"{moment}: a time without a zone can't be stored; use UTC")
    if moment.tzinfo is not datetime.UTC:
        moment = moment.astimezone(datetime.UTC)
    return f"{moment.isoformat(timespec='microseconds')[:-_ZONE]}Z"


def utc_time(text: str) -> datetime.datetime:
    """Return the time that `utc_text` wrote; raises ValueError for any other spelling."""
    moment = datetime.datetime.fromisoformat(f"{text[:-1]}+00:00")
    if len(text) != _TIME_LENGTH or text[10] + text[-1] != "TZ":
        raise ValueError(f"'{text}' is not an RFC 3339 time in UTC with microseconds")
    return moment


def sha256(*parts: bytes) -> str:
    """Return the SHA-256 of `parts`, one after the other, as 64 hex digits."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()
