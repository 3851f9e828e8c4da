"""Reading a run, finished or being written: only what counts comes out, checked as it is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kvgate.errors import DamagedRunError, StoreError
from kvgate.model.finding import Attempt
from kvgate.model.record import Evidence, EvidenceRef, Measurement
from kvgate.store import attested, manifest
from kvgate.store.canonical import parse
from kvgate.store.chain import Walk
from kvgate.store.codec import measurement_of
from kvgate.store.evidence import PackReader
from kvgate.store.journal import Journal
from kvgate.store.layout import EVIDENCE, MEASUREMENTS, TELEMETRY, is_sealed
from kvgate.store.ledger import Event

__all__ = ["Event", "RunReader"]

_MILD = ("ran", "not_run")


def _gravity(attempt: Attempt) -> tuple[int, str]:
    """Return the place of an attempt's outcome, the gravest last: what is not known breaks."""
    known = attempt.outcome in _MILD
    return _MILD.index(attempt.outcome) if known else len(_MILD), attempt.test


class RunReader:
    """The run in folder `path`, for reading only: no lock, and a torn last line is no error.

    Every method reads the files anew, so a run being written shows what was added meanwhile.
    Raises StoreError where it is no run of a known format, DamagedRunError (naming the record)
    where something is not as it was written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest: dict[str, Any]
        self.manifest, self._digest = manifest.read(path)
        self._evidence = PackReader(path / EVIDENCE)

    def events(self, *kinds: str) -> Iterator[Event]:
        """Yield the journal's events in order; with `kinds` only those."""
        for event in Journal(self.path, self._digest):
            if not kinds or event.kind in kinds:
                yield event

    def measurements(self) -> tuple[Measurement, ...]:
        """Return the committed measurements in order: of finished blocks, and synced ones outside.

        What a discarded or unfinished block measured never comes out.
        """
        ledger = Journal(self.path, self._digest).read()
        point = ledger.stored.measurements
        found = []
        walk = Walk(self.path / MEASUREMENTS, self._digest, upto=point.count)
        for line in walk:
            try:
                record = parse(line.body)
                if ledger.counts(record["begin"]):
                    found.append(measurement_of(record["measurement"]))
            except (ValueError, KeyError, TypeError) as err:
                raise DamagedRunError(f"{walk.path}: record {line.number}: {err!r}") from err
        if (walk.count, walk.head) != (point.count, point.chain):
            raise DamagedRunError(
                f"{walk.path}: has {walk.count} records where the journal binds "
                f"{point.count}, or others than it binds"
            )
        return tuple(found)

    def evidence(self, ref: EvidenceRef) -> Evidence:
        """Return the piece of evidence `ref` (an attestation too), checked against its SHA-256."""
        try:
            return self._evidence[ref]
        except DamagedRunError:
            raise
        except StoreError:
            if not (self.path / attested.FOLDER).is_dir():
                raise
        return attested.evidence(self.path, ref)

    def all_evidence(self) -> Iterator[Evidence]:
        """Yield every piece of evidence in the order it was stored in, cited or not, checked."""
        for ref in self._evidence.refs():
            yield self._evidence[ref]

    def telemetry(self) -> Iterator[dict[str, Any]]:
        """Yield the telemetry samples in order."""
        walk = Walk(self.path / TELEMETRY, self._digest)
        for line in walk:
            try:
                yield parse(line.body)["sample"]
            except (ValueError, KeyError, TypeError) as err:
                raise DamagedRunError(f"{walk.path}: record {line.number}: {err!r}") from err

    def attempts(self) -> tuple[Attempt, ...]:
        """Return how each criterion was attempted, ordered by its id.

        The last attempt of a test counts; of several tests for one criterion the one that ended
        worst does.
        """
        last: dict[tuple[str, str], Attempt] = {}
        for event in self.events("attempt"):
            try:
                last[event.fields["criterion"], event.fields["test"]] = Attempt(
                    criterion=event.fields["criterion"],
                    outcome=event.fields["outcome"],
                    reasons=tuple(event.fields["reasons"]),
                    test=event.fields["test"],
                    hint=event.fields.get("hint", ""),  # runs of before 2026-12 have none
                )
            except (KeyError, TypeError) as err:
                raise DamagedRunError(f"{self.path}: journal record {event.seq}: {err!r}") from err
        worst: dict[str, Attempt] = {}
        for each in sorted(last.values(), key=_gravity):
            worst[each.criterion] = each
        return tuple(worst[criterion] for criterion in sorted(worst))

    def input(self, name: str) -> bytes:
        """Return the frozen input `name`, checked against the manifest."""
        return manifest.read_input(self.path, self.manifest, name)

    def journal_digest(self) -> str:
        """Return the head of the journal's chain: it stands for every record up to now."""
        journal = Journal(self.path, self._digest)
        journal.read()
        return journal.walk.head

    def sealed(self) -> bool:
        """Tell whether the run has been sealed."""
        return is_sealed(self.path)
