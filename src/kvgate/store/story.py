"""What a journal tells of gates, of forcing, and of those who countersigned its head."""

from __future__ import annotations

import collections
import dataclasses

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
    chain: str  # the chain at the record that the statement names; "" where it names none near
    statement: str
    signature: str


class Story:
    """Fills as the journal is read; nothing in it is checked but by the chain."""

    def __init__(self) -> None:
        self.opened: list[tuple[str, int]] = []  # gate, seq of its first opening
        self.forced: dict[str, str] = {}  # gate → reason
        self.countersigned: list[Countersignature] = []
        self._recent: collections.deque[tuple[int, str]] = collections.deque(maxlen=NEAR)

    def take(self, event: Event, head: str) -> None:
        """Take one record; `head` is the chain after it."""
        fields = event.fields
        if event.kind == "gate_begin" and fields.get("gate") not in dict(self.opened):
            self.opened.append((str(fields.get("gate")), event.seq))
        elif event.kind == "forced":
            self.forced[str(fields.get("gate"))] = str(fields.get("reason"))
        elif event.kind == COUNTERSIGNED:
            statement, signature = str(fields.get("statement")), str(fields.get("signature"))
            chain = dict(self._recent).get(_named(statement), "")
            self.countersigned.append(Countersignature(event.seq, chain, statement, signature))
        self._recent.append((event.seq, head))


def _named(statement: str) -> int:
    """Return the number of the record that a countersignature's statement is under, 0: none."""
    try:
        seq = read_statement(statement.encode("utf-8", "replace")).of.get("seq")
    except DamagedRunError:
        return 0
    return seq if isinstance(seq, int) else 0
