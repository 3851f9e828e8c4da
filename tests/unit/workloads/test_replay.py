"""A replay from end to end on this machine: levels, cold, ENOSPC, a full tier, killed, together."""

from __future__ import annotations

import ast
import dataclasses
import errno
import importlib
import inspect
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvgate.cli import replay_show
from kvgate.errors import CommandError, NotRunError, UsageError
from kvgate.kv.content import PAGE
from kvgate.model.quantity import Quantity
from kvgate.workloads import replay, replay_lines, replay_place, replay_result
from kvgate.workloads.replay import Reads, Spec
from kvgate.workloads.replay_host import Replay
from kvgate.workloads.replay_place import PlaceRefusedError
from kvgate.workloads.replay_result import parsed

CHUNK = 16 * PAGE
SPEC = Spec(
    seed=3,
    sessions=4,
    chunks=4,
    chunk_bytes=CHUNK,
    shared=1,
    store_readers=2,
    levels=(Reads(concurrency=2, readers=1), Reads(concurrency=3, readers=4)),
)


@pytest.fixture
def device(tmp_path: Path) -> Path:
    """Return a folder on a device that takes O_DIRECT, or skip: this test needs a real one."""
    try:
        place = replay_place.place_of(tmp_path, direct=True)
    except PlaceRefusedError as err:
        pytest.skip(err.why)
    if not place.device:
        pytest.skip("no block device below counts bytes")
    return tmp_path


def here(folder: Path, spec: Spec) -> Replay:
    """Return a replay in this process; its lines are in its ``lines``."""
    made = folder / "kvgate-replay-AAAAAAAA"
    made.mkdir()
    lines: list[dict[str, Any]] = []
    job = json.loads(spec.job(str(made), barrier=False))
    work = Replay(job, lambda line: lines.append(json.loads(json.dumps(line))))
    work.lines = lines  # type: ignore[attr-defined]
    return work


def found_of(work: Any) -> replay_result.Replayed:
    return parsed("box", b"\n".join(json.dumps(line).encode() for line in work.lines))


@pytest.fixture
def local(bench: Any, device: Path) -> Any:
    """Return a witness of this machine whose Python has NumPy and xxhash."""
    host = bench.witness.host.model_copy(update={"tools": {"python3": sys.executable}})
    return dataclasses.replace(bench.witness, host=host)


def test_it_travels_stores_restores_checks_and_leaves_nothing(local: Any, bench: Any) -> None:
    (told,) = replay.run([local], dataclasses.replace(SPEC, plant=True))
    found = told.found
    assert found.whole
    assert not found.problems
    assert [each.phase for each in found.levels] == ["store", "restore", "restore", "planted"]
    store, *restores = found.of_phase("store", "restore")
    assert store.line["bytes_written"] == SPEC.sessions * SPEC.session_bytes
    assert store.line["device_written"] >= store.line["bytes_written"]
    for level in restores:
        assert level.line["bytes_read"] == SPEC.sessions * SPEC.session_bytes
        assert len(level.times()) == SPEC.sessions
        assert sum(count for _, count in level.line["reads"]) == level.line["checked"] == 16
        assert not level.not_cold
        assert level.cold_share is not None
        assert level.cold_share >= 0.98
        assert "O_DIRECT" in level.line["cold"]
    assert [row[0] for row in found.plants["rows"]] == [row[3] for row in found.plants["rows"]]
    assert found.damaged == 0, "what was planted is no damage of the path"
    assert set(told.evidence) <= set(bench.kept)
    assert list(bench.scratch.iterdir()) == []


def test_hosts_begin_each_phase_together(local: Any, bench: Any, tmp_path: Path) -> None:
    (tmp_path / "two").mkdir()
    second = local.host.model_copy(update={"name": "two", "scratch": str(tmp_path / "two")})
    both = [local, dataclasses.replace(local, host=second)]
    told = replay.run(both, dataclasses.replace(SPEC, levels=SPEC.levels[:1]))
    starts = [[level.line["started"] for level in each.found.levels] for each in told]
    assert [each.found.host for each in told] == ["box", "two"]
    assert len(starts[0]) == len(starts[1]) == 2
    assert all(abs(ours - theirs) < 5 for ours, theirs in zip(*starts, strict=True))
    assert abs(told[0].clock_ahead_s) < 5
    assert not list((tmp_path / "two").iterdir())
    assert not list(bench.scratch.iterdir())


