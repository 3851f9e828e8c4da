"""A whole small gate on recorded hosts, hit at every write, fsync and rename of its run.

Each point is a run of the real path (gate session, bench, writer, judge, seals) until the fault,
a crash, and the same command again. Then nothing that was acknowledged is missing, the chain holds,
and the findings are those of an undisturbed run, byte for byte.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
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

from kvgate.engine import entry, finish, gate, judging
from kvgate.engine.gate import GateSession, finished
from kvgate.engine.progress import Progress
from kvgate.engine.workspace import Setup, Workspace, load_setup, recording_input
from kvgate.errors import CommandError, StoreError
from kvgate.model.quantity import Quantity
from kvgate.model.record import Evidence, EvidenceRef, Measurement, Reading
from kvgate.probes import system
from kvgate.store import disk, lock
from kvgate.store import run as run_module
from kvgate.store.findings import findings_bytes, read_findings
from kvgate.store.ledger import BINDING_KINDS, SYNCED_KINDS
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter
from kvgate.store.seal import verify
from kvgate.suite import Bench
from kvgate.suite import bench as bench_module
from kvgate.transport.base import CommandResult
from kvgate.transport.recording import Answered, Recording, to_bytes
from kvgate.witness import Answer

LEAST_POINTS = 5000
CPU_BUDGET_S = 120  # some 35 s where nothing else runs
RESUMED_EVERY = 80
HOSTS = ("ini1", "ini2")
ROUNDS = ("1",)
NOON = datetime.datetime(2026, 5, 12, 12, 0, tzinfo=datetime.UTC)

GATE = """\
gate: G1
title: A small gate
question: Does it hold?
entry: []
criteria:
"""
CRITERION = """\
  - {{id: {id}, text: "{measure}", measure: {measure}, phase: inspection, hosts: serving,
     basis: made for this test, limits: {{rehearsal: {limit}}}}}
