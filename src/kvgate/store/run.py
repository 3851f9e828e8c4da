"""Writing a run: the only writer of a run folder, which never calls saved what is not.

What waits for what (group commit): evidence is fsync'd before the measurements that cite it, both
before the journal record that commits them. Everything is fsync'd at the latest with the first
call after GROUP_S seconds or GROUP_BYTES; `sync`, `end_block`, `close` and the kinds in
`ledger.BINDING_KINDS` return only once all before them is on the disk and bound by the journal.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from kvgate.errors import StoreError
from kvgate.model.record import Evidence, EvidenceRef, Measurement
from kvgate.store import codec, disk
from kvgate.store import manifest as manifests
from kvgate.store.canonical import JSON, compact, parse, utc_text
from kvgate.store.chain import Walk
from kvgate.store.evidence import digest as evidence_digest
from kvgate.store.journal import Journal
from kvgate.store.layout import EVIDENCE, FORMAT, LOCK, MEASUREMENTS, is_sealed
from kvgate.store.ledger import (
    BINDING_KINDS,
    FRAME,
    STORE_KINDS,
    SYNCED_KINDS,
    Point,
    Stored,
)
from kvgate.store.lock import RunLock
from kvgate.store.recover import Parts, begin, recover

GROUP_S = 0.5
GROUP_BYTES = 8 * 2**20

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def _boot() -> str:
    """Return the boot's id; where there is none, one of this process: `mono` counts within it."""
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except OSError:
        return str(uuid.uuid4())


class _Lines:
    """The measurement lines of an open block: how many, and their digest."""

    def __init__(self) -> None:
        self.count, self.digest = 0, hashlib.sha256()

    def add(self, line: bytes) -> None:
        """Count one line."""
        self.count += 1
        self.digest.update(line)


