"""What a journal tells of gates, of forcing, and of those who countersigned its head."""

from __future__ import annotations

import dataclasses

from kvgate.store.ledger import Event

COUNTERSIGNED = "countersigned"
"""The kind of the journal records that hold a signature over the head before them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Countersignature:
    """One record of that kind: where it stands, the chain before it, and what it holds."""

    seq: int
    before: str
    statement: str
    signature: str


class Story:
    """Fills as the journal is read; nothing in it is checked but by the chain."""

    def __init__(self) -> None:
        self.opened: list[tuple[str, int]] = []  # gate, seq of its first opening
        self.forced: dict[str, str] = {}  # gate → reason
        self.countersigned: list[Countersignature] = []
        self.ended = False
        self._head = ""

    def take(self, event: Event, head: str) -> None:
        """Take one record; `head` is the chain after it."""
        fields = event.fields
        if event.kind == "gate_begin" and fields.get("gate") not in dict(self.opened):
            self.opened.append((str(fields.get("gate")), event.seq))
        elif event.kind == "forced":
            self.forced[str(fields.get("gate"))] = str(fields.get("reason"))
        elif event.kind == COUNTERSIGNED:
            statement, signature = str(fields.get("statement")), str(fields.get("signature"))
            self.countersigned.append(Countersignature(event.seq, self._head, statement, signature))
        elif event.kind == "run_end":
            self.ended = True
        self._head = head
