"""Runs made by hand, sealed, in a workspace with parties: what people act on, without any host."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kvgate.engine.finish import finish_run
from kvgate.engine.judging import journal, judge_gate_of
from kvgate.engine.workspace import frozen_setup
from kvgate.model.record import Evidence, Measurement, Value
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter

NOON = datetime.datetime(2026, 12, 1, 12, tzinfo=datetime.UTC)

INVENTORY = """\
inventory: small
hosts:
  n1:
    roles: [serving]
    transport: local
    declared:
      disks: [{serial: D1}, {serial: D2}]
  n2: {roles: [serving], transport: local}
"""

GATE = """\
gate: G1
title: Arrival
question: Did it come?
entry: []
criteria:
  - {id: G1.1, text: one, measure: one, phase: p, hosts: serving, basis: t,
     limits: {acceptance: {equals: true}}}
  - {id: G1.2, text: disks, measure: disk.ok, each: disk, phase: p, hosts: serving, basis: t,
     limits: {acceptance: {equals: true}}}
  - {id: G1.3, text: firmware, measure: disk.firmware, each: disk, phase: p, hosts: serving,
     basis: t, limits: {acceptance: {one_of: [A, B]}}}
  - {id: G1.4, text: Seals are whole, measure: manual.seals, method: manual, severity: B, phase: p,
     hosts: all, scope: all hosts, basis: t, limits: {acceptance: {equals: true}}}
"""

PLAN = """\
plan: small
title: A small site
profile: acceptance
seed: 7
gates: [{{gate: G1, suite: suites/g1, give_up_after: 60 s}}]
workloads: {{}}
retests: {{most: 1}}
control:
  project: Joint test
  document: {{number: D-1, revision: "1"}}
  parties:
    - {{role: buyer, name: B, signatories: [{{name: B, principal: b@buyer, key: "{buyer}"}}]}}
    - role: supplier
      name: S
      signatories: [{{name: S, principal: s@supplier, key: "{supplier}"}}]
"""

GOOD: dict[tuple[str, str, str], Value] = {
    ("one", "n1", ""): True,
    ("one", "n2", ""): True,
    **{("disk.ok", "n1", disk): True for disk in ("D1", "D2")},
    **{("disk.firmware", "n1", disk): "A" for disk in ("D1", "D2")},
}

SERIALS = {"n1": ["disk:D1", "disk:D2", "product:S1"], "n2": ["product:S2"]}


@dataclasses.dataclass
class Made:
    """A workspace with keys of both parties, and the runs made in it."""

    root: Path
    kept: Path  # runs made before, to be copied

    def key(self, role: str) -> Path:
        """Return the private key of a party."""
        return self.root / role

    @property
    def plan(self) -> str:
        """Return the plan, with the parties' keys."""
        keys = {
            role: (self.root / f"{role}.pub").read_text().strip() for role in ("buyer", "supplier")
        }
        return PLAN.format(**keys)

    def run(
        self,
        name: str,
        values: Mapping[tuple[str, str, str], Value] | None = None,
        *,
        serials: Mapping[str, list[str]] | None = None,
        retest: Mapping[str, Any] | None = None,
        seal: bool = True,
    ) -> Path:
        """Make a sealed run in which everything passes but what `values` says otherwise."""
        path = self.root / "runs" / name
        made_of = repr((name, values, serials, retest, seal))
        kept = self.kept / hashlib.sha256(made_of.encode()).hexdigest()[:16]
        if not kept.is_dir():
            self._make(name, values, serials, retest, seal=seal)
            shutil.copytree(path, kept)
        elif not path.is_dir():
            shutil.copytree(kept, path)
        return path

    def _make(
        self,
        name: str,
        values: Mapping[tuple[str, str, str], Value] | None,
        serials: Mapping[str, list[str]] | None,
        retest: Mapping[str, Any] | None,
        *,
        seal: bool,
    ) -> None:
        path = self.root / "runs" / name
        inputs = {"plan.yaml": self.plan, "inventory.yaml": INVENTORY, "gates/g1.yaml": GATE}
        inputs["suites/g1/test_small.py"] = "suite\n"
        manifest = {
            **{"run": name, "created": "2026-12-01T08:00:00+00:00", "gates": ["G1"]},
            **{"profile": "acceptance", "inventory": "small", "command": ["kvgate", "run"]},
            **{"plan_file": "gates/plans/small.yaml", "git": {}, "who": {}},
            **({"retest": dict(retest)} if retest else {}),
        }
        frozen = {key: text.encode() for key, text in inputs.items()}
        with RunWriter.create(path, manifest, frozen) as run:
            self._fill(run, {**GOOD, **(values or {})}, serials or SERIALS)
            run.sync()
            journal(run, judge_gate_of(RunReader(path), frozen_setup(RunReader(path)), "G1"))
        if seal:
            finish_run(path, render=None)

    def _fill(
        self,
        run: RunWriter,
        values: Mapping[tuple[str, str, str], Value],
        serials: Mapping[str, list[str]],
    ) -> None:
        run.event("run_begin", command=["kvgate", "run"])
        run.event("gate_begin", gate="G1")
        for host, known in serials.items():
            run.event("identity", gate="G1", host=host, serials=known, problem="")
        for (measure, host, item), value in values.items():
            told = f"{measure} {host} {item} {value}".encode()
            ref = run.evidence(
                Evidence(
                    host=host,
                    command=("ask", measure),
                    exit_status=0,
                    stdout=told,
                    stderr=b"",
                    started_at=NOON,
                    ended_at=NOON,
                )
            )
            run.measure(
                Measurement(
                    name=measure,
                    value=value,
                    host=host,
                    item=item,
                    phase="p",
                    taken_at=NOON,
                    evidence=(ref,),
                )
            )
        for id_ in ("G1.1", "G1.2", "G1.3"):
            run.event("attempt", criterion=id_, outcome="ran", reasons=[], test="t")
        run.event("gate_end", gate="G1", outcome="done")


@pytest.fixture(scope="session")
def party_keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a key pair of each party."""
    folder = tmp_path_factory.mktemp("parties") / "keys"
    folder.mkdir()
    for role in ("buyer", "supplier"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", role, "-f", role]
        subprocess.run(command, cwd=folder, check=True, timeout=60)
    return folder


@pytest.fixture
def made(tmp_path: Path, party_keys: Path) -> Made:
    """Return an empty workspace whose plan names both parties."""
    for folder in ("gates/plans", "suites/g1", "inventory", "runs"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "suites/g1/test_small.py").write_text("suite\n")
    (tmp_path / "gates/g1.yaml").write_text(GATE)
    (party_keys.parent / "kept").mkdir(exist_ok=True)
    for key in party_keys.iterdir():
        (tmp_path / key.name).write_bytes(key.read_bytes())
        (tmp_path / key.name).chmod(0o600)
    found = Made(tmp_path, party_keys.parent / "kept")
    (tmp_path / "gates/plans/small.yaml").write_text(found.plan)
    return found