def test_one_host_that_fails_ends_all(local: Any, bench: Any) -> None:
    lost = local.host.model_copy(update={"name": "lost", "scratch": None})
    with pytest.raises(NotRunError, match="lost: the inventory names no scratch folder"):
        replay.run([local, dataclasses.replace(local, host=lost)], SPEC)
    assert not list(bench.scratch.iterdir())


def test_mixed_fills_and_evicts(device: Path) -> None:
    mixed = Reads(concurrency=2, readers=2, store_pct=50)
    spec = dataclasses.replace(
        SPEC, levels=(mixed,), fill=(50, 95), capacity=10 * SPEC.session_bytes
    )
    work = here(device, spec)
    work.run()
    found = found_of(work)
    (level,) = found.of_phase("mixed")
    assert len(level.line["restored"]) + len(level.line["stored"]) == 4
    fills = found.of_phase("filled")
    assert [each.line["pct"] for each in fills] == [50, 95]
    assert sum(each.line["evicted"] for each in fills) > 0
    assert found.damaged == 0
    assert fills[-1].line["allocated"] <= 11 * SPEC.session_bytes


def test_at_the_end_of_the_space_it_evicts_and_goes_on(
    device: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = dataclasses.replace(
        SPEC, levels=SPEC.levels[:1], full=True, capacity=100 * SPEC.session_bytes
    )
    work = here(device, spec)
    write, room = os.pwrite, 7 * SPEC.session_bytes

    def until_full(fd: int, data: Any, at: int) -> int:
        used = sum(path.stat().st_size for path in work.folder.glob("*.kv"))
        if used + len(data) > room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data, at)

    monkeypatch.setattr(os, "pwrite", until_full)
    work.run()
    found = found_of(work)
    assert found.full == {
        **{"phase": "full", "reached": True, "recovered": True, "evicted": 2, "lost": ""},
        "free": found.full["free"],
    }
    assert found.damaged == 0
    phases = [each.phase for each in found.levels]
    assert phases == ["store", "restore", "until_full", "after_full", "restore_after_full"]


def test_space_without_an_end_is_filled_to_the_capacity_and_no_further(device: Path) -> None:
    spec = dataclasses.replace(
        SPEC, levels=SPEC.levels[:1], full=True, capacity=6 * SPEC.session_bytes
    )
    work = here(device, spec)
    work.run()
    found = found_of(work)
    assert found.full == {"phase": "full", "lost": "", "reached": False}
    (level,) = found.of_phase("until_full")
    assert len(level.line["stored"]) == 6 - SPEC.sessions


