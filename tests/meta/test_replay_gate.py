"""G3's replay on this machine, once as it is and once with each lie that it must catch."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from kvgate.model.quantity import Quantity
from kvgate.model.record import Reading
from kvgate.model.verdict import Verdict
from kvgate.spec.inventory import Host, Role
from kvgate.store.reader import RunReader
from kvgate.suite.bench import Bench
from kvgate.witness import Answer
from kvgate.workloads import replay, replay_place
from kvgate.workloads.travel import program_of

if TYPE_CHECKING:
    from conftest import Rig  # a suite of G3 on this machine

pytestmark = pytest.mark.whole

PLAN = b"""
plan: small
title: G3's replay, small
profile: acceptance
seed: 11
gates: [{gate: G3, suite: suites/g3_kv_tier, give_up_after: 60 s}]
workloads:
  replay: {arms: [local], rounds: 1, ranks: 1, tokens: 64, chunk_tokens: 16, sessions: 2,
           concurrency: [2], readers: 4, plant: true, dedup_rounds: 5,
           tier: {capacity: 20 MiB, percent: [50, 80]}}
"""
SETTLED = {"G3.100", "G3.101", "G3.110", "G3.111", "G3.112", "G3.113"}


@pytest.fixture
def rig(tmp_path: pathlib.Path, g3_rig: Callable[[bytes, str], Rig]) -> Rig:
    try:
        if not replay_place.place_of(tmp_path, direct=True).device:
            pytest.skip("no block device below counts bytes")
    except replay_place.PlaceRefusedError as err:
        pytest.skip(err.why)
    return g3_rig(PLAN, "test_replay.py")


def lying(monkeypatch: pytest.MonkeyPatch, module: str, right: str, lie: str) -> None:
    """Have the program that travels lie in one place."""
    sources = {n: inspect.getsource(importlib.import_module(n)) for n in replay._MODULES}
    assert sources[module].count(right) == 1
    sources[module] = sources[module].replace(right, lie)
    packed = {name: text.encode() for name, text in sources.items()}
    monkeypatch.setattr(replay, "program", lambda: program_of(packed, main=replay._MODULES[-1]))


def test_an_honest_path_passes_and_a_resume_repeats_nothing(rig: Rig, monkeypatch) -> None:
    def all_of_it() -> None:
        rig.suite.test_sessions_replayed_on_each_arm(rig.bench)
        rig.suite.test_gains_of_dedup_and_of_parallel_reads(rig.bench)
        rig.suite.test_planted_faults_are_found(rig.bench)
        rig.suite.test_tier_that_is_full(rig.bench)

    all_of_it()
    found = rig.judge(*SETTLED)
    passed = {name for name, each in found.items() if each.verdict is Verdict.PASS}
    assert passed >= {"G3.100", "G3.101", "G3.111", "G3.112"}
    assert found["G3.113"].verdict is Verdict.INCONCLUSIVE, "its space has no end here"
    assert "95 %" in str(found["G3.110"]), "five rounds carry an interval"
    rig.bench.close()
    timed = list((rig.path / "benchmarks").glob("*.json"))
    assert [each.name for each in timed] == ["G3-1.json"]
    taken = len(RunReader(rig.path).measurements())
    monkeypatch.setattr(replay, "run", lambda *_, **__: pytest.fail("replayed again"))
    all_of_it()
    assert len(RunReader(rig.path).measurements()) == taken


def test_an_array_is_asked_before_and_once_all_is_stored(rig: Rig, monkeypatch) -> None:
    array = Host(roles=[Role.ARRAY], transport="https", address="array", name="array", adapter="x")
    rig.bench.inventory.hosts["array"] = array
    asked: list[int] = []

    def held(bench: Bench) -> dict[str, Answer]:
        asked.append(len(asked))
        used = Quantity.of(1000 + 500 * len(asked), "B")
        reading = Reading(name="array.capacity.physical_used", value=used)
        evidence = bench.witness(bench.inventory.hosts["self"]).ask(["true"], timeout_s=60)
        return {"array": Answer((reading,), (evidence.ref,))}

    monkeypatch.setattr(rig.suite, "_held", held)
    rig.suite.test_sessions_replayed_on_each_arm(rig.bench)
    name = "replay.array_physical_used"
    taken = [each for each in RunReader(rig.path).measurements() if each.name == name]
    assert [(each.host, str(each.value)) for each in taken] == [("array", "500 B")]
    assert asked == [0, 1]


def test_a_path_that_flips_a_bit_fails(rig: Rig, monkeypatch) -> None:
    right = "            os.close(fd)\n        return done\n"
    lie = right.replace("return", "buffer[9] ^= session == place == 0\n        return")
    lying(monkeypatch, "kvgate.workloads.replay_tier", right, lie)
    rig.suite.test_sessions_replayed_on_each_arm(rig.bench)
    assert rig.judge("G3.100")["G3.100"].verdict is Verdict.FAIL


def test_checks_that_find_nothing_fail_the_negative_control(rig: Rig, monkeypatch) -> None:
    lying(
        monkeypatch,
        "kvgate.workloads.replay_tier",
        "if _sum(buffer) == self._sums[chunk, version]:",
        "if True:",
    )
    rig.suite.test_planted_faults_are_found(rig.bench)
    assert rig.judge("G3.111")["G3.111"].verdict is Verdict.FAIL


def test_restores_out_of_the_page_cache_are_not_cold(rig: Rig, monkeypatch) -> None:
    honest = rig.suite.spec_of
    warm = lambda *words: dataclasses.replace(honest(*words), direct=False)  # noqa: E731
    monkeypatch.setattr(rig.suite, "spec_of", warm)
    lying(
        monkeypatch,
        "kvgate.workloads.replay_place",
        "os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)",
        "pass",
    )
    rig.suite.test_sessions_replayed_on_each_arm(rig.bench)
    assert rig.judge("G3.101")["G3.101"].verdict is Verdict.FAIL
    taken = [m for m in RunReader(rig.path).measurements() if m.name == "replay.restore_bw"]
    assert taken
    assert all(each.value is None and "not cold" in each.problem for each in taken)


SMALL = "--sessions 2 --ranks 1 --tokens 64 --chunk-tokens 16 --concurrency 2 --reads parallel:4"
IN_A_MOUNT = """
mount -o loop "$1/image" "$1/mounted" || exit 99
"$2" -m kvgate replay --path "$1/mounted" $3 --full --capacity '1 GB'; echo "code $?"
ls -A "$1/mounted"
mount -o remount,ro "$1/mounted"
"$2" -m kvgate replay --path "$1/mounted" $3; echo "code $?"
"""


def test_a_file_system_that_fills_up_and_one_that_is_read_only(tmp_path: pathlib.Path) -> None:
    """For real: a small ext4 in a mount namespace of its own, which ends with its process."""
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(32 * 2**20)
    (tmp_path / "mounted").mkdir()
    mkfs = shutil.which("mkfs.ext4", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if os.geteuid() != 0 or mkfs is None:
        pytest.skip("takes root and mkfs.ext4")
    subprocess.run([mkfs, "-q", str(image)], check=True, timeout=60)
    words = ["sh", "-c", IN_A_MOUNT, "sh", str(tmp_path), sys.executable, SMALL]
    done = subprocess.run(
        ["unshare", "-m", *words], capture_output=True, text=True, timeout=200, cwd=tmp_path
    )
    if done.returncode == 99:
        pytest.skip("no loop device can be mounted here")
    first, rest = done.stdout.split("code ", 1)
    assert "at ENOSPC: 2 sessions evicted, all that was left is right, and storing goes on" in first
    assert rest.split() == ["0", "lost+found", "code", "2"], "nothing was left"
    assert "Read-only file system" in done.stderr
