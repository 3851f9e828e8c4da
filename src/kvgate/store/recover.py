"""Opens a run for going on: checks what was acknowledged, cuts what a crash tore off.

Nothing that was acknowledged (bound by the journal) is ever cut: where it is not as bound,
opening raises DamagedRunError and changes nothing.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from kvgate.errors import DamagedRunError, StoreError
from kvgate.store import manifest
from kvgate.store.chain import Walk
from kvgate.store.chained import ChainedFile
from kvgate.store.evidence import PackWriter
from kvgate.store.journal import Journal
from kvgate.store.layout import EVIDENCE, JOURNAL, MEASUREMENTS, TELEMETRY
from kvgate.store.ledger import GENESIS, Ledger, Point


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """The open files of a run, its ledger, and what had to be cut to open it."""

    journal: ChainedFile
    measurements: ChainedFile
    telemetry: ChainedFile
    evidence: PackWriter
    ledger: Ledger
    notes: tuple[str, ...]

    def close(self) -> None:
        """Close every file."""
        for part in (self.evidence, self.measurements, self.telemetry, self.journal):
            part.close()


def begin(path: Path, digest: str) -> Parts:
    """Make the empty files of a new run whose manifest has SHA-256 `digest`."""
    return Parts(
        ChainedFile(path / JOURNAL, GENESIS, new=True),
        ChainedFile(path / MEASUREMENTS, digest, held_back=True, new=True),
        ChainedFile(path / TELEMETRY, digest, new=True),
        PackWriter(path / EVIDENCE),
        Ledger(digest),
        (),
    )


def recover(path: Path) -> Parts:
    """Open the run at `path` for writing; the caller holds its lock.

    1. Read the manifest and check every frozen input against it.
    2. Walk the journal: its chain, its first record against the manifest, its blocks.
    3. Check that measurements and telemetry reach as far as the journal binds them.
    4. Check that the evidence does; cut what a crash tore off behind that.
    5. Cut the torn ends of journal, measurements and telemetry.
    Raises DamagedRunError in 1 to 4, and has then cut nothing.
    """
    told, digest = manifest.read(path)  # 1
    for name in told["inputs"]:
        manifest.read_input(path, told, name)
    if not (path / JOURNAL).exists() and not (path / MEASUREMENTS).exists():
        raise _never_begun(path)
    journal = Journal(path, digest)  # 2
    ledger = journal.read()
    if not journal.walk.count:
        raise _never_begun(path)
    stored = ledger.stored
    walks = (
        journal.walk,
        bound(path / MEASUREMENTS, digest, stored.measurements),  # 3
        bound(path / TELEMETRY, digest, stored.telemetry, keep_rest=True),
    )
    evidence = PackWriter(path / EVIDENCE)  # 4
    notes = evidence.recover(stored.evidence)
    opened, measurements, telemetry = (_reopen(walk, notes) for walk in walks)  # 5
    return Parts(opened, measurements, telemetry, evidence, ledger, tuple(notes))


def _never_begun(path: Path) -> StoreError:
    return StoreError(
        f"{path}: its creation was interrupted: no record was ever written",
        hint="it holds nothing: remove the folder and start again",
    )


def bound(path: Path, genesis: str, point: Point, *, keep_rest: bool = False) -> Walk:
    """Return a walk over `path` to `point`, and with `keep_rest` over what is whole behind it.

    Raises DamagedRunError unless the file has `point.count` lines with chain `point.chain` there.
    """
    walk = Walk(path, genesis, upto=None if keep_rest else point.count)
    there = genesis
    try:
        for line in walk:
            if line.number == point.count:
                there = line.head
    except DamagedRunError:
        if walk.count < point.count:
            raise
    if walk.count < point.count:
        raise DamagedRunError(
            f"{path}: ends after record {walk.count}; the journal binds {point.count}"
        )
    if there != point.chain:
        raise DamagedRunError(
            f"{path}: record {point.count} has chain {there}; the journal binds {point.chain}"
        )
    return walk


def _reopen(at: Walk, notes: list[str]) -> ChainedFile:
    file = ChainedFile(
        at.path, at.head, count=at.count, size=at.end, held_back=at.path.name == MEASUREMENTS
    )
    if excess := at.path.stat().st_size - at.end:
        file.cut(at.end)
        notes.append(
            f"{at.path.name}: {excess} bytes cut behind record {at.count}, never acknowledged"
        )
    return file