def test_a_store_that_does_not_fit_is_a_problem(
    device: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    work = here(device, SPEC)
    monkeypatch.setattr(os, "pwrite", full)
    work.run()
    assert "4 sessions were not stored: no space was left" in found_of(work).problems[1]


def test_a_device_that_disappears_ends_it_with_a_reason(
    device: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> int:
        raise OSError(errno.ENODEV, "No such device")

    work = here(device, SPEC)
    monkeypatch.setattr(os, "preadv", gone)
    work.run()
    found = found_of(work)
    assert [each.phase for each in found.levels] == ["store", "restore"]
    assert "can't be read: No such device (errno ENODEV)" in found.problems[0]


def test_arrivals_count_from_when_they_are_due(device: Path) -> None:
    due = Reads(concurrency=1, readers=2, arrivals=((0.0, 4), (0.01, 2), (0.02, 1)))
    work = here(device, dataclasses.replace(SPEC, levels=(due,)))
    work.run()
    (level,) = found_of(work).of_phase("restore")
    assert level.line["bytes_read"] == 7 * CHUNK
    assert level.seconds >= 0.02
    assert len(level.times()) == 3


@pytest.mark.parametrize("name", replay._MODULES)
def test_what_travels_is_python_3_8(name: str) -> None:
    source = inspect.getsource(importlib.import_module(name))
    tree = ast.parse(source, feature_version=(3, 8))
    assert "from __future__ import annotations" in source, "or newer types would be evaluated"
    ours = [
        node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("kvgate")
    ]
    assert set(ours) <= set(replay._MODULES)


def test_it_runs_with_the_standard_library_alone_and_says_so(device: Path) -> None:
    program, folder = device / "replay.pyz", device / "kvgate-replay-AAAAAAAA"
    program.write_bytes(replay.program())
    folder.mkdir()
    spec = dataclasses.replace(SPEC, sessions=2, levels=SPEC.levels[:1], plant=True)
    words = [sys.executable, "-I", "-S", str(program), spec.job(str(folder), barrier=False)]
    done = subprocess.run(words, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found = parsed("box", done.stdout)
    assert (found.begin["content_by"], found.begin["checked_by"]) == ("python", "crc32")
    assert not found.problems
    assert all(row[0] == row[3] for row in found.plants["rows"])


def waiting(program: Path, spec: Spec, folder: Path) -> subprocess.Popen[bytes]:
    """Return a replay that waits in `folder` for a start that nobody gives."""
    words = [sys.executable, str(program), spec.job(str(folder), barrier=True)]
    child = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert child.stdout is not None
    while b'"ready"' not in child.stdout.readline():
        assert child.poll() is None
    return child


def test_what_a_killed_replay_left_is_removed_and_nothing_else(device: Path) -> None:
    left, user, held = (device / f"kvgate-replay-{n * 8}" for n in "BCD")
    for path in (left, user, held):
        path.mkdir()
        (path / "data").write_bytes(b"x")
    for path in (left, held):
        (path / replay_place.MARKER).write_bytes(b"0" * 32)
    program = device / "replay.pyz"
    program.write_bytes(replay.program())
    spec = dataclasses.replace(SPEC, levels=(Reads(concurrency=1, readers=1),))
    children = [waiting(program, spec, path) for path in (held, left)]
    try:
        children[1].send_signal(signal.SIGKILL)
        children[1].wait(60)
        work = here(device, spec)
        work.run()
    finally:
        for child in children:
            child.kill()
            child.communicate(timeout=60)
    assert work.lines[0]["removed"] == [left.name]  # type: ignore[attr-defined]
    assert not left.exists()
    assert user.is_dir()
    assert held.is_dir()


@pytest.fixture
def memory() -> Iterator[Path]:
    base = Path("/dev/shm")
    if not base.is_dir():
        pytest.skip("no /dev/shm")
    path = base / f"kvgate-test-{os.getpid()}"
    path.mkdir()
    yield path
    shutil.rmtree(path)


def test_memory_is_no_storage(local: Any, memory: Path) -> None:
    host = local.host.model_copy(update={"scratch": str(memory)})
    with pytest.raises(NotRunError, match="lies in memory"):
        replay.run([dataclasses.replace(local, host=host)], SPEC)
    assert not list(memory.iterdir())


def test_an_overlay_is_refused(device: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_place, "_mount", lambda _: ("overlay", "overlay"))
    with pytest.raises(PlaceRefusedError, match="lies on an overlay"):
        replay_place.place_of(device, direct=False)


def test_a_mount_without_o_direct_is_refused_with_the_way_out(
    device: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening = os.open

    def refusing(path: Any, flags: int, *more: Any) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return opening(path, flags, *more)

    monkeypatch.setattr(os, "open", refusing)
    with pytest.raises(PlaceRefusedError, match="takes no O_DIRECT") as err:
        replay_place.place_of(device, direct=True)
    assert "--buffered" in err.value.hint
    assert replay_place.place_of(device, direct=False).folder == device


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"plant": True, "sessions": 1}, "planting faults takes 2 sessions"),
        ({"plant": True, "checked": False}, "planting faults takes checks"),
        ({"fill": (50,), "capacity": 1}, "does not hold 4 sessions"),
        ({"block_bytes": 100}, "blocks are multiples of 4096"),
        ({"levels": ()}, "at least one level"),
    ],
)
def test_what_can_t_be_replayed_is_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        dataclasses.replace(SPEC, **changes).refuse()


