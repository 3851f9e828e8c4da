"""What a journal tells of gates, of forcing, and of those who countersigned its head."""

from __future__ import annotations

import collections
import dataclasses
import datetime

from kvgate.errors import DamagedRunError
from kvgate.store.ledger import Event
from kvgate.store.statement import read_statement

COUNTERSIGNED = "countersigned"
"""The kind of the journal records that hold a signature over the head before them."""

NEAR = 4096
"""Records that may come between the head that was signed and the record of its signature."""


@dataclasses.dataclass(frozen=True, slots=True)
class Countersignature:
    """One record of that kind: where it stands, and what it holds."""

    seq: int
    utc: datetime.datetime
    chain: str  # the chain at the record that the statement names; "" where it names none near
    statement: str
    signature: str


class Story:
    """Fills as the journal is read; nothing in it is checked but by the chain.

    `wanted` are the records that people signed at: `at` tells the chain behind each, and its time.
    """

    def __init__(self, wanted: frozenset[int] = frozenset()) -> None:
        self.opened: list[tuple[str, int, datetime.datetime]] = []  # gate, first opening
        self.ended: tuple[int, datetime.datetime] | None = None  # the last gate's end
        self.at: dict[int, tuple[str, datetime.datetime]] = {}
        self._wanted = wanted
        self.forced: dict[str, str] = {}  # gate → reason
        self.countersigned: list[Countersignature] = []
        self._recent: collections.deque[tuple[int, str]] = collections.deque(maxlen=NEAR)

    def take(self, event: Event, head: str) -> None:
        """Take one record; `head` is the chain after it."""
        fields = event.fields
        if event.kind == "gate_begin" and self._first(fields.get("gate")):
            self.opened.append((str(fields.get("gate")), event.seq, event.utc))
        elif event.kind == "gate_end":
            self.ended = event.seq, event.utc
        elif event.kind == "forced":
            self.forced[str(fields.get("gate"))] = str(fields.get("reason"))
        elif event.kind == COUNTERSIGNED:
            statement, signature = str(fields.get("statement")), str(fields.get("signature"))
            chain = dict(self._recent).get(named_record(statement), "")
            self.countersigned.append(
                Countersignature(event.seq, event.utc, chain, statement, signature)
            )
        if event.seq in self._wanted:
            self.at[event.seq] = head, event.utc
        self._recent.append((event.seq, head))

    def _first(self, gate: object) -> bool:
        return all(name != str(gate) for name, _, _ in self.opened)


def named_record(statement: str) -> int:
    """Return the number of the record whose chain `statement` is under, 0: it names none."""
    try:
        seq = read_statement(statement.encode("utf-8", "replace")).of.get("seq")
    except DamagedRunError:
        return 0
    return seq if isinstance(seq, int) else 0
