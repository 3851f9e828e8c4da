"""Replay beside fio on the same file system, interleaved in one run: rates and CPU a GB.

Same block size (one chunk of Qwen3-Coder-480B at TP8), depth and data. ``REPLAY_BENCH_ROUNDS``
(default 5) and ``REPLAY_BENCH_SESSIONS`` (default 2, of 0.26 GB) make it longer; the folder is
``REPLAY_BENCH_FOLDER`` (default: pytest's). Each line has the ratio and its bar.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvgate.kv.content import Content
from kvgate.workloads.replay import Reads, Spec, program
from kvgate.workloads.replay_place import aligned
from kvgate.workloads.replay_result import Level, parsed

ROUNDS = int(os.environ.get("REPLAY_BENCH_ROUNDS", "5"))
SESSIONS = int(os.environ.get("REPLAY_BENCH_SESSIONS", "2"))
CHUNK = 8_126_464
CHUNKS, DEPTH = 32, 8
DATA = SESSIONS * CHUNKS * CHUNK
FIO = shutil.which("fio")

pytestmark = pytest.mark.skipif(FIO is None, reason="fio is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    named = os.environ.get("REPLAY_BENCH_FOLDER")
    path = Path(tempfile.mkdtemp(dir=named)) if named else tmp_path_factory.mktemp("replay")
    yield path
    shutil.rmtree(path)


def fio(folder: Path, rw: str, *, extents: bool) -> tuple[float, float]:
    """Return B/s and CPU seconds a GB of fio, its files unlinked before they are written anew.

    One file, or a file a chunk, made when it is opened, as replay's are.
    """
    if rw == "write":
        for path in folder.glob("fio-*"):
            path.unlink()
    files = 1 if extents else DATA // CHUNK
    words = [
        *(str(FIO), "--name=peer", f"--directory={folder}", f"--rw={rw}", f"--bs={CHUNK}"),
        *(f"--nrfiles={files}", f"--filesize={DATA // files}", "--filename_format=fio-$filenum"),
        *("--create_on_open=1", "--file_service_type=sequential"),
        *(f"--size={DATA}", "--direct=1", "--ioengine=libaio", f"--iodepth={DEPTH}"),
        *("--end_fsync=1", "--output-format=json", "--invalidate=1"),
    ]
    done = subprocess.run(words, capture_output=True, check=True, timeout=120)
    job = json.loads(done.stdout)["jobs"][0]
    part = job[rw]
    assert part["io_bytes"] == DATA
    seconds = job["job_runtime"] / 1e3
    cpu = (job["usr_cpu"] + job["sys_cpu"]) / 100 * seconds
    return DATA / seconds if rw == "write" else part["bw_bytes"], cpu / (DATA / 1e9)


def ours(folder: Path, seed: int, *, checked: bool, extents: bool) -> tuple[Level, Level]:
    """Return the levels of store and restore, by the program as it travels."""
    place = Path(tempfile.mkdtemp(prefix="kvgate-replay-", dir=folder))
    spec = Spec(
        seed=seed,
        sessions=SESSIONS,
        chunks=CHUNKS,
        chunk_bytes=CHUNK,
        checked=checked,
        extents=extents,
        store_readers=DEPTH,
        levels=(Reads(concurrency=2, readers=DEPTH),),
    )
    sent = folder / "replay.pyz"
    sent.write_bytes(program())
    try:
        words = [sys.executable, str(sent), spec.job(str(place), barrier=False)]
        done = subprocess.run(words, capture_output=True, check=True, timeout=120)
        found = parsed("here", done.stdout)
    finally:
        shutil.rmtree(place)
    assert not found.problems
    assert not found.damaged
    store, restore = found.levels
    assert restore.line["bytes_read"] == store.line["bytes_written"] == DATA
    return store, restore


def told(what: str, value: float, bar: float, *, least: bool) -> None:
    good = value >= bar if least else value <= bar
    sign = "≥" if least else "≤"
    print(f"{what}: {value:.3f} (bar {sign} {bar}) {'ok' if good else 'MISSED'}")


@pytest.mark.parametrize("extents", [True, False], ids=["extents", "chunk files"])
def test_restore_and_store_beside_fio(
    folder: Path, capsys: pytest.CaptureFixture[str], extents: bool
) -> None:
    rows: dict[str, list[tuple[float, float]]] = {}
    checks: list[float] = []

    def measure(which: str, number: int) -> None:
        if which == "fio":
            rows.setdefault("fio write", []).append(fio(folder, "write", extents=extents))
            rows.setdefault("fio read", []).append(fio(folder, "read", extents=extents))
            return
        store, restore = ours(folder, number, checked=which == "checked", extents=extents)
        for name, level, kind in (("store", store, "written"), ("restore", restore, "read")):
            rate, cpu = level.rate(kind), level.cpu_per_gb()
            assert rate is not None
            assert cpu is not None
            rows.setdefault(f"{which} {name}", []).append((rate, cpu))
        if which == "checked":
            checks.append(restore.cpu_per_gb("check_cpu_s") or 0.0)

    for number in range(ROUNDS):
        order = ["fio", "checked", "unchecked"]
        random.Random(number).shuffle(order)  # noqa: S311  reproducible
        for which in order:
            measure(which, number)

    def ratio(a: str, b: str, at: int) -> float:
        logs = [x[at] / y[at] for x, y in zip(rows[a], rows[b], strict=True)]
        return statistics.geometric_mean(logs)

    with capsys.disabled():
        print()
        for name, each in sorted(rows.items()):
            rates, cpus = [r / 1e9 for r, _ in each], [c for _, c in each]
            print(
                f"  {name:<18} {statistics.median(rates):6.3f} GB/s, "
                f"{statistics.median(cpus):.3f} CPU-s a GB ({len(each)} rounds)"
            )
        told("restore / fio read", ratio("checked restore", "fio read", 0), 0.97, least=True)
        bare = ratio("unchecked restore", "fio read", 0)
        told("restore, checks off / fio read", bare, 0.97, least=True)
        told("store / fio write", ratio("checked store", "fio write", 0), 0.95, least=True)
        cpu = ratio("unchecked restore", "fio read", 1)
        told("CPU, checks off / fio's", cpu, 1.8, least=False)
        told("checks, CPU-s a GB", statistics.median(checks), 0.16, least=False)


def test_content(capsys: pytest.CaptureFixture[str]) -> None:
    with aligned(CHUNK) as buffer, capsys.disabled():
        print()
        for pct in (0, 50, 80):
            content, each = Content(7, compressed_pct=pct), []
            for chunk in range(40):
                before = time.process_time()
                content.fill(buffer, chunk)
                each.append((time.process_time() - before) / (CHUNK / 1e9))
            name = f"content, {pct} % compressible, CPU-s a GB"
            told(name, statistics.median(each), 0.2, least=False)
