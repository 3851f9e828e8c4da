"""What fiopy adds to a bare fio: same job, alternating; and how fast it reads fio's output.

``FIOPY_BENCH_S`` is the runtime of each fio run (default 5; the bar is stated for 30).
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import time
from pathlib import Path

from fiopy import Job, LocalRunner, Pattern, Run, jobs_text, parse_output, run

RUNTIME_S = float(os.environ.get("FIOPY_BENCH_S", "5"))
PAIRS = 4
RECORDED = Path(__file__).parents[1] / "recorded" / "fio"
FIO = shutil.which("fio") or "fio"


def job(folder: Path) -> Job:
    return Job(
        name="read",
        pattern=Pattern.RANDREAD,
        filename=str(folder / "data"),
        block_bytes=16384,
        size_bytes=64 * 2**20,
        engine="libaio",
        direct=True,
        queue_depth=4,
        jobs=4,
        threads=True,
        group_reporting=True,
        runtime_s=RUNTIME_S,
        time_based=True,
    )


def bare(folder: Path) -> tuple[float, float]:
    """Return wall seconds and bytes/s of fio alone, its output read by nothing."""
    path = folder / "bare.fio"
    path.write_text(jobs_text([job(folder)]))
    begun = time.monotonic()
    done = subprocess.run([FIO, "--output-format=json", str(path)], capture_output=True, check=True)
    took = time.monotonic() - begun
    return took, rate(
        Run(
            job_text="",
            finished=None,  # type: ignore[arg-type]
            output=parse_output(done.stdout, done.stderr, 0),
        )
    )


def through_fiopy(folder: Path) -> tuple[float, float]:
    """Return the same through fiopy, with progress every second."""
    said: list[object] = []
    begun = time.monotonic()
    done = run(
        [job(folder)],
        LocalRunner(),
        folder=str(folder),
        deadline_s=RUNTIME_S + 60,
        fio=FIO,
        on_progress=said.append,
    )
    took = time.monotonic() - begun
    assert len(said) >= RUNTIME_S - 1
    return took, rate(done)


def rate(done: Run) -> float:
    assert done.output is not None
    total = done.output.total("read")
    assert total is not None
    return total.bytes_per_s


def test_fiopy_adds_little_to_fio(tmp_path: Path) -> None:
    bare(tmp_path)  # lays the file out
    pairs = [
        (bare(tmp_path), through_fiopy(tmp_path))
        if n % 2
        else (through_fiopy(tmp_path), bare(tmp_path))[::-1]
        for n in range(PAIRS)
    ]
    alone = statistics.median(first[0] for first, _ in pairs)
    ours = statistics.median(second[0] for _, second in pairs)
    rates = statistics.median(second[1] / first[1] for first, second in pairs)
    added = ours - alone
    print(
        f"\n{RUNTIME_S:g} s of fio, median of {PAIRS} alternating pairs: alone {alone:.3f} s, "
        f"through fiopy {ours:.3f} s: ratio {ours / alone:.4f}, {added * 1000:+.0f} ms; "
        f"bandwidth ratio {rates:.3f}"
    )
    assert added <= max(0.3, 0.01 * alone)


def test_reading_a_result(benchmark: object) -> None:
    text = (RECORDED / "fio-3.33_status_interval.json").read_bytes()
    output = benchmark(parse_output, text, b"", 0)  # type: ignore[operator]
    assert output.documents == 5
