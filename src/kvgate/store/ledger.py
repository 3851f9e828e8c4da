"""What the journal says about a run: its events, and which blocks and lines count.

Pure: writer, reader and verify fold the same events with the same rules.
"""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

from kvgate.errors import DamagedRunError
from kvgate.store.canonical import parse, utc_time

GENESIS = "0" * 64
"""The chain before the journal's first record."""

FRAME = frozenset({"seq", "utc", "mono", "boot", "kind"})
"""The fields of every record; `chain` stands behind them in the line."""

STORE_KINDS = frozenset(
    {"manifest", "block_begin", "block_end", "block_discarded", "measurements_synced"}
)
"""The kinds that only the store itself writes."""

BINDING_KINDS = frozenset({"attempt", "gate_end", "gate_judged", "interrupted", "run_end"})
"""Before one of these everything recorded so far is on the disk and bound by the journal."""

SYNCED_KINDS = BINDING_KINDS | {
    "run_begin",
    "resumed",
    "gate_begin",
    "gate_refused",
    "forced",
    "fault_begin",
    "fault_proven",
    "fault_repaired",
}
"""Once one of these was accepted, it is on the disk."""


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """One journal record. `mono` counts seconds since the boot named `boot`."""

    seq: int
    utc: datetime.datetime
    mono: float
    kind: str
    fields: dict[str, Any]
    boot: str = ""


def event(body: bytes, number: int) -> Event:
    """Return the event of a journal record; raises DamagedRunError if it is none."""
    try:
        record = parse(body)
        fields = {key: value for key, value in record.items() if key not in FRAME}
        read = Event(
            record["seq"],
            utc_time(record["utc"]),
            record["mono"],
            record["kind"],
            fields,
            record["boot"],
        )
    except (ValueError, KeyError, TypeError, AttributeError) as err:
        raise DamagedRunError(f"journal record {number} can't be read: {err!r}") from err
    if read.seq != number:
        raise DamagedRunError(f"journal record {number} says it is {read.seq}")
    return read


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """How far a chained file is bound: its number of lines and its chain there."""

    count: int
    chain: str


@dataclasses.dataclass(frozen=True, slots=True)
class Extent:
    """How far the evidence is bound: the last pack, its bytes, and pieces in all packs."""

    pack: int
    bytes: int
    pieces: int


@dataclasses.dataclass(frozen=True, slots=True)
class Stored:
    """What is on the disk when a record with `stored` is written."""

    measurements: Point
    telemetry: Point
    evidence: Extent

    @classmethod
    def nothing(cls, manifest: str) -> Stored:
        """Return the state of a new run; its chains begin at the manifest's SHA-256."""
        return cls(Point(0, manifest), Point(0, manifest), Extent(0, 0, 0))

    def as_json(self) -> dict[str, Any]:
        """Return it as the `stored` field of a journal record."""
        return dataclasses.asdict(self)

    @classmethod
    def of(cls, field: dict[str, Any]) -> Stored:
        """Read a `stored` field; raises KeyError, TypeError or ValueError."""
        return cls(
            _point(field["measurements"]),
            _point(field["telemetry"]),
            Extent(*(_count(field["evidence"][key]) for key in ("pack", "bytes", "pieces"))),
        )


def _point(field: dict[str, Any]) -> Point:
    return Point(_count(field["count"]), field["chain"])


def _count(number: object) -> int:
    if type(number) is not int or number < 0:
        raise ValueError(f"{number!r} is not a count")
    return number


@dataclasses.dataclass(frozen=True, slots=True)
class BlockEnd:
    """What a block's end says of its lines in measurements.jsonl, and where it stands."""

    key: str
    seq: int
    measurements: int
    digest: str


class Ledger:
    """The state a journal adds up to: open and finished blocks, and what is bound.

    `open` and `finished` map a block's key to the seq of its begin, which its measurement lines
    carry: a block done again after a discard has another seq.
    """

    def __init__(self, manifest: str) -> None:
        self.open: dict[str, int] = {}
        self.finished: dict[str, int] = {}
        self.ends: dict[int, BlockEnd] = {}
        self.stored = Stored.nothing(manifest)
        self.bindings: list[tuple[int, Stored]] = []

    def take(self, event: Event) -> None:
        """Add one event; raises DamagedRunError if the journal contradicts itself."""
        if event.kind not in STORE_KINDS:
            return
        try:
            if event.kind == "block_begin":
                self._begin(event)
            elif event.kind == "block_end":
                self._end(event)
            elif event.kind == "block_discarded":
                self._discard(event)
            elif event.kind == "measurements_synced":
                self._bind(event)
        except (KeyError, TypeError, ValueError) as err:
            raise DamagedRunError(
                f"journal record {event.seq} ({event.kind}) contradicts those before it: {err!r}"
            ) from err

    def _begin(self, event: Event) -> None:
        key = event.fields["block"]
        if key in self.open or key in self.finished:
            raise ValueError(f"block {key} begins twice")
        self.open[key] = event.seq

    def _end(self, event: Event) -> None:
        key, begin = event.fields["block"], event.fields["begin"]
        if self.open.pop(key) != begin:
            raise ValueError(f"block {key} did not begin at {begin}")
        self.finished[key] = begin
        self.ends[begin] = BlockEnd(
            key, event.seq, _count(event.fields["measurements"]), event.fields["digest"]
        )
        self._bind(event)

    def _discard(self, event: Event) -> None:
        key, begin = event.fields["block"], event.fields["begin"]
        if self.open.pop(key) != begin:
            raise ValueError(f"block {key} did not begin at {begin}")

    def _bind(self, event: Event) -> None:
        self.stored = Stored.of(event.fields["stored"])
        self.bindings.append((event.seq, self.stored))

    def counts(self, begin: int | None) -> bool:
        """Tell whether a bound measurement line with block begin `begin` counts."""
        return begin is None or begin in self.ends
