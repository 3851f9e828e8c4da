"""One block of the log: the samples of a group of series over half a minute, and their bins."""

from __future__ import annotations

import dataclasses
import json
import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from kvgate.errors import ParseError
from kvgate.store.canonical import compact
from kvgate.telemetry.pyramid import LEVELS_S, Bins, Floats, Ints, sized

NAMES, BLOCK, EVENT = b"S", b"B", b"E"
"""The kinds of the log's records: names of a group's series, a block of samples, an event."""

BASE_MS = 1000 * LEVELS_S[0]
_MOST_VALUES = 32 * 2**20
_LENGTH = struct.Struct(">I")


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """A group of series of one host as it was from some time on: names, specs, and how often.

    ``every_ms`` is 0 where samples come when they come.
    """

    host: str
    name: str
    number: int
    every_ms: int
    series: tuple[tuple[str, str], ...]

    @property
    def counters(self) -> npt.NDArray[np.bool_]:
        """Return which of the series are counters."""
        return np.array([spec[0] == "c" for _, spec in self.series], dtype=np.bool_)

    def payload(self) -> bytes:
        """Return the record that tells it."""
        return compact(dataclasses.asdict(self))

    @classmethod
    def of(cls, payload: bytes) -> Group:
        """Read a record that `payload` wrote; raises ParseError."""
        try:
            told = json.loads(payload)
            series = tuple((str(name), str(spec)) for name, spec in told["series"])
            every = int(told["every_ms"])
            return cls(str(told["host"]), str(told["name"]), int(told["number"]), every, series)
        except (ValueError, KeyError, TypeError) as err:
            raise ParseError(f"telemetry: a record of names can't be read: {err!r}") from err


@dataclasses.dataclass(frozen=True, slots=True)
class Block:
    """Samples of one group: times in ms since 1970 UTC, what each took in ms, values.

    ``values`` is series × time: levels as they were, counters as what they moved by.
    """

    t: Ints
    span: Ints
    values: Ints


@dataclasses.dataclass(frozen=True, slots=True)
class Head:
    """What stands at the front of a block's record."""

    host: str
    group: str
    number: int
    samples: int
    series: int
    bins: int
    raw_bytes: int
    first_ms: int
    last_ms: int


def encode(group: Group, block: Block) -> bytes:
    """Return the record of `block`: its head, its samples, its bins of ten seconds."""
    counters = group.counters
    raw = _pack(block.t, block.span, _folded(block.values, counters))
    seen = sized(block.values, block.span, group.every_ms, counters)
    bins = Bins.of(BASE_MS, block.t, block.values, seen)
    head = Head(
        group.host,
        group.name,
        group.number,
        len(block.t),
        len(group.series),
        len(bins.t),
        len(raw),
        int(block.t[0]),
        int(block.t[-1]),
    )
    packed = _pack(bins.t, bins.low, bins.high, bins.total.view(np.int64), bins.count)
    told = compact(dataclasses.asdict(head))
    return b"".join((_LENGTH.pack(len(told)), told, raw, packed))


def head_of(payload: bytes) -> Head:
    """Return the head of a block's record; raises ParseError."""
    return _head(payload)[0]


def samples_of(payload: bytes, group: Group) -> Block:
    """Return the samples of a block's record; raises ParseError."""
    head, at = _head(payload)
    n, k = head.samples, head.series
    numbers = _unpack(payload[at : at + head.raw_bytes], 2 * n + n * k)
    if k != len(group.series):
        raise ParseError(f"telemetry: a block of {k} series in a group of {len(group.series)}")
    values = _unfolded(numbers[2 * n :].reshape(k, n), group.counters)
    return Block(numbers[:n], numbers[n : 2 * n], values)


def bins_of(payload: bytes) -> Bins:
    """Return the bins of ten seconds of a block's record; raises ParseError."""
    head, at = _head(payload)
    m, k = head.bins, head.series
    numbers = _unpack(payload[at + head.raw_bytes :], m + 4 * m * k)
    low, high, total, count = (
        numbers[m + place * m * k : m + (place + 1) * m * k].reshape(k, m) for place in range(4)
    )
    floats: Floats = np.ascontiguousarray(total).view(np.float64)
    return Bins(BASE_MS, numbers[:m], low, high, floats, count)


def _head(payload: bytes) -> tuple[Head, int]:
    try:
        (length,) = _LENGTH.unpack_from(payload)
        told: dict[str, Any] = json.loads(payload[_LENGTH.size : _LENGTH.size + length])
        head = Head(**told)
        empty = min(head.samples, head.series, head.bins) < 1
    except (ValueError, TypeError, struct.error) as err:
        raise ParseError(f"telemetry: the head of a block can't be read: {err!r}") from err
    if empty:
        raise ParseError("telemetry: a block that holds nothing")
    return head, _LENGTH.size + length


def _folded(values: Ints, counters: npt.NDArray[np.bool_]) -> Ints:
    """Return levels as what they changed by, which is mostly little; overflow comes back."""
    folded = values.copy()
    levels = ~counters
    folded[levels, 1:] = values[levels, 1:] - values[levels, :-1]
    return folded


def _unfolded(folded: Ints, counters: npt.NDArray[np.bool_]) -> Ints:
    values = folded.copy()
    levels = ~counters
    values[levels] = np.cumsum(folded[levels], axis=1)
    return values


def _pack(*arrays: Ints) -> bytes:
    """Return the numbers of `arrays`, bytes of one significance side by side, compressed."""
    flat = np.concatenate([each.ravel() for each in arrays]).astype("<i8")
    return zlib.compress(flat.view(np.uint8).reshape(-1, 8).T.tobytes(), 1)


def _unpack(data: bytes, count: int) -> Ints:
    if not 0 < count <= _MOST_VALUES:
        raise ParseError(f"telemetry: a block of {count} numbers")
    try:
        opened = zlib.decompressobj()
        plain = opened.decompress(data, 8 * count + 1)
    except zlib.error as err:
        raise ParseError(f"telemetry: a block can't be opened: {err}") from err
    if len(plain) != 8 * count:
        raise ParseError(f"telemetry: a block of {len(plain)} bytes, not {8 * count}")
    shuffled = np.frombuffer(plain, np.uint8).reshape(8, count)
    return np.ascontiguousarray(shuffled.T).view("<i8").ravel().astype(np.int64)
