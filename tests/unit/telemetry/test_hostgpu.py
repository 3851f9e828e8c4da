"""amd-smi's monitor as the sampler reads it: its forms, its versions, its ends; in fakes of it."""

from __future__ import annotations

import os
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from kvgate.telemetry import hostgpu
from kvgate.telemetry.archive import Archive
from kvgate.telemetry.channel import Settings
from kvgate.telemetry.hostgpu import FORMS, Monitor, Rows
from kvgate.telemetry.watching import Watching
from kvgate.transport.local import LocalTransport

RECORDED = Path(__file__).parents[2] / "recorded" / "amd_smi"
CSV = """\
timestamp,gpu,xcp,power_usage,hotspot_temperature,vram_used,pcie_bw
1764590400,0,0,141,43,283,N/A
1764590400,1,0,N/A,41,283,12

"""
JSON = """\
[
    {
        "timestamp": 1764590400,
        "gpu": 0,
        "power_usage": {
            "value": 141,
            "unit": "W"
        },
        "gfx": {"busy": 3.5, "list": [1, 2], "on": true},
        "pcie_bw": "N/A"
    }
]
"""


def samples(text: str) -> list[dict[str, Any]]:
    rows = Rows()
    return [found for line in text.split("\n") for found in rows.line(line)]


def plain(found: dict[str, Any]) -> dict[str, float | None]:
    return {name: None if v is None else v / 1000 for name, (_, v) in found.items()}


def test_a_csv_that_repeats_its_header_or_not_is_the_same_samples() -> None:
    header, *rest = CSV.split("\n")
    again, once = (
        samples("'CTRL' + 'C' to stop watching output:\n" + CSV * 3),
        samples("\ufeff" + header + "\n" + "\n".join(rest) * 3),
    )
    assert again == once
    assert len(again) == 2  # the third is not known to be whole
    assert plain(again[0]) == {
        "amdsmi.0.xcp0.power_usage": 141,
        "amdsmi.0.xcp0.hotspot_temperature": 43,
        "amdsmi.0.xcp0.vram_used": 283,
        "amdsmi.0.xcp0.pcie_bw": None,
        "amdsmi.1.xcp0.power_usage": None,
        "amdsmi.1.xcp0.hotspot_temperature": 41,
        "amdsmi.1.xcp0.vram_used": 283,
        "amdsmi.1.xcp0.pcie_bw": 12,
    }


def test_json_is_a_sample_when_it_ends() -> None:
    one, two = samples(JSON + '{"gpu_data": [{"gpu": 0, "gfx": {"busy": 4}}]}\n')
    assert plain(one) == {
        "amdsmi.0.power_usage_w": 141,
        "amdsmi.0.gfx_busy": 3.5,
        "amdsmi.0.pcie_bw": None,
    }
    assert plain(two) == {"amdsmi.0.gfx_busy": 4}


def test_a_table_for_people_has_units_and_its_processes_are_left_out() -> None:
    text = (RECORDED / "composed-rocm6.3-monitor.txt").read_text()
    (found, again) = samples(text + "\n" + text + "\n" + text)[:2]
    assert again == found
    told = plain(found)
    assert told["amdsmi.0.power_w"] == 141
    assert told["amdsmi.0.gpu_temp_c"] == 43
    assert told["amdsmi.1.power_w"] is None  # N/A
    assert told["amdsmi.0.single_ecc"] == 7
    assert told["amdsmi.0.vram_used_mb"] == 283
    assert not [name for name in told if "4711" in name or "pid" in name]


def test_partitions_of_a_gpu_are_apart() -> None:
    text = (RECORDED / "composed-rocm7.0-monitor-cpx.txt").read_text()
    found = plain(samples(text + text)[0])
    assert found["amdsmi.0.xcp0.gpu_t_c"] == 43
    assert found["amdsmi.0.xcp1.gpu_t_c"] is None
    assert found["amdsmi.0.xcp0.gfx%_pct"] == 3


@hypothesis.given(st.text(alphabet="gpuGPU,[]{}:\"' 0123456789NA/.-%\n\t\x00e°C", max_size=400))
def test_no_output_of_the_tool_raises(text: str) -> None:
    for found in samples("gpu,power\n" + text):
        assert all(value is None or abs(value) < 2**63 for _, value in found.values())