def test_chunks_are_stored_in_whole_pages() -> None:
    assert dataclasses.replace(SPEC, chunk_bytes=5000).padded_bytes == 8192


def test_a_program_that_breaks_is_told(local: Any, bench: Any) -> None:
    with pytest.raises(CommandError, match="the replay broke"):
        replay.run([local], dataclasses.replace(SPEC, seed=3, compressed_pct=99))
    assert not list(bench.scratch.iterdir())


def test_buffers_that_do_not_fit_into_memory_are_refused(device: Path) -> None:
    spec = dataclasses.replace(
        SPEC, ranks=64, chunk_bytes=2**30, levels=(Reads(concurrency=1, readers=256),)
    )
    with pytest.raises(PlaceRefusedError, match="buffers of all readers would take 21990"):
        here(device, spec)


@pytest.mark.parametrize("pct", [1, 50, 99])
def test_a_mixed_level_has_that_part_of_stores_and_some_restores(device: Path, pct: int) -> None:
    level = Reads(concurrency=1, readers=1, store_pct=pct)
    work = here(device, dataclasses.replace(SPEC, levels=(level,)))
    work.run()
    (mixed,) = found_of(work).of_phase("mixed")
    stored = {1: 1, 50: 2, 99: 3}[pct]
    assert (len(mixed.line["stored"]), len(mixed.line["restored"])) == (stored, 4 - stored)


def line(**changes: Any) -> dict[str, Any]:
    empty = dict.fromkeys(replay_lines._LEVEL, 0)
    lists = {"restored": [[0, 2.0], [1, 1.0]], "stored": [], "reads": [[1000, 100]], "writes": []}
    counts = {"bytes_read": 10**9, "device_read": 10**9, "process_read": 10**9, "seconds": 2.0}
    return {**empty, **lists, **counts, "phase": "restore", "lost": "", "cpu_s": 0.5} | changes


def test_cold_is_proven_by_both_counters_or_not_at_all() -> None:
    cold = replay_result.Level(line())
    assert (cold.not_cold, cold.disturbed, cold.rate("read")) == ("", "", 5e8)
    assert cold.cpu_per_gb() == 0.5
    assert (cold.time(50), cold.time(90)) == (1.0, None)
    assert "not cold" in replay_result.Level(line(device_read=5 * 10**8)).not_cold
    assert "not cold" in replay_result.Level(line(process_read=0)).not_cold
    assert "no block device" in replay_result.Level(line(device_read=-1)).not_cold
    assert "others read too" in replay_result.Level(line(device_read=2 * 10**9)).disturbed
    warm = {r.name: r for r in replay_result.readings(replay_result.Level(line(process_read=0)))}
    assert warm["replay.restore_bw"].value is None
    assert "not cold" in warm["replay.restore_bw"].problem


def test_a_chunk_s_percentile_is_of_the_nearest_rank_exactly() -> None:
    level = replay_result.Level(line(reads=[[1000, 999], [10**6, 1]]))
    assert level.chunk_s(99.9) == 1001e-9, "the 999th of 1000, not the longest"
    assert level.chunk_s(99.99) is None


@pytest.mark.parametrize(("named", "others", "missed"), [("", 0, 1), ("short", 2, 2)])
def test_what_is_found_beyond_the_plants_counts_as_missed(
    named: str, others: int, missed: int
) -> None:
    told = {"phase": "plants", "rows": [["short", 0, 1, named]], "others": others, "lost": ""}
    found = replay_result.Replayed("box", {}, (), told, None, whole=True)
    assert found.missed == missed
    (reading,) = replay_result.missed_plants(found)
    assert reading.value == Quantity.of(missed, "")
    assert replay_show.code([found]) == 1
