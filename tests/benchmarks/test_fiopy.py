"""What fiopy adds to a bare fio: same job, alternating, here and over SSH; how fast it reads logs.

``FIOPY_BENCH_S`` is the runtime of each fio run (default 5; the bar is stated for 30),
``FIOPY_BENCH_PAIRS`` how often each is run.
"""

from __future__ import annotations

import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fiopy
from fiopy import (
    Job,
    LocalRunner,
    Pattern,
    Run,
    Runner,
    course,
    from_file,
    jobs_text,
    parse_output,
    run,
)
from kvgate.spec.inventory import Host, Role
from kvgate.transport.ssh import SshTransport
from kvgate.transport.sshd import PrivateSshd
from kvgate.witness import Witness
from kvgate.workloads.host_runner import HostRunner

RUNTIME_S = float(os.environ.get("FIOPY_BENCH_S", "5"))
PAIRS = int(os.environ.get("FIOPY_BENCH_PAIRS", "4"))
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


def through_fiopy(folder: Path, runner: Runner) -> tuple[float, float]:
    """Return the same through fiopy, with progress every second."""
    said: list[object] = []
    begun = time.monotonic()
    done = run(
        [job(folder)],
        runner,
        folder=str(folder),
        deadline_s=RUNTIME_S + 60,
        fio="fio",
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


@pytest.fixture
def over_ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    """Yield kvgate's runner to this machine by a private sshd, already connected."""
    with PrivateSshd(tmp_path_factory.mktemp("sshd")) as sshd:
        entry = {"roles": [Role.SERVING], **sshd.host_entry(), "name": "here"}
        host = Host.model_validate(entry)
        transport = SshTransport(host)
        try:
            transport.run(["true"], timeout_s=30)
            yield HostRunner(Witness(host, transport, lambda piece: repr(len(piece.stdout))))
        finally:
            transport.close()


def in_turns(folder: Path, runner: Runner, where: str) -> None:
    """Run fio alone and through fiopy in turns; the bar: at most 0.3 s and at most 1 %, of 30 s."""
    bare(folder)  # lays the file out
    pairs = []
    for n in range(PAIRS):
        if n % 2:
            alone = bare(folder)
            pairs.append((alone, through_fiopy(folder, runner)))
        else:
            ours = through_fiopy(folder, runner)
            pairs.append((bare(folder), ours))
    alone_s = statistics.median(first[0] for first, _ in pairs)
    ours_s = statistics.median(second[0] for _, second in pairs)
    rates = statistics.median(second[1] / first[1] for first, second in pairs)
    added = statistics.median(second[0] - first[0] for first, second in pairs)
    print(
        f"\n{where}: {RUNTIME_S:g} s of fio, median of {PAIRS} alternating pairs: alone "
        f"{alone_s:.3f} s, through fiopy {ours_s:.3f} s: {added * 1000:+.0f} ms, "
        f"{added / alone_s:+.2%}; bandwidth ratio {rates:.3f}"
    )
    assert added <= 0.3
    assert RUNTIME_S < 30 or added <= 0.01 * alone_s


def test_fiopy_adds_little_to_fio(tmp_path: Path) -> None:
    in_turns(tmp_path, LocalRunner(), "local")


def test_fiopy_adds_little_to_fio_over_ssh(tmp_path: Path, over_ssh: Runner) -> None:
    in_turns(tmp_path, over_ssh, "over SSH")


def test_reading_a_result(benchmark: object) -> None:
    text = (RECORDED / "fio-3.33_status_interval.json").read_bytes()
    output = benchmark(parse_output, text, b"", 0)  # type: ignore[operator]
    assert output.documents == 5


def write_log(path: Path, count: int, every_ms: int, block: int, seed: int) -> None:
    """Write a latency log of `count` lines as fio 3.33 does."""
    drawn = random.Random(seed)  # noqa: S311
    with path.open("w") as file:
        for n in range(1, count + 1):
            value = int(drawn.expovariate(1 / 400_000)) + 50_000
            file.write(f"{n * every_ms + drawn.randrange(3)}, {value}, 0, {block}, 0\n")


def test_a_log_of_10_000_points(tmp_path: Path, benchmark: Any) -> None:
    """The bar: at most 0.2 s."""
    path = tmp_path / "log"
    write_log(path, 10_000, 5, 4096, 1)
    found = benchmark(lambda: course([from_file(path)], window_s=1))
    assert found.samples == 10_000
    assert found.figures["read"].percentiles[1].ns
    print(f"\n10,000 points: {benchmark.stats.stats.median * 1000:.0f} ms (bar 200 ms)")
    assert benchmark.stats.stats.median <= 0.2


SEVENTY_TWO_HOURS = """
import resource, sys, time
from fiopy import course, from_file
begun = time.perf_counter()
found = course(map(from_file, sys.argv[1:]), window_s=60)
took = time.perf_counter() - begun
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
gap = found.gaps["all"][0].length_ms
print(took, time.process_time(), peak, found.samples, len(found.windows), gap)
"""


def test_a_log_of_72_hours(tmp_path: Path) -> None:
    """The bar: 16 jobs with windows of 1 s in at most 20 s and 500 MB (in a process of its own)."""
    paths = [tmp_path / f"log.{n}" for n in range(16)]
    for n, path in enumerate(paths):
        write_log(path, 72 * 3600, 1000, 0, n)
    done = subprocess.run(
        [sys.executable, "-c", SEVENTY_TWO_HOURS, *map(str, paths)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(fiopy.__file__).parents[1])},
    )
    took, cpu, peak, samples, windows, gap = map(float, done.stdout.split())
    print(
        f"\n72 h, 16 jobs, {samples:,.0f} lines, {windows:.0f} windows: {took:.1f} s "
        f"({cpu:.1f} s of CPU; bar 20 s), {peak:.0f} MiB (bar 500 MB), longest gap {gap:.0f} ms"
    )
    assert samples == 16 * 72 * 3600
    assert took <= 20
    assert peak <= 476