def test_what_never_ends_costs_no_memory() -> None:
    rows = Rows()
    tracemalloc.start()
    for _ in range(20_000):
        list(rows.line('{ "x": ' + "1" * 200))  # JSON without an end
    list(rows.line("]"))
    rows = Rows()
    list(rows.line("gpu,power"))
    for n in range(20_000):
        list(rows.line(f"{n % 9999},{'9' * 200}"))
    assert tracemalloc.get_traced_memory()[1] < 20 * 2**20
    tracemalloc.stop()


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return what puts an `amd-smi` of Python into PATH; each start is a line of ``starts``."""

    def make(body: str) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir()
        starts = tmp_path / "starts"
        path = folder / "amd-smi"
        path.write_text(
            f"#!{sys.executable} -ISE\nimport sys, time\n"
            f"open({str(starts)!r}, 'a').write(' '.join(sys.argv[1:]) + chr(10))\n"
            f"CSV = {CSV!r}\n{body}\n"
        )
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        return starts

    return make


def until(met: Callable[[], Any], within_s: float = 60.0) -> None:
    end = time.monotonic() + within_s
    while not met():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.02)


def test_one_process_is_a_stream_of_samples_and_its_end_is_a_gap(tmp_path: Path, tool: Any) -> None:
    """Sample this machine with an amd-smi that watches, dies once, and watches on."""
    starts = tool(
        f"first = sum(1 for _ in open({str(tmp_path / 'starts')!r})) == 1\n"
        "for n in range(6 if first else 10**6):\n"
        "    sys.stdout.write(CSV); sys.stdout.flush(); time.sleep(0.1)\n"
        "print('GPU reset', flush=True); sys.exit(9)\n"
    )
    notes: list[str] = []
    way = LocalTransport("box")
    with Watching(
        tmp_path / "run",
        [way],
        journal=lambda kind, **f: notes.append(f["text"]) if kind == "note" else None,
        settings=Settings(every_s=0.2, gpu="amd-smi"),
    ) as watching:
        until(lambda: starts.exists() and len(starts.read_text().splitlines()) == 2)
        time.sleep(1.0)
        assert watching.counts()["box"] > 5
    way.close()
    archive = Archive(tmp_path / "run")
    points = archive.line("box", "amdsmi.0.xcp0.power_usage").points
    assert {point.mean for point in points} == {141}
    assert len(points) >= 8
    assert not archive.line("box", "amdsmi.1.xcp0.power_usage").points  # N/A is no number
    assert len(starts.read_text().splitlines()) == 2  # two processes, never one a sample
    (event,) = archive.events("gpu")
    assert "amd-smi ended after 5 samples with status 9; it said: GPU reset" in event["text"]
    assert "started again in 2 s" in event["text"]
    assert not notes


def watched(monitor: Monitor, over: Callable[[], bool]) -> list[Any]:
    """Tend `monitor` as the sampler does, until `over`; return the samples."""
    found: list[Any] = []

    def met() -> bool:
        monitor.due = min(monitor.due, time.monotonic())  # waits are another test's
        monitor.tend()
        found.extend(monitor.read())
        return over()

    try:
        until(met)
    finally:
        monitor.stop()
    return found


def test_forms_that_a_version_has_not_are_left_for_the_next(tool: Any) -> None:
    starts = tool(
        "if '--csv' in sys.argv:\n"
        "    sys.exit('amd-smi: error: unrecognized arguments: -v')\n"
        "while True:\n"
        '    print(\'[{"gpu": 0, "power": 5}]\', flush=True); time.sleep(0.02)\n'
    )
    monitor = Monitor(1.0)
    found = watched(monitor, lambda: monitor.told > 3)
    assert plain(found[0]) == {"amdsmi.0.power": 5}
    assert [line.split()[3:] for line in starts.read_text().splitlines()] == [
        list(form) for form in FORMS[:3]
    ]
    assert "it said: amd-smi: error: unrecognized arguments: -v" in monitor.events[0]


def test_one_that_tells_nothing_in_any_form_is_given_up(tool: Any) -> None:
    starts = tool("print('no GPU driver is loaded'); sys.exit(255)")
    monitor = Monitor(1.0)
    assert not watched(monitor, lambda: bool(monitor.why))
    assert len(starts.read_text().splitlines()) == len(FORMS)
    assert "given up" in monitor.events[-1]
    monitor.tend()
    assert monitor.child is None


def test_one_that_prints_without_end_or_is_silent_is_ended(
    tool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool("while True: sys.stdout.write('x' * 65536)")
    monitor = Monitor(1.0)
    watched(monitor, lambda: bool(monitor.events))
    assert "prints without end" in monitor.events[0]
    assert len(monitor.rest) < 2 * hostgpu.LONGEST_LINE + 65536
    monkeypatch.setattr(hostgpu, "SILENT_S", 0.0)
    silent = Monitor(1.0)
    watched(silent, lambda: bool(silent.events))
    assert "was silent for" in silent.events[0]


def test_it_waits_longer_each_time_and_no_longer_once_it_ran_well(tool: Any) -> None:
    tool("sys.stdout.write(CSV * 2)")
    monitor = Monitor(1.0)
    waits = []
    for _ in range(8):
        seen = len(monitor.events)
        watched(monitor, lambda: len(monitor.events) > seen)  # noqa: B023
        waits.append(monitor.wait)
    assert waits == [2, 4, 8, 16, 32, 60, 60, 60]
    assert monitor.form == 0  # it told samples: another form would do no better
    monitor.tend()
    monitor.due = 0.0
    monitor.tend()
    monitor.began -= hostgpu.WELL_S
    until(lambda: list(monitor.read()) and monitor.child is None)
    assert monitor.wait == 1


def test_a_host_without_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monitor = Monitor(1.0)
    monitor.tend()
    assert (monitor.why, monitor.child, monitor.cpu_us()) == ("not installed", None, None)