"""
CRITERIA = {
    "G1.1": ("cpu.threads", "{at_least: 2}"),
    "G1.2": ("a.latency", "{at_most: 2 ms}"),
    "G1.3": ("a.total", "{at_most: 3 ms}"),
    "G1.4": ("a.refused", "{at_most: 1 ms}"),
}
PLAN = """\
plan: small
title: A small gate
profile: rehearsal
seed: 7
gates: [{gate: G1, suite: suites/g1, give_up_after: 60 s}]
workloads: {}
"""
LSCPU = b"Socket(s): 1\nCPU(s): 8\nModel name: A processor\nOn-line CPU(s) list: 0-7\n"
SURVEY = "G1/survey/host={}/probes=threads"


class Standing(datetime.datetime):
    """A clock that stands, as module `datetime` and as module `time`: equal runs, equal bytes."""

    UTC = datetime.UTC

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Any:
        return NOON.astimezone(tz)

    @staticmethod
    def monotonic() -> float:
        return 1.0


Standing.datetime = Standing  # type: ignore[attr-defined]


def told(host: str, scope: str, text: bytes, *argv: str) -> Answered:
    """Return one recorded answer."""
    result = CommandResult(
        host=host, argv=argv, exit_status=0, stdout=text, stderr=b"", started_at=NOON, elapsed_s=0.5
    )
    return Answered(result=result, scope=scope)


def recorded(host: str) -> bytes:
    """Return what `host` once answered: who it is, its processors, its latency in two rounds."""
    answers = [
        told(host, "G1", f"{host:0<32}".encode().hex()[:32].encode(), "cat", "/etc/machine-id"),
        told(host, "G1", b"S1\n", "cat", "/sys/class/dmi/id/product_serial"),
        told(host, SURVEY.format(host), b"8\n", "nproc"),
    ]
    for number in ROUNDS:
        scope = f"G1/round/host={host}/round={number}"
        answers.append(told(host, scope, b"0." + number.encode() + b"\n", "latency"))
    return to_bytes(Recording(host=host, source="once", answers=tuple(answers)))


def ask_threads(witness: Any) -> Answer:
    asked = witness.ask(["nproc"], timeout_s=5)
    value = Quantity.of(asked.stdout.decode().strip(), "")
    return Answer((Reading(name="cpu.threads", value=value),), (asked.ref,))


THREADS = dataclasses.replace(
    system.PROBES[0], name="threads", measures=("cpu.threads",), ask=ask_threads
)


def test_of_threads(bench: Bench) -> None:
    bench.survey((THREADS,), bench.hosts(), phase="inspection")


def test_of_latency(bench: Bench) -> None:
    for host in bench.hosts():
        for block in bench.blocks("round", host=[host.name], round=ROUNDS):
            with block, bench.child("latency", host=host.name):
                asked = bench.witness(host).ask(["latency"], timeout_s=5)
                value = Quantity.of(asked.stdout.decode().strip(), "ms")
                answer = Answer((Reading(name="a.latency", value=value),), (asked.ref,))
                bench.record(answer, host=host, phase="inspection", round=block["round"])
                bench.run.telemetry({"host": host.name, "round": block["round"]})
        total = sum(m.value.number for m in bench.measurements("a.latency") if m.host == host.name)
        reading = Reading(name="a.total", value=Quantity.of(total, "ms"))
        bench.compute(reading, inputs="sum of a.latency", phase="inspection", host=host.name)


def test_of_what_was_not_recorded(bench: Bench) -> None:
    for host in bench.hosts():
        for block in bench.blocks("refused", host=[host.name]):
            with block:
                bench.witness(host).ask(["latency", "--more"], timeout_s=5)


TESTS = {
    test_of_threads: ("G1.1",),
    test_of_latency: ("G1.2", "G1.3"),
    test_of_what_was_not_recorded: ("G1.4",),
}
for _test in TESTS:
    _test.__test__ = False  # type: ignore[attr-defined]  # of the gate, not of pytest


class Acknowledged:
    """What the writer said is saved; lists only grow, so that their lengths are a moment of it."""

    def __init__(self) -> None:
        self.blocks: list[str] = []
        self.measured: list[Measurement] = []
        self.refs: list[EvidenceRef] = []
        self.events: list[tuple[int, str]] = []

    def now(self) -> tuple[int, int, int, int]:
        """Return how much was acknowledged until now."""
        return len(self.blocks), len(self.measured), len(self.refs), len(self.events)


class Watched(RunWriter):
    """A RunWriter that notes what it acknowledged; the newest is in `last`, to be let go."""

    acknowledged = Acknowledged()
    last: RunWriter | None = None

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        Watched.last = self
        self._measured: list[Measurement] = []
        self._refs: list[EvidenceRef] = []

    def evidence(self, piece: Evidence) -> EvidenceRef:
        ref = super().evidence(piece)
        self._refs.append(ref)
        return ref

    def measure(self, measurement: Measurement) -> None:
        super().measure(measurement)
        self._measured.append(measurement)

    def end_block(self, key: str) -> None:
        super().end_block(key)
        known = Watched.acknowledged
        known.blocks.append(key)
        known.measured += [m for m in self._measured if m.block == key]
        self._saved()

    def event(self, kind: str, **fields: Any) -> int:
        seq = super().event(kind, **fields)
        if kind in SYNCED_KINDS:
            Watched.acknowledged.events.append((seq, kind))
        if kind in BINDING_KINDS:
            self._saved()
        return seq

    def sync(self) -> None:
        super().sync()
        self._saved()

    def _saved(self) -> None:
        Watched.acknowledged.refs += self._refs
        self._refs = []


@dataclasses.dataclass
class Command:
    """What `kvgate run` does with a run of the small gate, from its beginning or on its way."""

    workspace: Workspace
    setup: Setup

    def __call__(self, run: Path) -> bytes:
        """Run to the end and return the findings without the journal's digest."""
        if self.never_begun(run):
            shutil.rmtree(run, ignore_errors=True)
            self._begin(run)
        if not finish.half_finished(run) and not finished(RunReader(run), "G1"):
            self._gate(run)
        finish.finish_run(run, render=None)
        return comparable(run)

    def never_begun(self, run: Path) -> bool:
        """Tell whether there is nothing to go on with; opens (and so mends) what there is."""
        if not (run / "manifest.json").exists():
            return True
        try:
            if not RunReader(run).sealed():
                Watched.open(run).close()
        except StoreError as err:
            if "creation was interrupted" not in err.message:
                raise
            return True
        return False

    def _begin(self, run: Path) -> None:
        inputs = {key: file.content for key, file in self.setup.files()}
        inputs |= {recording_input(host): data for host, data in self.setup.recordings.items()}
        manifest = {"run": "small", "gates": ["G1"], "recorded": True}
        with Watched.create(run, manifest, inputs) as writer:
            writer.event("run_begin", command=["kvgate", "run"])

    def _gate(self, run: Path) -> None:
        session = GateSession(self.workspace, run, "G1", Progress(None))
        bench = Bench("G1", session.setup, session.run, session.progress)
        session.begin(bench.witness)
        for test, criteria in TESTS.items():
            outcome, reasons = "ran", ()
            try:
                test(bench)
            except CommandError as err:
                outcome, reasons = "error", (err.message,)
            for criterion in criteria:
                session.attempt(criterion, outcome, reasons, test.__name__)
        bench.close()
        session.finish("done")


