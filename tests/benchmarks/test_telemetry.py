"""Telemetry against its bars: a sampler on its host, and an hour of 100 hosts of 200 series."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kvgate.telemetry import source
from kvgate.telemetry.archive import Archive
from kvgate.telemetry.hostgpu import Rows
from kvgate.telemetry.hostread import told
from kvgate.telemetry.hostsampler import Files

HOST_CPU_PCT = 1.0
DISK_GB, MEMORY_MB = 12.0, 400.0
HOURS = 72
HOUR = Path(__file__).with_name("telemetry_hour.py")


def cpu_of(words: list[str], seconds: float) -> float:
    """Return the CPU seconds, children's too, that a sampler takes in `seconds` once it runs."""
    child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        while not child.stdout.readline().startswith((b"V", b"F")):
            pass
        before = _ticks(child.pid)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            child.stdout.readline()
        return (_ticks(child.pid) - before) / 100
    finally:
        child.kill()
        child.stdin.close()
        child.stdout.close()
        child.wait()


def _ticks(pid: int) -> int:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(word) for word in words[11:15])


@pytest.mark.parametrize("shell_only", [False, True], ids=["python", "shell"])
def test_a_sampler_takes_at_most_a_percent_of_a_core(shell_only: bool) -> None:
    seconds = 30.0
    spent = cpu_of(source.command(shell_only=shell_only), seconds)
    pct = 100 * spent / seconds
    name = "shell" if shell_only else "python"
    print(
        f"\nsampler ({name}) {pct:.3f} % of a core; bar {HOST_CPU_PCT} %: {pct / HOST_CPU_PCT:.2f}"
    )
    assert pct <= HOST_CPU_PCT


def test_a_large_hosts_files_take_the_sampler_at_most_a_percent(tmp_path: Path) -> None:
    """700 counters of eight RDMA ports and their like: files of a few bytes, kept open."""
    for number in range(700):
        (tmp_path / f"counter{number}").write_text(f"{number * 10**9}\n")
    files = Files(
        [f"{tmp_path}/*", "/proc/stat", "/proc/diskstats", "/proc/net/dev", "/proc/vmstat"]
    )
    named = "/sys/class/infiniband/mlx5_{}/ports/1/hw_counters/{}"
    began, rounds = time.process_time(), 50
    for _ in range(rounds):
        texts = files.read()
        as_read = {
            named.format(n % 8, path.rpartition("/")[2])
            if path.startswith(str(tmp_path))
            else path: text
            for n, (path, text) in enumerate(texts.items())
        }
        found, _ = told(as_read, {})
    pct = 100 * (time.process_time() - began) / rounds
    print(f"\n{len(found)} series: {pct:.3f} % of a core each second; bar {HOST_CPU_PCT} %")
    assert len(found) > 700
    assert pct <= HOST_CPU_PCT


def test_reading_amd_smi_takes_the_sampler_little() -> None:
    """Eight GPUs of 25 columns, as CSV, each second; amd-smi's own cost is not ours to bound."""
    header = "timestamp,gpu," + ",".join(f"column_{n}" for n in range(25))
    rows = [f"1764590400,{gpu}," + ",".join(str(n * 7) for n in range(25)) for gpu in range(8)]
    reader, rounds, seen = Rows(), 200, 0
    began = time.process_time()
    for _ in range(rounds):
        seen += sum(len(list(reader.line(line))) for line in [header, *rows, ""])
    pct = 100 * (time.process_time() - began) / rounds
    print(f"\namd-smi of 8 GPUs: {pct:.3f} % of a core each second; bar {HOST_CPU_PCT} % in all")
    assert seen == rounds - 1
    assert pct <= HOST_CPU_PCT / 2


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["mixed", "noise"])
def test_an_hour_of_100_hosts_fits_its_share(kind: str, tmp_path: Path) -> None:
    """The whole hour of a mixed site; of one that is noise only a tenth of the hosts."""
    hosts = 100 if kind == "mixed" else 10
    words = [sys.executable, str(HOUR), str(tmp_path), str(hosts), "200", "60", kind]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=800)
    found = json.loads(done.stdout)
    share = hosts / 100
    gb = found["bytes"] * HOURS / 1e9 / share
    cpu = 100 * sum(found["cpu_s"].values()) / 3600 / share
    print(
        f"\n{kind}: {found['bytes'] / 1e6 / share:.1f} MB an hour, × {HOURS} = {gb:.2f} GB "
        f"(bar {DISK_GB:g}: {gb / DISK_GB:.2f}); log {found['log_bytes'] / 1e6 / share:.0f} MB; "
        f"memory {found['peak_mb']:.0f} MB at most, by quarter {found['rss_mb']} "
        f"(bar {MEMORY_MB:g}: {found['peak_mb'] / MEMORY_MB:.2f}); "
        f"controller {cpu:.2f} % of a core {found['cpu_s']}"
    )
    assert found["troubles"] == []
    assert found["lost"] == 0
    if kind == "mixed":
        assert gb <= DISK_GB
        assert found["peak_mb"] <= MEMORY_MB
        _read(tmp_path)


def _read(path: Path) -> None:
    """Time what a first look at 72 h takes: the hour stands there 72 times."""
    folder = path / "telemetry"
    for each in list(folder.iterdir()):
        for number in range(2, HOURS + 1):
            (folder / f"{number:06d}{each.name[6:]}").hardlink_to(each)
    began = time.perf_counter()
    archive = Archive(path)
    opened = time.perf_counter() - began
    name = next(each.name for each in archive.series() if each.counter)
    began = time.perf_counter()
    line = archive.line("host007", name, at_most=100)
    took = time.perf_counter() - began
    assert line.points
    print(f"72 h: opened in {opened:.2f} s, a series at {line.width_s:g} s in {took:.2f} s")
