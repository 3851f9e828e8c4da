"""A whole small gate on recorded hosts, and the command that runs it, for tests of fault points."""

from __future__ import annotations

import dataclasses
import datetime
import shutil
from pathlib import Path
from typing import Any

import pytest

from kvgate.engine import finish, gate, judging
from kvgate.engine.gate import GateSession, finished
from kvgate.engine.progress import Progress
from kvgate.engine.workspace import Setup, Workspace, load_setup, recording_input
from kvgate.errors import CommandError, StoreError
from kvgate.model.quantity import Quantity
from kvgate.model.record import Evidence, EvidenceRef, Measurement, Reading
from kvgate.probes import system
from kvgate.store import lock
from kvgate.store import run as run_module
from kvgate.store.findings import findings_bytes, read_findings
from kvgate.store.ledger import BINDING_KINDS, SYNCED_KINDS
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter
from kvgate.suite import Bench
from kvgate.suite import bench as bench_module
from kvgate.transport.base import CommandResult
from kvgate.transport.recording import Answered, Recording, to_bytes
from kvgate.witness import Answer

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

    def anew(self) -> Acknowledged:
        """Forget what was acknowledged, and return where it will be noted from now on."""
        Watched.acknowledged, Watched.last = Acknowledged(), None
        return Watched.acknowledged

    def let_go(self) -> None:
        """Take the newest writer's lock and files away, as its death would."""
        if Watched.last is not None:
            Watched.last._let_go()

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
    (tmp_path / "inventory/site.yaml").write_text(
        f"inventory: site\nhosts_at_once: 1\nhosts:\n{hosts}"  # the same calls in the same order
    )
    for host in HOSTS:
        (tmp_path / f"inventory/hosts/{host}.jsonl").write_bytes(recorded(host))
    workspace = Workspace(tmp_path)
    plan, site = tmp_path / "gates/plans/small.yaml", tmp_path / "inventory/site.yaml"
    setup = load_setup(workspace, plan, site)
    for module in (run_module, bench_module, lock):
        monkeypatch.setattr(module, "datetime", Standing)
    monkeypatch.setattr(run_module, "time", Standing)
    for module in (gate, judging):  # YAML is read once, not ten thousand times
        monkeypatch.setattr(module, "frozen_setup", lambda *_: setup)
    for module in (gate, finish):
        monkeypatch.setattr(module, "RunWriter", Watched)
    monkeypatch.setattr(run_module, "GROUP_BYTES", 600)  # groups of about two calls
    return Command(workspace, setup)
