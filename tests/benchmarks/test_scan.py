"""Scanning beside fio, duperemove and restic on one tree (4 GB; KVGATE_SCAN_GB): rates and memory.

One after the other, round by round, because timings drift; judged by the medians. From cache each
reads the same pages; from disk the pages are dropped before. Programs that are missing are told.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

GB = 10**9
TREE_BYTES = int(float(os.environ.get("KVGATE_SCAN_GB", "4")) * GB)
FILE_BYTES = 64 * 2**20
ROUNDS = int(os.environ.get("KVGATE_SCAN_ROUNDS", "3"))
SCANNER = [sys.executable, "-m", "kvgate.workloads.scanner.main"]
TEN_TB = 10**13


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A tree of files that no two blocks are equal in: the most that a scan has to keep."""
    top = tmp_path_factory.mktemp("scan") / "tree"
    draw = np.random.default_rng(1)
    for number in range(max(2, TREE_BYTES // FILE_BYTES)):
        (top / f"d{number % 8}").mkdir(parents=True, exist_ok=True)
        (top / f"d{number % 8}" / str(number)).write_bytes(draw.bytes(FILE_BYTES))
    os.sync()
    yield top
    shutil.rmtree(top)


def size_of(tree: Path) -> int:
    return sum(path.stat().st_size for path in tree.rglob("*") if path.is_file())


def timed(*command: str | Path, env: dict[str, str] | None = None) -> tuple[float, float]:
    """Run a command; return its seconds by the clock, and of CPU."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    subprocess.run(
        [str(word) for word in command], check=True, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, timeout=170, env={**os.environ, **(env or {})},
    )  # fmt: skip
    took = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ours(tree: Path, **more: Any) -> tuple[float, float]:
    return timed(*SCANNER, json.dumps({"paths": [str(tree)], **more}))


def into_cache(tree: Path) -> None:
    for path in tree.rglob("*"):
        if path.is_file():
            path.read_bytes()


def out_of_cache(tree: Path) -> None:
    for path in tree.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def beside(
    what: str, bar: float, size: int, one: Callable[[], Any], other: Callable[[], Any]
) -> float:
    """Run both round by round; print and return the ratio of their rates."""
    rounds = [(one(), other()) for _ in range(ROUNDS)]
    walls = [statistics.median(pair[at][0] for pair in rounds) for at in (0, 1)]
    cpus = [statistics.median(pair[at][1] for pair in rounds) for at in (0, 1)]
    ratio = statistics.median(pair[1][0] / pair[0][0] for pair in rounds)
    print(
        f"\n{what}: {size / walls[0] / 1e6:,.0f} against {size / walls[1] / 1e6:,.0f} MB/s, "
        f"ratio {ratio:.2f} (bar {bar}); CPU {cpus[0] / size * GB:.2f} against "
        f"{cpus[1] / size * GB:.2f} s a GB"
    )
    return ratio


def needs(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed: Debian package {program}")


@pytest.mark.parametrize("name", ["128 KiB", "all block sizes and chunks"])
@pytest.mark.timeout(600)
def test_from_disk_beside_fio(tree: Path, name: str) -> None:
    needs("fio")
    files = ":".join(str(path) for path in sorted(tree.rglob("*")) if path.is_file())
    fio = ["fio", "--name=read", "--rw=read", "--bs=1M", "--direct=1", "--ioengine=libaio"]
    fio += ["--iodepth=8", "--thread", f"--filename={files}"]
    only = {"sizes": [131072], "chunked": False} if name == "128 KiB" else {}

    def scan() -> tuple[float, float]:
        out_of_cache(tree)
        return ours(tree, **only)

    assert beside(f"from disk, {name}, fio", 0.95, size_of(tree), scan, lambda: timed(*fio)) >= 0.95


@pytest.mark.timeout(600)
def test_from_cache_beside_duperemove(tree: Path, tmp_path: Path) -> None:
    needs("duperemove")

    def hashing() -> tuple[float, float]:
        (tmp_path / "hashes").unlink(missing_ok=True)
        return timed("duperemove", "-r", "-b", "128k", f"--hashfile={tmp_path}/hashes", tree)

    into_cache(tree)
    ratio = beside(
        "from cache, 128 KiB, duperemove", 0.85, size_of(tree),
        lambda: ours(tree, sizes=[131072], chunked=False), hashing,
    )  # fmt: skip
    assert ratio >= 0.85


@pytest.mark.timeout(900)
def test_chunks_beside_restic(tree: Path, tmp_path: Path) -> None:
    needs("restic")
    env = {"RESTIC_PASSWORD": "of a repository that stays empty", "HOME": str(tmp_path)}
    restic = ["restic", "-q", "--no-cache", "-r", str(tmp_path / "empty")]
    timed(*restic, "init", env=env)
    into_cache(tree)
    ratio = beside(
        "chunks, restic's dry run", 6, size_of(tree),
        lambda: ours(tree, sizes=[], chunked=True),
        lambda: timed(*restic, "backup", "--dry-run", tree, env=env),
    )  # fmt: skip
    assert ratio >= 6


def memory_of(pid: int) -> int:
    """Return the proportional share of a process and its children, in bytes."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    total = 0
    for each in (pid, *map(int, children)):
        try:
            text = Path(f"/proc/{each}/smaps_rollup").read_text()
        except OSError:
            continue  # ended meanwhile
        total += sum(int(line.split()[1]) for line in text.splitlines() if line[:4] == "Pss:")
    return total * 1024


def peak(tree: Path, **more: Any) -> int:
    """Return the most memory that a scan and its workers had."""
    command = [*SCANNER, json.dumps({"paths": [str(tree)], **more})]
    most = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as scan:
        while scan.poll() is None:
            try:
                most = max(most, memory_of(scan.pid))
            except OSError:
                break
            time.sleep(0.02)
    return most


def test_memory_for_ten_terabytes(tree: Path) -> None:
    """Distinct blocks cost memory up to the limit; beyond it only more files could."""
    part = tree / "d0"
    full = peak(tree, memory=400_000_000)
    small = peak(part, memory=400_000_000)
    slope = max(0.0, (full - small) / (size_of(tree) - size_of(part)))
    limited = peak(tree)  # at 1 GB
    unlimited = small + slope * TEN_TB
    print(
        f"\nmemory: {limited / 1e6:,.0f} MB of 1 GB for {size_of(tree) / GB:.1f} GB; at a limit "
        f"of 400 MB {small / 1e6:,.0f} and {full / 1e6:,.0f} MB, {slope * GB / 1e3:,.1f} kB a GB; "
        f"without a limit 10 TB would take {unlimited / GB:,.1f} GB"
    )
    assert full <= 400_000_000
    assert limited <= GB