def comparable(run: Path) -> bytes:
    """Return a run's findings but for the journal's digest, which is of its times."""
    return findings_bytes(dataclasses.replace(read_findings(run), journal_digest=""))


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    for folder in ("gates/plans", "suites/g1", "inventory/hosts", "runs"):
        (tmp_path / folder).mkdir(parents=True)
    text = "".join(CRITERION.format(id=i, measure=m, limit=e) for i, (m, e) in CRITERIA.items())
    (tmp_path / "gates/g1-small.yaml").write_text(GATE + text)
    (tmp_path / "gates/plans/small.yaml").write_text(PLAN)
    hosts = "".join(
        f"  {host}: {{roles: [serving], transport: recorded, recording: hosts}}\n" for host in HOSTS
    )
    (tmp_path / "inventory/site.yaml").write_text(f"inventory: site\nhosts:\n{hosts}")
    for host in HOSTS:
        (tmp_path / f"inventory/hosts/{host}.jsonl").write_bytes(recorded(host))
    workspace = Workspace(tmp_path)
    plan, site = tmp_path / "gates/plans/small.yaml", tmp_path / "inventory/site.yaml"
    setup = load_setup(workspace, plan, site)
    monkeypatch.setattr(entry, "_HOSTS_AT_ONCE", 1)  # the same calls in the same order
    monkeypatch.setattr(bench_module, "_HOSTS_AT_ONCE", 1)
    for module in (run_module, bench_module, lock):
        monkeypatch.setattr(module, "datetime", Standing)
    monkeypatch.setattr(run_module, "time", Standing)
    for module in (gate, judging):  # YAML is read once, not ten thousand times
        monkeypatch.setattr(module, "frozen_setup", lambda *_: setup)
    for module in (gate, finish):
        monkeypatch.setattr(module, "RunWriter", Watched)
    monkeypatch.setattr(run_module, "GROUP_BYTES", 600)  # groups of about two calls
    return Command(workspace, setup)


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


class Points:
    """Checks point after point, and counts what was tried, what survived and what was resumed."""

    def __init__(self, command: Command, model_disk: Any, hasty: Any, folder: Path) -> None:
        self.command, self.model_disk, self.hasty = command, model_disk, hasty
        self.tried = self.survived = self.resumed = 0
        self._found: dict[bytes, Recovered] = {}
        self._ends: set[object] = set()
        Watched.acknowledged = self.known = Acknowledged()
        self.disk = model_disk(self.known.now)
        self.run = folder / "run"
        with disk.through(self.disk):
            self.expected = command(self.run)
        shutil.rmtree(self.run)
        Watched.acknowledged = Acknowledged()  # resumes are none of the run's

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
                Watched.acknowledged, Watched.last = Acknowledged(), None
                failing = self.model_disk(fails_at=number, error=error, stays=stays)
                with disk.through(failing), contextlib.suppress(StoreError):
                    self.command(self.run)
                assert failing.hit, f"call {number} was not made"
                if Watched.last is not None:
                    Watched.last._let_go()
                shutil.rmtree(self.run, ignore_errors=True)
                known, Watched.acknowledged = Watched.acknowledged, Acknowledged()
                for crash in AFTER_ERROR:
                    left = failing.medium.after_crash(self.run, crash.kept, names=crash.names)
                    where = f"{errno.errorcode[error]} at call {number}, then {crash}"
                    self._point(left, known, known.now(), where)

    def _point(
        self, left: dict[str, bytes], known: Acknowledged, until: tuple[int, ...], where: str
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
def points(command: Command, model_disk: Any, hasty: Any) -> Iterator[Points]:
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
