"""Reading the journal: every whole record in order, checked against the chain and the manifest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kvgate.errors import DamagedRunError
from kvgate.store.chain import Walk
from kvgate.store.layout import JOURNAL
from kvgate.store.ledger import GENESIS, Event, Ledger, event


class Journal:
    """One pass over a run's journal; `ledger` and `walk` say what it added up to so far.

    Iterating raises DamagedRunError, naming the record, where the chain breaks, a record can't be
    read or the first one does not bind the manifest (its SHA-256 is `manifest`).
    """

    def __init__(self, run: Path, manifest: str) -> None:
        self.walk = Walk(run / JOURNAL, GENESIS)
        self.ledger = Ledger(manifest)
        self._manifest = manifest

    def __iter__(self) -> Iterator[Event]:
        """Yield the events."""
        for line in self.walk:
            read = event(line.body, line.number)
            if read.seq == 1:
                self._check_first(read)
            self.ledger.take(read)
            yield read

    def _check_first(self, first: Event) -> None:
        bound = first.fields.get("sha256")
        if first.kind != "manifest" or bound != self._manifest:
            raise DamagedRunError(
                f"{self.walk.path}: record 1 binds a manifest with SHA-256 {bound}; "
                f"manifest.json has {self._manifest}"
            )

    def read(self) -> Ledger:
        """Read on to the end and return the ledger."""
        for _ in self:
            pass
        return self.ledger
