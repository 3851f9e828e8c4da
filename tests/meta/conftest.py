"""A small site of our own: a workspace with one local host, to run whole gates in seconds.

And a rig: one suite of G3 on this machine, called test by test, to lie to it.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kvgate.engine.progress import Progress
from kvgate.engine.workspace import Setup
from kvgate.judge.comparison import Planned
from kvgate.judge.gate import judge_gate
from kvgate.model.finding import Attempt, Finding
from kvgate.spec import load, yamlfile
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter
from kvgate.suite.bench import Bench

ROOT = Path(__file__).resolve().parents[2]

GATE = """\
gate: {gate}
title: {gate} of a small site
question: Does it hold?
entry: [{entry}]
criteria:
"""

CRITERION = """\
  - id: {id}
    text: what {measure} says
    measure: {measure}
    phase: inspection
    hosts: serving
    basis: made for this test
    hint: look at the small site
    limits: {{rehearsal: {limit}}}
"""

PLAN = """\
plan: small
title: A small site
profile: rehearsal
seed: 7
gates: [{gates}]
workloads: {{}}
"""

SUITE_HEAD = '''\
"""Tests of a small site."""
from kvgate.suite import Bench, Quantity, Reading, settles
from kvgate.witness import Answer


def say(bench, name, value=None, problem=""):
    """Record one reading on every host, with the evidence of a real command."""
    for host in bench.hosts("serving"):
        for block in bench.blocks(name, host=[host.name]):
            with block:
                told = bench.witness(host).ask(["echo", name], timeout_s=10)
                reading = Reading(name=name, value=value, problem=problem)
                bench.record(Answer((reading,), (told.ref,)), host=host, phase="inspection")

'''


@dataclasses.dataclass
class Site:
    """A workspace in a temporary folder, and the commands run in it."""

    root: Path

    def gate(
        self, gate: str, criteria: dict[str, tuple[str, str]], suite: str, *, entry: str = ""
    ) -> None:
        """Write a gate file (id → measure, limit) and its suite."""
        text = GATE.format(gate=gate, entry=entry)
        for key, (measure, limit) in criteria.items():
            text += CRITERION.format(id=key, measure=measure, limit=limit)
        name = gate.lower()
        (self.root / "gates" / f"{name}-small.yaml").write_text(text)
        folder = self.root / "suites" / name
        folder.mkdir(exist_ok=True)
        (folder / "test_small.py").write_text(SUITE_HEAD + suite)

    def plan(self, *gates: str, more: str = "") -> None:
        """Write the plan of `gates`."""
        entries = ", ".join(
            f"{{gate: {gate}, suite: suites/{gate.lower()}, give_up_after: 60 s}}" for gate in gates
        )
        (self.root / "gates/plans/rehearsal.yaml").write_text(PLAN.format(gates=entries) + more)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a kvgate verb in the workspace."""
        return subprocess.Popen(
            [sys.executable, "-m", "kvgate", *words],
            cwd=self.root,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
        )

    def kvgate(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a kvgate verb in the workspace to its end."""
        child = self.start(*words)
        out, err = child.communicate(timeout=220)
        return subprocess.CompletedProcess(child.args, child.returncode, out, err)

    def pytest(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a plain pytest in the workspace."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words],
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=220,
            env=environment,
        )

    def runs(self) -> list[Path]:
        """Return the runs, oldest first (by when their journal began)."""
        paths = [path.parent for path in (self.root / "runs").glob("*/journal.jsonl")]
        return sorted(paths, key=lambda path: (path / "manifest.json").stat().st_mtime_ns)

    def newest(self) -> Path:
        """Return the newest run."""
        return self.runs()[-1]

    def findings(self, run: Path | None = None) -> dict[str, Any]:
        """Return criterion → finding of a run."""
        found = json.loads(((run or self.newest()) / "findings.json").read_bytes())
        return {f["criterion"]: f for gate in found["gates"] for f in gate["findings"]}

    def events(self, *kinds: str, run: Path | None = None) -> list[dict[str, Any]]:
        """Return the fields of journal records of `kinds`."""
        reader = RunReader(run or self.newest())
        return [dict(event.fields) for event in reader.events(*kinds)]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Return an empty small site: one local host, a plan of G1."""
    for folder in ("gates/plans", "suites", "inventory/local", "runs", "templates"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "templates").rmdir()
    (tmp_path / "templates").symlink_to(ROOT / "templates")
    (tmp_path / "inventory/local/this-machine.yaml").write_text(
        "inventory: small\nhosts:\n  here: {roles: [serving], transport: local}\n"
    )
    made = Site(tmp_path)
    made.plan("G1")
    return made


HERE = """
inventory: here
hosts:
  self: {{roles: [serving, client], transport: local, tools: {{python: {python}}},
         scratch: {scratch}}}
"""


@dataclasses.dataclass
class Rig:
    """A suite's module, a bench on this machine, and the findings that came of it."""

    suite: Any
    bench: Bench
    setup: Setup
    path: Path

    def judge(self, *only: str) -> dict[str, Finding]:
        """Return the findings of these criteria, all others scoped out."""
        gate, plan = self.setup.gates["G3"].value, self.setup.plan.value
        result = judge_gate(
            gate,
            profile=plan.profile,
            inventory=self.setup.inventory.value,
            expected=self.setup.expected,
            taken=RunReader(self.path).measurements(),
            attempts=[Attempt(criterion=each, outcome="ran") for each in only],
            scoped_out={each.id: "x" for each in gate.criteria if each.id not in only},
            planned=Planned(plan.workloads.looks()),
        )
        return {each.criterion: each for each in result.findings}


@pytest.fixture
def g3_rig(tmp_path: Path) -> Iterator[Callable[[bytes, str], Rig]]:
    """Yield what makes the rig of a plan and a file of G3's suite; nothing of it is left behind."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    inventory = HERE.format(python=sys.executable, scratch=scratch)
    run = RunWriter.create(tmp_path / "run", {}, {})
    made: list[Rig] = []

    def make(plan: bytes, name: str) -> Rig:
        setup = Setup(
            load.plan_of(yamlfile.parse(plan, "plan.yaml"), None),
            load.inventory_of(yamlfile.parse(inventory.encode(), "inventory.yaml")),
            None,
            {"G3": load.load_gate(ROOT / "gates/g3-kv-tier.yaml")},
        )
        source = ROOT / "suites/g3_kv_tier" / name
        spec = importlib.util.spec_from_file_location("g3_suite", source)
        assert spec is not None
        assert spec.loader is not None
        suite = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(suite)
        made.append(Rig(suite, Bench("G3", setup, run, Progress(None)), setup, tmp_path / "run"))
        return made[-1]

    yield make
    for rig in made:
        rig.bench.close()
    run.close()
    assert not list(scratch.iterdir()), "the KV was left behind"
