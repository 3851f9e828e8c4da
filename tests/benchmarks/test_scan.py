"""Scanning beside fio, duperemove and restic on one tree (4 GB; KVGATE_SCAN_GB).

Memory has a file of its own (test_scan_memory.py).

One after the other, round by round, because timings drift; judged by the medians. From cache each
reads the same pages; from disk the pages are dropped before. Programs that are missing are told.
"""

from __future__ import annotations

import functools
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
Held = Callable[..., None]


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
    held: Held, what: str, bar: float, size: int, one: Callable[[], Any], other: Callable[[], Any]
) -> None:
    """Run both round by round; hold the ratio of their rates against the bar."""
    rounds = [(one(), other()) for _ in range(ROUNDS)]
    walls = [statistics.median(pair[at][0] for pair in rounds) for at in (0, 1)]
    cpus = [statistics.median(pair[at][1] for pair in rounds) for at in (0, 1)]
    ratio = statistics.median(pair[1][0] / pair[0][0] for pair in rounds)
    what = f"{what}: {size / walls[0] / 1e6:,.0f} against {size / walls[1] / 1e6:,.0f} MB/s, ratio"
    cpu = f"CPU {cpus[0] / size * GB:.2f} against {cpus[1] / size * GB:.2f} s a GB"
    held(what, ratio, bar, cpu)


def needs(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed: Debian package {program}")


@pytest.mark.parametrize("name", ["128 KiB", "all block sizes and chunks"])
@pytest.mark.timeout(600)
def test_from_disk_beside_fio(tree: Path, name: str, held: Held) -> None:
    needs("fio")
    files = ":".join(str(path) for path in sorted(tree.rglob("*")) if path.is_file())
    fio = ["fio", "--name=read", "--rw=read", "--bs=1M", "--direct=1", "--ioengine=libaio"]
    fio += ["--iodepth=8", "--thread", f"--filename={files}"]
    only = {"sizes": [131072], "chunked": False} if name == "128 KiB" else {}

    def scan() -> tuple[float, float]:
        out_of_cache(tree)
        return ours(tree, **only)

    peer = functools.partial(timed, *fio)
    beside(held, f"from disk, {name}, fio", 0.95, size_of(tree), scan, peer)


@pytest.mark.timeout(600)
def test_from_cache_beside_duperemove(tree: Path, tmp_path: Path, held: Held) -> None:
    needs("duperemove")

    def hashing() -> tuple[float, float]:
        (tmp_path / "hashes").unlink(missing_ok=True)
        return timed("duperemove", "-r", "-b", "128k", f"--hashfile={tmp_path}/hashes", tree)

    into_cache(tree)
    beside(
        held, "from cache, 128 KiB, duperemove", 0.85, size_of(tree),
        lambda: ours(tree, sizes=[131072], chunked=False), hashing,
    )  # fmt: skip


@pytest.mark.timeout(900)
def test_chunks_beside_restic(tree: Path, tmp_path: Path, held: Held) -> None:
    needs("restic")
    env = {"RESTIC_PASSWORD": "of a repository that stays empty", "HOME": str(tmp_path)}
    restic = ["restic", "-q", "--no-cache", "-r", str(tmp_path / "empty")]
    timed(*restic, "init", env=env)
    into_cache(tree)
    beside(
        held, "chunks, restic's dry run", 6, size_of(tree),
        lambda: ours(tree, sizes=[], chunked=True),
        lambda: timed(*restic, "backup", "--dry-run", tree, env=env),
    )  # fmt: skip
