"""Memory of a scan of 10 TB, by calculation from measured slopes: nobody scans 10 TB to know it.

What a scan keeps is bounded for each block size; what grows after that is measured where it is
merged, with digests that are drawn, as of files that no two blocks are equal in. The workers'
memory is that of real ones, on trees of 1, 2 and 4 GB.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

GB = 10**9
TEN_TB = 10**13
FILE_BYTES = 64 * 2**20
TREES = (1, 2, 4)
MERGED = (150, 300, 450)
"""GB that are merged: at 143 all block sizes have all that they keep."""

MERGE = """
import sys
import numpy as np
from kvgate.workloads.scanner.engine import Asked, settings_of
from kvgate.workloads.scanner.index import EVERYTHING
from kvgate.workloads.scanner.listing import SEGMENT
from kvgate.workloads.scanner.reading import Piece
from kvgate.workloads.scanner.state import State
from kvgate.workloads.scanner.totals import Totals
from kvgate.workloads.scanner.unit import Level
from kvgate.workloads.scanner.hashing import ALGORITHM
state = State("")
totals = Totals(settings_of(Asked(["/"]), 10**13))
draw = np.random.default_rng(1)
for number in range(int(sys.argv[1]) * 10**9 // SEGMENT):
    below, levels = totals.below(), {}
    for size in totals.settings.levels():
        level = Level(totals.settings.limit)
        level.index.below = below[size]
        count = SEGMENT // (size or 48 * 1024)
        level.index.add(draw.integers(0, EVERYTHING - 1, count, np.uint64, True), size or 48 * 1024)
        levels[size] = {**level.index.packed(), "blocks": count, "zero_blocks": 0, "zero_bytes": 0}
    packed = {"levels": levels, "hash": ALGORITHM, "bytes": SEGMENT, "hole_bytes": 0}
    packed |= {"left_out": 0, "through_cache": 0, "groups": {number % 4096: SEGMENT}}
    packed |= {"parts": [(number, 0, 32 * "0")], "tensors": [], "problems": [], "samples": {}}
    piece = Piece(number, f"/a/folder/{number}", 0, 0, 0, SEGMENT, SEGMENT, 0, 0, number, False)
    totals.merge([piece], packed)
    if number % 20 == 0:
        totals.save(state)
totals.save(state)
with open("/proc/self/status") as status:  # ru_maxrss would begin at that of our parent
    told = status.read()
print(1024 * int(told.split("VmHWM:")[1].split()[0]))
"""


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Path]]:
    """Trees of 1, 2 and 4 GB, of files that no two blocks are equal in."""
    top = tmp_path_factory.mktemp("scan")
    draw = np.random.default_rng(1)
    found = []
    for size in TREES:
        tree = top / str(size)
        for number in range(size * GB // FILE_BYTES):
            file = tree / f"d{number % 8}" / str(number)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(draw.bytes(FILE_BYTES))
        found.append(tree)
    os.sync()
    yield found
    shutil.rmtree(top)


def pss_of(pid: int) -> int:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return 1024 * sum(int(line.split()[1]) for line in text.splitlines() if line[:4] == "Pss:")


def peaks(tree: Path) -> tuple[int, int]:
    """Return the most memory that a scan itself and all of its workers together had."""
    command = [sys.executable, "-m", "kvgate.workloads.scanner.main"]
    itself = workers = 0
    with subprocess.Popen(
        [*command, json.dumps({"paths": [str(tree)]})], stdout=subprocess.DEVNULL
    ) as scan:
        while scan.poll() is None:
            try:
                itself = max(itself, pss_of(scan.pid))
                children = Path(f"/proc/{scan.pid}/task/{scan.pid}/children").read_text().split()
                workers = max(workers, sum(pss_of(int(each)) for each in children))
            except (OSError, ValueError):
                continue  # one has ended meanwhile
            finally:
                time.sleep(0.02)
    assert scan.returncode == 0
    return itself, workers


def merged(size: int) -> int:
    """Return the most memory of a process that merges the digests of `size` GB."""
    done = subprocess.run(
        [sys.executable, "-c", MERGE, str(size)], capture_output=True, check=True, timeout=170
    )
    return int(done.stdout)


@pytest.mark.timeout(900)
def test_memory_for_ten_terabytes(
    trees: list[Path], told: list[str], held: Callable[..., None]
) -> None:
    real = [peaks(tree) for tree in trees]
    for size, (itself, workers) in zip(TREES, real, strict=True):
        told.append(
            f"a real tree of {size} GB: {itself / 1e6:.0f} MB + workers {workers / 1e6:.0f}"
        )
    found = [merged(size) for size in MERGED]
    slope = max(0.0, float(np.polyfit(MERGED, found, 1)[0]))  # bytes a GB, once all is full
    crew = max(workers for _, workers in real)
    whole = found[-1] + slope * (TEN_TB / GB - MERGED[-1]) + crew
    parts = ", ".join(
        f"{size} GB {each / 1e6:.0f} MB" for size, each in zip(MERGED, found, strict=True)
    )
    detail = f"merging {parts}: {slope / 1e3:.1f} kB a GB; workers {crew / 1e6:.0f} MB"
    held("memory of a scan of 10 TB by calculation, GB", whole / GB, 1, detail, most=True)
