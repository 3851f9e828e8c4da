"""`kvgate run` on a recorded site, killed with SIGKILL at random moments, until it has an end.

Not part of `make test`: `make test-faults` runs it. KVGATE_KILLS sets how many kills there are,
KVGATE_SEED at which moments.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kvgate.store.reader import RunReader
from kvgate.store.seal import verify
from kvgate.transport.base import CommandResult
from kvgate.transport.recording import Answered, Recording, to_bytes

KILLS = int(os.environ.get("KVGATE_KILLS", "100"))
SEED = int(os.environ.get("KVGATE_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
MOST_PER_RUN = 6
TURNS = 30
ASK_US = 20_000
NOON = datetime.datetime(2026, 5, 12, 12, 0, tzinfo=datetime.UTC)

GATE = """\
gate: G1
title: A small gate
question: Does it hold?
entry: []
criteria:
  - {id: G1.1, text: the latency, measure: a.latency, phase: inspection, hosts: serving,
     basis: made for this test, limits: {rehearsal: {at_most: 40 ms}}}
"""
PLAN = """\
plan: small
title: A small gate
profile: rehearsal
seed: 7
gates: [{gate: G1, suite: suites/g1, give_up_after: 300 s}]
workloads: {}
"""
SITE = """\
inventory: site
hosts:
  ini1: {roles: [serving], transport: recorded, recording: ini1.jsonl}
"""
SUITE = '''\
"""Asks for the latency, many times."""
from kvgate.suite import Bench, Quantity, Reading, settles
from kvgate.witness import Answer


@settles("G1.1")
def test_of_latency(bench: Bench) -> None:
    """Ask in every turn."""
    for host in bench.hosts():
        for block in bench.blocks("turn", host=[host.name], turn=range(TURNS)):
            with block, bench.child("latency", host=host.name):
                told = bench.witness(host).ask(["latency"], timeout_s=10)
                value = Quantity.of(told.stdout.decode().strip(), "ms")
                bench.run.telemetry({"turn": block["turn"]})
                answer = Answer((Reading(name="a.latency", value=value),), (told.ref,))
                bench.record(answer, host=host, phase="inspection", turn=block["turn"])
'''.replace("TURNS", str(TURNS))


def answered(scope: str, text: str, *argv: str) -> Answered:
    result = CommandResult(
        host="ini1",
        argv=argv,
        exit_status=0,
        stdout=text.encode(),
        stderr=b"",
        started_at=NOON,
        elapsed_s=ASK_US / 1e6,
    )
    return Answered(result=result, scope=scope)


class Site:
    """A workspace with one recorded host, and the processes of `kvgate run` in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("gates/plans", "suites/g1", "inventory/local", "runs"):
            (root / folder).mkdir(parents=True)
        (root / "templates").symlink_to(Path(__file__).resolve().parents[2] / "templates")
        (root / "gates/g1-small.yaml").write_text(GATE)
        (root / "gates/plans/rehearsal.yaml").write_text(PLAN)
        (root / "inventory/local/this-machine.yaml").write_text(SITE)
        (root / "suites/g1/test_small.py").write_text(SUITE)
        answers = [
            answered("G1", "0123456789abcdef0123456789abcdef\n", "cat", "/etc/machine-id"),
            answered("G1", "S1\n", "cat", "/sys/class/dmi/id/product_serial"),
            *(answered(f"G1/turn/host=ini1/turn={n}", f"{n}\n", "latency") for n in range(TURNS)),
        ]
        data = to_bytes(Recording(host="ini1", source="once", answers=tuple(answers)))
        (root / "inventory/local/ini1.jsonl").write_bytes(data)

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "kvgate", "run", *words],
            cwd=self.root,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def finish(self, *words: str) -> tuple[int, str]:
        child = self.start(*words)
        _, err = child.communicate(timeout=300)
        return child.returncode, err

    def run(self) -> Path | None:
        """Return the only run, if there is one already."""
        runs = [path for path in (self.root / "runs").iterdir() if (path / "lock").is_file()]
        assert len(runs) <= 1
        return runs[0] if runs else None


def children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii")
        return [int(word) for word in text.split()]
    return []


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def kill(child: subprocess.Popen[str], victim: str) -> None:
    """Send SIGKILL to the supervisor, to the writer, or to both; return when all have ended."""
    below = children(child.pid)
    victims = {
        "supervisor": [child.pid],
        "writer": below or [child.pid],
        "both": [child.pid, *below],
    }
    for pid in victims[victim]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    child.communicate(timeout=120)
    until = time.monotonic() + 60
    while any(alive(pid) for pid in below):
        assert time.monotonic() < until, "a writer outlives its supervisor"
        time.sleep(0.02)


def findings(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "findings.json").read_bytes())
    return {key: value for key, value in found.items() if key not in ("run", "journal_digest")}


class Killing:
    """Kills runs, one after the other, and counts."""

    def __init__(self, site: Site, chance: random.Random) -> None:
        self.site, self.chance = site, chance
        self.tried = self.survived = 0
        begun = time.monotonic()
        assert site.finish("--timing")[0] == 0
        self.takes_s = time.monotonic() - begun
        self.expected = self._ended()

    def one_run(self) -> None:
        """Begin a run, kill it some times, let it come to its end, and compare."""
        kills, words = 0, ["--timing"]
        for _ in range(self.chance.randint(1, MOST_PER_RUN)):
            child = self.site.start(*words)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(self.chance.uniform(0.02, self.takes_s))
            if child.poll() is None:
                kill(child, self.chance.choice(("writer", "supervisor", "both")))
                kills += 1
            else:
                child.communicate(timeout=60)
            words = self._go_on()
            if not words:
                break
        if words:
            code, err = self.site.finish(*words)
            assert code == 0, err
        self.tried += kills
        assert self._ended() == self.expected
        self.survived += kills

    def _go_on(self) -> list[str]:
        """Return the words that go on from here; none where the run has its end."""
        run = self.site.run()
        if run is None:
            return ["--timing"]
        if (run / "SHA256SUMS.1").exists():
            return []
        if not (run / "manifest.json").exists() or not (run / "journal.jsonl").exists():
            code, err = self.site.finish("--resume", str(run))
            assert code != 0
            assert "no run" in err or "interrupted" in err, err
            shutil.rmtree(run)  # as the message says
            return ["--timing"]
        if not (run / "journal.jsonl").read_bytes().count(b"\n"):
            shutil.rmtree(run)
            return ["--timing"]
        return ["--resume", run.name]

    def _ended(self) -> dict[str, Any]:
        run = self.site.run()
        assert run is not None
        assert verify(run).ok
        blocks = [event.fields["block"] for event in RunReader(run).events("block_end")]
        assert len(blocks) == len(set(blocks)) == TURNS
        found = findings(run)
        shutil.rmtree(run)
        return found


@pytest.mark.timeout(3600)
def test_killed_at_random_moments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chance = random.Random(SEED)  # noqa: S311  moments, no secrets
    killing = Killing(Site(tmp_path), chance)
    try:
        while killing.tried < KILLS:
            killing.one_run()
    finally:
        with capsys.disabled():
            sys.stdout.write(
                f"\nkills survived / tried: {killing.survived} / {killing.tried} (seed {SEED})\n"
            )
    assert killing.survived == killing.tried >= KILLS
