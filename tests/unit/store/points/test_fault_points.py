"""A whole small gate on recorded hosts, hit at every write, fsync and rename of its run.

Each point is a run of the real path (gate session, bench, writer, judge, seals) until the fault,
a crash, and the same command again. Then nothing that was acknowledged is missing, the chain holds,
and the findings are those of an undisturbed run, byte for byte.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvgate.errors import StoreError
from kvgate.model.record import EvidenceRef, Measurement
from kvgate.store import disk
from kvgate.store.reader import RunReader
from kvgate.store.seal import verify

LEAST_POINTS = 5000
CPU_BUDGET_S = 120  # some 35 s where nothing else runs
RESUMED_EVERY = 80


@dataclasses.dataclass(frozen=True)
class Crash:
    """What a crash leaves of what was not fsync'd."""

    kept: float
    nuls: int = 0
    names: bool = True


SIGKILL = Crash(1.0)
CRASHES = [
    *(Crash(kept, names=names) for kept in (0.0, 0.2, 0.4, 0.6, 0.8) for names in (True, False)),
    *(Crash(kept, nuls=nuls) for kept in (0.1, 0.3, 0.5, 0.7, 0.9) for nuls in (1, 700)),
    Crash(1.0, names=False),
    SIGKILL,
]
ERRORS = [(errno.ENOSPC, True), (errno.EIO, False)]  # a disk that stays full; one bad moment
AFTER_ERROR = [SIGKILL, Crash(0.0, names=False)]


@dataclasses.dataclass(frozen=True)
class Recovered:
    """What the writer found when it opened a run again, and what it then stands for."""

    blocks: frozenset[str]
    measured: tuple[Measurement, ...]
    refs: frozenset[EvidenceRef]
    events: frozenset[tuple[int, str]]
    key: object


NOTHING = Recovered(frozenset(), (), frozenset(), frozenset(), "nothing")

MOST_CALLS_OFF = 3
"""By how many calls the same gate may differ from one run to the next."""


class Points:
    """Checks point after point, and counts what was tried, what survived and what was resumed."""

    def __init__(self, command: Any, model_disk: Any, hasty: Any, folder: Path) -> None:
        self.command, self.model_disk, self.hasty = command, model_disk, hasty
        self.tried = self.survived = self.resumed = 0
        self._found: dict[bytes, Recovered] = {}
        self._ends: set[object] = set()
        self.known = command.anew()
        self.disk = model_disk(self.known.now)
        self.run = folder / "run"
        with disk.through(self.disk):
            self.expected = command(self.run)
        shutil.rmtree(self.run)
        command.anew()  # resumes are none of the run's

    def kills(self) -> None:
        """Crash in the middle of every call, in every way."""
        for number, (medium, known) in enumerate(self.disk.moments, start=1):
            for crash in CRASHES:
                left = medium.after_crash(self.run, crash.kept, nuls=crash.nuls, names=crash.names)
                self._point(left, self.known, known, f"{crash} at call {number}")

    def errors(self) -> None:
        """Answer every call with an error, and then crash or just go on."""
        for number in range(1, self.disk.calls + 1):
            for error, stays in ERRORS:
                known = self.command.anew()
                failing = self.model_disk(fails_at=number, error=error, stays=stays)
                with disk.through(failing), contextlib.suppress(StoreError):
                    self.command(self.run)
                self.command.let_go()
                if not failing.hit:  # lines differ in length by their times, and so may the calls
                    assert number > self.disk.calls - MOST_CALLS_OFF, f"call {number} was not made"
                    shutil.rmtree(self.run, ignore_errors=True)
                    continue
                shutil.rmtree(self.run, ignore_errors=True)
                self.command.anew()
                for crash in AFTER_ERROR:
                    left = failing.medium.after_crash(self.run, crash.kept, names=crash.names)
                    where = f"{errno.errorcode[error]} at call {number}, then {crash}"
                    self._point(left, known, known.now(), where)

    def _point(
        self, left: dict[str, bytes], known: Any, until: tuple[int, ...], where: str
    ) -> None:
        """Compare what is found in `left` with what had been acknowledged; resume it if it is new.

        Two media of which the writer finds the same are resumed once, and every so often again.
        """
        self.tried += 1
        digest = hashlib.sha256(repr(sorted(left.items())).encode()).digest()
        again = self.tried % RESUMED_EVERY == 0
        if digest not in self._found or again:
            with disk.through(self.hasty):
                self._write(left)
                found = self._found[digest] = self._recovered()
                if again or found.key not in self._ends:
                    self._resume(where)
                    self._ends.add(found.key)
            shutil.rmtree(self.run, ignore_errors=True)
        found = self._found[digest]
        blocks, measured, refs, events = until
        assert found.blocks.issuperset(known.blocks[:blocks]), where
        assert found.refs.issuperset(known.refs[:refs]), where
        assert found.events.issuperset(known.events[:events]), where
        assert all(each in found.measured for each in known.measured[:measured]), where
        self.survived += 1

    def _write(self, left: dict[str, bytes]) -> None:
        for name, data in left.items():
            folder = self.run / name if name.endswith("/") else (self.run / name).parent
            folder.mkdir(parents=True, exist_ok=True)
            if not name.endswith("/"):
                (self.run / name).write_bytes(data)

    def _recovered(self) -> Recovered:
        """Open the run as a resume does, and return what is in it."""
        if self.command.never_begun(self.run):
            return NOTHING
        reader = RunReader(self.run)
        events = tuple(reader.events())
        ledger_kinds = ("note", "measurements_synced", "block_discarded")
        said = tuple((e.kind, repr(e.fields)) for e in events if e.kind not in ledger_kinds)
        done = {e.fields["block"] for e in events if e.kind == "block_end"}
        others = [
            (path.name, path.read_bytes())
            for path in sorted(self.run.iterdir())
            if path.is_file() and path.suffix != ".jsonl" and path.name != "lock"
        ]
        measured, refs = reader.measurements(), frozenset(reader._evidence.refs())
        key = (said, repr(measured), refs, reader.sealed(), others)
        numbered = frozenset((e.seq, e.kind) for e in events)
        return Recovered(frozenset(done), measured, refs, numbered, hash(repr(key)))

    def _resume(self, where: str) -> None:
        self.resumed += 1
        assert self.command(self.run) == self.expected, where
        assert verify(self.run).ok, where


@pytest.fixture
def points(
    command: Any, model_disk: Any, hasty: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Points]:
    # Which calls there are must not hang on how fast the machine is.
    monkeypatch.setattr("kvgate.store.run.GROUP_S", 1e9)
    shm = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="kvgate-points-", dir=shm if shm.is_dir() else None))
    yield Points(command, model_disk, hasty, folder)
    shutil.rmtree(folder)


@pytest.mark.timeout(900)
def test_a_gate_hit_at_every_write_fsync_and_rename(
    points: Points, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = time.process_time()
    assert points.expected.count(b'"verdict": "pass"') > 3
    points.kills()
    killed = points.tried
    points.errors()
    took = time.process_time() - begun
    with capsys.disabled():
        sys.stdout.write(
            f"\nfault points survived / tried: {points.survived} / {points.tried} "
            f"({killed} crashes and {points.tried - killed} errors at {points.disk.calls} calls; "
            f"{points.resumed} resumed to their findings; {took:.0f} s of CPU)\n"
        )
    assert points.survived == points.tried >= LEAST_POINTS
    assert took < CPU_BUDGET_S