class RunWriter:
    """The one writer of the run in folder `path`; holds its lock; safe to use from several threads.

    Every method raises StoreError: before it has an effect where its arguments are refused, and
    for good (this and every later call) once a write failed. An interrupt (Ctrl-C) in a call
    leaves the run whole and the writer usable.
    """

    def __init__(self, path: Path, lock: RunLock, parts: Parts) -> None:
        self.path = path
        self._lock = lock
        self._parts = parts
        self._ledger = parts.ledger
        self._blocks = {seq: _Lines() for seq in self._ledger.open.values()}
        self._mutex = threading.RLock()
        self._boot = _boot()
        self._waiting_bytes, self._waiting_since = 0, 0.0
        self._broken: StoreError | None = None
        self._interrupted = False
        self._closed = False

    @classmethod
    def create(
        cls, path: Path, manifest: Mapping[str, object], inputs: Mapping[str, bytes]
    ) -> Self:
        """Make the run folder `path` with its frozen inputs and manifest, and begin its journal.

        `inputs` maps a safe relative name to its bytes. The manifest gets `format` and the SHA-256
        of each input beside those of `manifest`; the journal's first record binds the manifest.
        Raises StoreError where the folder holds anything already.
        """
        _refuse_used(path)
        disk.make_folder(path)
        lock = RunLock(path)
        try:
            _refuse_used(path)  # again, now that nobody else can begin here
            digest = manifests.write(path, manifest, inputs)
            disk.make_folder(path / EVIDENCE)
            run = cls(path, lock, begin(path, digest))
            run._append("manifest", {"format": FORMAT, "sha256": digest})
            run._fsync()
            disk.sync_folder(path)
        except BaseException:
            lock.release()
            raise
        return run

    @classmethod
    def open(cls, path: Path) -> Self:
        """Go on with the run at `path`.

        What a crash tore off is cut and journalled as `note`. Blocks that were begun and not
        ended are discarded whole (journalled `block_discarded`, reason ``torn``). Raises
        RunLockedError naming the holder, DamagedRunError where something acknowledged is not
        there as it was, StoreError for a sealed run or an unknown format.
        """
        manifests.read(path)
        _refuse_sealed(path)
        lock = RunLock(path)
        try:
            _refuse_sealed(path)
            run = cls(path, lock, recover(path))
        except BaseException:
            lock.release()
            raise
        try:
            run._own_up()
        except BaseException:
            run._let_go()
            raise
        return run

    def _own_up(self) -> None:
        """Journal what was cut and which blocks were torn."""
        with self._at_work():
            for text in self._parts.notes:
                self._append("note", {"text": text})
            for key in list(self._ledger.open):
                self.discard_block(key, "torn")
            self._bind_all()

    def event(self, kind: str, **fields: JSON) -> int:
        """Add a record to the journal and return its sequence number."""
        if kind in STORE_KINDS or not kind.replace("_", "").isalnum():
            raise StoreError(f"journal kind {kind!r} is not for callers")
        with self._at_work():
            if kind in BINDING_KINDS:
                self._bind_all()
            seq = self._append(kind, fields)
            if kind in SYNCED_KINDS:
                self._fsync()
            else:
                self._group_commit(200)
            return seq

    def evidence(self, piece: Evidence) -> EvidenceRef:
        """Store `piece` and return its SHA-256; an identical piece is stored once."""
        ref, head = evidence_digest(piece)  # outside the lock: hashing large output takes a while
        with self._at_work():
            self._group_commit(self._parts.evidence.add(piece, ref, head))
            return ref

    def measure(self, measurement: Measurement) -> None:
        """Add a measurement; its block is open and its evidence stored, or it is refused."""
        with self._at_work():
            for ref in measurement.evidence:
                if ref not in self._parts.evidence:
                    raise StoreError(f"{measurement.name}: its evidence {ref} is not in this run")
            begun = self._begun(measurement.block) if measurement.block else None
            lines = self._parts.measurements
            line = lines.append(
                codec.measurement_line(measurement, begun=begun, number=lines.count + 1)
            )
            if begun is not None:
                self._blocks[begun].add(line)
            self._group_commit(len(line))

    def telemetry(self, sample: Mapping[str, JSON]) -> None:
        """Add one telemetry sample."""
        with self._at_work():
            lines = self._parts.telemetry
            line = lines.append(compact({"n": lines.count + 1, "sample": dict(sample)}))
            self._group_commit(len(line))

    def begin_block(self, key: str) -> None:
        """Begin the measurement block `key`; refused while it is open or once it is finished."""
        with self._at_work():
            state = "open" if key in self._ledger.open else "finished"
            if not key or key in self._ledger.open or key in self._ledger.finished:
                raise StoreError(f"block {key!r} can't begin: it is {state if key else 'unnamed'}")
            seq = self._append("block_begin", {"block": key})
            self._blocks[seq] = _Lines()
            self._ledger.open[key] = seq
            self._group_commit(200)

    def end_block(self, key: str) -> None:
        """Commit block `key`: when this returns, it and its evidence are on the disk and count."""
        self.end_blocks((key,))

    def end_blocks(self, keys: Sequence[str]) -> None:
        """Commit the blocks `keys`, all with one wait for the disk."""
        with self._at_work():
            begun = {key: self._begun(key) for key in keys}
            self._fsync(journal=False)
            stored = self._stored()
            for key, number in begun.items():
                lines = self._blocks[number]
                self._append(
                    "block_end",
                    {
                        "begin": number,
                        "block": key,
                        "digest": lines.digest.hexdigest(),
                        "measurements": lines.count,
                        "stored": stored.as_json(),
                    },
                )
                self._ledger.finished[key] = self._ledger.open.pop(key)
                del self._blocks[number]
            self._ledger.stored = stored
            self._fsync()

    def discard_block(self, key: str, reason: str) -> None:
        """Give block `key` up: none of its measurements will ever count. It may be begun again."""
        with self._at_work():
            begun = self._begun(key)
            self._append("block_discarded", {"begin": begun, "block": key, "reason": reason})
            del self._ledger.open[key], self._blocks[begun]
            self._fsync()

    def journal_point(self) -> Point:
        """Return how many records the journal holds, and its chain there."""
        with self._mutex:
            return Point(self._parts.journal.count, self._parts.journal.head)

    def finished_blocks(self) -> frozenset[str]:
        """Return the keys of the blocks whose end is in the journal."""
        with self._mutex:
            return frozenset(self._ledger.finished)

    def sync(self) -> None:
        """Return once everything recorded so far is on the disk and bound by the journal."""
        with self._at_work():
            self._bind_all()

    def close(self) -> None:
        """Discard open blocks, sync, and let go of the lock; a second call does nothing.

        Raises StoreError where a write failed, now or before: the lock is let go all the same.
        """
        with self._mutex:
            if self._closed:
                return
            try:
                for key in list(self._ledger.open) if self._broken is None else ():
                    self.discard_block(key, "open when the run was closed")
                self.sync()
            finally:
                self._let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._broken is not None and error is not None:
            self._let_go()  # the failure is being raised already
        else:
            self.close()

    def _let_go(self) -> None:
        with self._mutex:
            self._closed = True
            self._parts.close()
            self._lock.release()

    @contextlib.contextmanager
    def _at_work(self) -> Iterator[None]:
        """Hold the mutex; refuse where the writer is closed or broken; notice what breaks it."""
        with self._mutex:
            if self._broken is not None:
                raise StoreError(
                    f"{self.path}: an earlier write failed, so nothing more is written to this "
                    f"run: {self._broken.message}",
                    hint=self._broken.hint or "see to the disk, then resume the run",
                ) from self._broken
            if self._closed:
                raise StoreError(f"{self.path}: this writer is closed")
            try:
                if self._interrupted:
                    self._look_again()
                yield
            except disk.WriteFailedError as err:
                self._broken = err
                raise
            except StoreError:
                raise
            except BaseException:
                self._interrupted = True
                raise

    def _look_again(self) -> None:
        """After an interrupt: learn from the files which blocks are open, and their lines."""
        self._parts.journal.flush()
        self._parts.measurements.flush()
        _, digest = manifests.read(self.path)
        self._ledger = Journal(self.path, digest).read()
        self._blocks = {seq: _Lines() for seq in self._ledger.open.values()}
        for line in Walk(self.path / MEASUREMENTS, digest):
            begun = parse(line.body)["begin"]
            if begun in self._blocks:
                self._blocks[begun].add(line.raw)
        self._interrupted = False

    def _append(self, kind: str, fields: Mapping[str, JSON]) -> int:
        """Add a journal record, without fsync; return its seq."""
        if taken := (FRAME | {"chain"}) & fields.keys():
            raise StoreError(f"{kind}: fields {sorted(taken)} are written by the store itself")
        seq = self._parts.journal.count + 1
        self._parts.journal.append(
            compact(
                {
                    **fields,
                    "boot": self._boot,
                    "kind": kind,
                    "mono": round(time.monotonic(), 6),
                    "seq": seq,
                    "utc": utc_text(datetime.datetime.now(datetime.UTC)),
                }
            )
        )
        return seq

    def _begun(self, key: str) -> int:
        begun = self._ledger.open.get(key)
        if begun is None:
            raise StoreError(f"block {key!r} is not open")
        return begun

    def _stored(self) -> Stored:
        measurements, telemetry = self._parts.measurements, self._parts.telemetry
        return Stored(
            Point(measurements.count, measurements.head),
            Point(telemetry.count, telemetry.head),
            self._parts.evidence.extent,
        )

    def _bind_all(self) -> None:
        """Bring everything to the disk, and bind in the journal what it does not bind yet."""
        self._fsync(journal=False)
        stored = self._stored()
        if stored != self._ledger.stored:
            self._append("measurements_synced", {"stored": stored.as_json()})
            self._ledger.stored = stored
        self._fsync()

    def _group_commit(self, added_bytes: int) -> None:
        """Count what was added; fsync once enough of it waits, or for long enough."""
        now = time.monotonic()
        if not self._waiting_bytes:
            self._waiting_since = now
        self._waiting_bytes += added_bytes
        if self._waiting_bytes >= GROUP_BYTES or now - self._waiting_since >= GROUP_S:
            self._fsync()

    def _fsync(self, *, journal: bool = True) -> None:
        self._parts.evidence.sync()
        self._parts.measurements.sync()
        self._parts.telemetry.sync()
        if journal:
            self._parts.journal.sync()
            self._waiting_bytes = 0


def _refuse_used(path: Path) -> None:
    if path.is_dir() and any(entry.name != LOCK for entry in path.iterdir()):
        raise StoreError(
            f"{path}: is not empty; a run begins in a folder of its own",
            hint="`--resume` goes on with a run that is there",
        )


def _refuse_sealed(path: Path) -> None:
    if is_sealed(path):
        raise StoreError(
            f"{path}: is sealed; nothing is added to a sealed run",
            hint="a retest is a new run that names this one as its parent",
        )
