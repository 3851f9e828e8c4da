"""Whatever the moment of a crash: nothing acknowledged is lost, nothing torn is shown."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from kvgate.errors import StoreError
from kvgate.model.record import Evidence, EvidenceRef, Measurement
from kvgate.store import disk
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter
from kvgate.store.seal import seal, verify

Piece = Callable[..., Evidence]
Taken = Callable[..., Measurement]


def check_after_crash(path: Path, acked: list[int], blocks: set[str], refs: list[str]) -> None:
    """Resume the run at `path` and compare with what was acknowledged."""
    with RunWriter.open(path) as run:
        assert run.finished_blocks() >= blocks
    reader = RunReader(path)
    values = [int(m.labels["value"]) for m in reader.measurements()]
    assert values[: len(acked)] == acked
    for ref in refs:
        reader.evidence(ref)
    assert [p.kind for p in verify(path).problems] == ["unsealed"]


class Acknowledged:
    """Runs a fixed scenario on a writer and notes what was acknowledged when."""

    def __init__(self, piece: Piece, taken: Taken) -> None:
        self._piece, self._taken = piece, taken
        self.values: list[int] = []
        self.blocks: set[str] = set()
        self.refs: list[EvidenceRef] = []
        self.run: RunWriter | None = None
        self._waiting: tuple[list[int], list[EvidenceRef]] = ([], [])

    def measure(self, run: RunWriter, value: int, block: str = "") -> None:
        ref = run.evidence(self._piece(str(value) * 40))
        run.measure(self._taken(value, block=block, evidence=(ref,), labels={"value": str(value)}))
        self._waiting[0].append(value)
        self._waiting[1].append(ref)

    def acknowledge(self) -> None:
        self.values += self._waiting[0]
        self.refs += self._waiting[1]
        self._waiting = ([], [])

    def scenario(self, path: Path) -> None:
        run = self.run = RunWriter.create(path, {"who": "eng"}, {"plan": b"p"})
        self.measure(run, 1)
        run.sync()
        self.acknowledge()
        for value, key in ((2, "a"), (3, "b")):
            run.begin_block(key)
            self.measure(run, value, key)
            run.telemetry({"t": value})
            run.end_block(key)
            self.acknowledge()
            self.blocks.add(key)
        run.begin_block("c")
        self.measure(run, 99, "c")
        self._waiting = ([], [])
        run.discard_block("c", "no")
        self.measure(run, 4)
        run.event("attempt", criterion="G1.1", outcome="ran", reasons=[], test="t")
        self.acknowledge()
        run.close()


@pytest.mark.parametrize("kept", [0.0, 0.5, 1.0])
def test_killed_at_every_call_that_changes_the_disk(
    tmp_path: Path, forgetful: Any, piece: Piece, taken: Taken, kept: float
) -> None:
    with disk.through(system := forgetful()):
        Acknowledged(piece, taken).scenario(tmp_path / "undisturbed")
    survived = 0
    for call in range(1, system.calls + 1):
        path, doing = tmp_path / f"run{call}", Acknowledged(piece, taken)
        with disk.through(dying := forgetful(dies_at=call)), pytest.raises(forgetful.dies):
            doing.scenario(path)
        if doing.run is not None:
            doing.run._let_go()
        dying.crash(kept, nuls=call % 3)
        begun = doing.values or doing.blocks
        try:
            with disk.through(forgetful()):
                check_after_crash(path, doing.values, doing.blocks, doing.refs)
            survived += 1
        except StoreError:
            # Killed while the run was being created: it holds nothing and says so.
            assert not begun
            with pytest.raises(StoreError, match=r"(start|begin).* again"):
                RunWriter.open(path)
        shutil.rmtree(path, ignore_errors=True)
    assert survived >= system.calls - 40  # calls that `create` makes


@pytest.mark.parametrize(
    "name", ["journal.jsonl", "evidence/pack-000001.kvp", "measurements.jsonl", "telemetry.jsonl"]
)
def test_cut_at_every_byte(
    tmp_path: Path, piece: Piece, taken: Taken, name: str, forgetful: Any
) -> None:
    """Cut behind what is bound: resumed. Cut inside it: refused. Never silently short."""
    run = RunWriter.create(tmp_path / "run", {}, {})
    run.measure(taken(1, evidence=(run.evidence(piece("a")),)))
    run.telemetry({"a": 1})
    run.sync()
    bound = {file: file.stat().st_size for file in run.path.rglob("*") if file.is_file()}
    run.begin_block("a")
    run.measure(taken(2, block="a", evidence=(run.evidence(piece("b")),)))
    run.telemetry({"a": 2})
    run._parts.measurements.flush()
    run._let_go()
    files = {file: file.read_bytes() for file in run.path.rglob("*") if file.is_file()}
    whole, firm = files[run.path / name], bound[run.path / name]
    if name == "journal.jsonl":
        firm = 0  # a journal binds itself; a whole shorter one is an earlier state
    step = 1 if name.startswith(("journal", "evidence")) else 5
    for size in range(0, len(whole) + 1, step):
        for file, data in files.items():
            file.write_bytes(data)
        (run.path / name).write_bytes(whole[:size])
        with disk.through(forgetful()):
            check_cut(
                run.path,
                name,
                refused=size < firm or not whole[:size].count(b"\n"),
                closely=not size % 11,
            )


def check_cut(path: Path, name: str, *, refused: bool, closely: bool) -> None:
    if refused:
        with pytest.raises(StoreError):
            RunWriter.open(path)
        return
    RunWriter.open(path).close()
    values = [m.value.number for m in RunReader(path).measurements()]
    assert values == [1] or name == "journal.jsonl"
    if closely:
        assert [p.kind for p in verify(path).problems] == ["unsealed"]


class CrashMachine(RuleBasedStateMachine):
    """Random work on a run with random crashes, against a model of what was acknowledged."""

    piece: Piece
    taken: Taken
    system_type: type

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="kvgate-crash-"))
        self.path = self.folder / "run"
        self.system = type(self).system_type()
        self.done: list[tuple[int, int]] = []  # committed: (value, number of its evidence)
        self.loose: list[int] = []  # outside blocks, not yet acknowledged
        self.in_block: dict[str, list[int]] = {}
        self.finished: set[str] = set()
        self.order: list[int] = []  # values in the order they were measured
        self.committed: set[int] = set()
        self.refs: dict[int, EvidenceRef] = {}
        self.next = 0

    @initialize()
    def create(self) -> None:
        with disk.through(self.system):
            self.run = RunWriter.create(self.path, {}, {})

    def _measure(self, block: str) -> int:
        self.next += 1
        cls = type(self)
        with disk.through(self.system):
            ref = self.run.evidence(cls.piece(f"{self.next}" * (self.next % 7)))
            self.run.measure(
                cls.taken(self.next, block=block, evidence=(ref,), labels={"value": str(self.next)})
            )
        self.refs[self.next] = ref
        self.order.append(self.next)
        return self.next

    def _acknowledge_loose(self) -> None:
        self.committed |= set(self.loose)
        self.loose = []

    @rule()
    def measure_outside(self) -> None:
        self.loose.append(self._measure(""))

    @rule(key=st.sampled_from("abc"))
    def begin(self, key: str) -> None:
        if key not in self.in_block and key not in self.finished:
            with disk.through(self.system):
                self.run.begin_block(key)
            self.in_block[key] = []

    @precondition(lambda self: self.in_block)
    @rule(data=st.data())
    def measure_inside(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.in_block)))
        self.in_block[key].append(self._measure(key))

    @precondition(lambda self: self.in_block)
    @rule(data=st.data(), keep=st.booleans())
    def finish(self, data: st.DataObject, keep: bool) -> None:
        key = data.draw(st.sampled_from(sorted(self.in_block)))
        values = self.in_block.pop(key)
        with disk.through(self.system):
            if keep:
                self.run.end_block(key)
                self.finished.add(key)
                self.committed |= set(values)
                self._acknowledge_loose()
            else:
                self.run.discard_block(key, "gave up")

    @rule()
    def note(self) -> None:
        with disk.through(self.system):
            self.run.event("note", text="x")
            self.run.telemetry({"x": 1})

    @rule()
    def sync(self) -> None:
        with disk.through(self.system):
            self.run.sync()
        self._acknowledge_loose()

    @rule(kept=st.floats(0, 1), nuls=st.sampled_from([0, 0, 1, 700]))
    def crash(self, kept: float, nuls: int) -> None:
        self.run._let_go()
        self.system.crash(kept, nuls=nuls)
        self.loose, self.in_block = [], {}  # may be gone: never acknowledged
        with disk.through(self.system):
            self.run = RunWriter.open(self.path)

    @rule()
    def close_and_open(self) -> None:
        with disk.through(self.system):
            self.run.close()
            self.run = RunWriter.open(self.path)
        self._acknowledge_loose()
        self.in_block = {}

    @invariant()
    def what_was_acknowledged_is_all_that_is_seen(self) -> None:
        if not hasattr(self, "run"):
            return
        assert self.run.finished_blocks() == self.finished
        seen = RunReader(self.path).measurements()
        assert [int(m.labels["value"]) for m in seen] == [
            value for value in self.order if value in self.committed
        ]

    def teardown(self) -> None:
        if hasattr(self, "run"):
            with disk.through(self.system):
                self.run.close()
            self._acknowledge_loose()
            reader = RunReader(self.path)
            for value in self.committed:
                reader.evidence(self.refs[value])
            seal(self.path)
            assert verify(self.path).ok
        shutil.rmtree(self.folder)


def test_random_work_with_random_crashes(piece: Piece, taken: Taken, forgetful: Any) -> None:
    CrashMachine.piece, CrashMachine.taken = staticmethod(piece), staticmethod(taken)
    CrashMachine.system_type = forgetful
    run_state_machine_as_test(
        CrashMachine,
        settings=settings(
            max_examples=25,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
