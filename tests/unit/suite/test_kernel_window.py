"""The kernel log's window of a gate: who is marked, when it is asked again, and that it is last."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from kvgate.engine.progress import Progress
from kvgate.engine.workspace import Setup
from kvgate.errors import CommandError, NotRunError
from kvgate.parse.dmesg import Mark
from kvgate.probes import kernel_since
from kvgate.probes.base import untold
from kvgate.probes.kernel_since import BootMark
from kvgate.spec import load, yamlfile
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter
from kvgate.suite.bench import Bench
from kvgate.witness import Answer

G2 = Path(__file__).parents[3] / "suites/g2_paths"
MARK = BootMark("00000000-0000-4000-8000-000000000001", Mark(stamp="2.0", text="last", times=1))
GATE = b"""
gate: G2
title: t
question: q
entry: []
criteria:
  - {id: G2.1, text: x, measure: a.done, phase: inspection, hosts: serving, basis: b,
     limits: {acceptance: {equals: true}}}
  - {id: G2.70, text: x, measure: log.new_fatal, phase: inspection, hosts: serving, basis: b,
     limits: {acceptance: {equals: 0}}}
"""
INVENTORY = b"""
inventory: here
hosts:
  a: {roles: [serving], transport: local}
  b: {roles: [client], transport: local}
"""
PLAN = b"""
plan: p
title: t
profile: acceptance
seed: 1
gates: [{gate: G2, suite: suites/g2, give_up_after: 1 h}]
workloads: {}
"""
OUT = b"scope_out: [{criteria: [G2.70], reason: its log can't be read}]\n"


def setup(plan: bytes = PLAN) -> Setup:
    return Setup(
        load.plan_of(yamlfile.parse(plan, "plan.yaml"), None),
        load.inventory_of(yamlfile.parse(INVENTORY, "inventory.yaml")),
        None,
        {"G2": load.gate_of(yamlfile.parse(GATE, "g2.yaml"))},
    )


@pytest.fixture
def run(tmp_path: Path):
    with RunWriter.create(tmp_path / "run", {}, {}) as writer:
        yield writer


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the hosts that were asked for a mark, each told `MARK`."""
    asked: list[str] = []

    def mark(witness: Any) -> BootMark:
        asked.append(witness.host.name)
        return MARK

    monkeypatch.setattr(kernel_since, "mark", mark)
    return asked


def kernel_marks(run: RunWriter) -> list[dict[str, Any]]:
    run.sync()
    return [dict(event.fields) for event in RunReader(run.path).events("kernel_mark")]


def test_it_is_the_last_test_of_its_gate() -> None:
    """What ran after it would run unwatched; pytest takes files by name."""
    assert max(path.name for path in G2.glob("test_*.py")) == "test_zz_kernel_log.py"


def test_hosts_whose_log_is_judged_are_marked_once_also_when_the_run_goes_on(
    run: RunWriter, marked: list[str]
) -> None:
    for _ in range(2):  # the second time is a resume
        with contextlib.closing(Bench("G2", setup(), run, Progress(None))) as bench:
            bench.mark_kernel_logs()
    assert marked == ["a"], "b does not serve: nothing of it is judged"
    (told,) = kernel_marks(run)
    assert (told["gate"], told["host"], told["boot_id"]) == ("G2", "a", MARK.boot)
    assert (told["stamp"], told["text"], told["times"], told["problem"]) == ("2.0", "last", 1, "")


def test_what_the_plan_scopes_out_is_neither_marked_nor_asked(
    run: RunWriter, marked: list[str]
) -> None:
    with contextlib.closing(Bench("G2", setup(PLAN + OUT), run, Progress(None))) as bench:
        bench.mark_kernel_logs()
        with pytest.raises(NotRunError, match="nothing that this plan judges"):
            bench.survey_kernel_logs(phase="inspection")
    assert not marked
    assert not kernel_marks(run)


def test_a_mark_that_failed_is_not_made_later(
    run: RunWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later mark would leave out what the kernel said until then."""

    def refuse(witness: Any) -> BootMark:
        raise CommandError(witness.host.name, "dmesg: not permitted")

    monkeypatch.setattr(kernel_since, "mark", refuse)
    for _ in range(2):
        with contextlib.closing(Bench("G2", setup(), run, Progress(None))) as bench:
            bench.mark_kernel_logs()
            bench.survey_kernel_logs(phase="inspection")
    (told,) = kernel_marks(run)
    assert "not permitted" in told["problem"]
    taken = RunReader(run.path).measurements()
    assert {m.problem for m in taken} == {told["problem"]}
    assert sum(m.name == "log.new_fatal" for m in taken) == 1, "nothing ended in between"


def test_blocks_that_end_after_the_answer_need_another(
    run: RunWriter, marked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[BootMark] = []

    def since(_: Any, mark: BootMark) -> Answer:
        seen.append(mark)
        return Answer(tuple(untold(kernel_since.MEASURES, "made up for this test")), ())

    monkeypatch.setattr(kernel_since, "ask_since", since)
    with contextlib.closing(Bench("G2", setup(), run, Progress(None))) as bench:
        bench.mark_kernel_logs()
        for ended in range(2):
            for block in bench.blocks("work", number=[ended]):
                with block:
                    pass
            for _ in range(2):
                bench.survey_kernel_logs(phase="inspection")
    assert seen == [MARK, MARK], "once after each block, from the journalled mark on"
    assert marked == ["a"]
