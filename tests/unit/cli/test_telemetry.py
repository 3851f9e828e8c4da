from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from kvgate.cli import main
from kvgate.store.run import RunWriter
from kvgate.telemetry.recorder import Recorder

START_MS = 1_796_083_200_000


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a run with two hosts' telemetry, a gap of 30 s in one."""
    path = tmp_path_factory.mktemp("runs") / "watched"
    with RunWriter.create(path, {"kvgate": "0"}, {}) as writer:
        _record(writer)
    return str(path)


def _record(run: RunWriter) -> None:
    with Recorder(
        run.path, journal=run.event, on_trouble=pytest.fail, clock=lambda: START_MS / 1000
    ) as recorder:
        for host in ("ini1", "ini2"):
            recorder.names(host, "fast", 1000, (("disk.a.reads", "c"), ("cpu.busy_pct", "l100")))
            for n in range(100):
                t = START_MS + 1000 * n + (30_000 if host == "ini2" and n > 49 else 0)
                recorder.numbers(host, "fast", t, t - START_MS, [50 * n, 100 * (n % 3)])
        recorder.names("ini1", "clock", 0, (("clock.offset_us", "l"), ("clock.round_trip_us", "l")))
        recorder.numbers("ini1", "clock", START_MS, 0, [1500, 200])
        recorder.event("ini1", START_MS, {"kind": "kernel", "text": "nvme0: \x1b[2Jtimeout"})


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(["telemetry", *words]) == code
    return capsys.readouterr().out


def test_an_overview_tells_hosts_series_gaps_clocks_and_events(
    run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = said(capsys, run)
    assert "ini1: 4 series (clock 2, fast 2)" in text
    assert "clock less the controller's: +1.500 to +1.500 ms, ± 0.100 ms" in text
    assert "  gaps: none\n" in text
    assert "gap: 2026-12-01T00:00:49.000Z to 2026-12-01T00:01:20.000Z, 31.0 s" in text
    assert "events: kernel 1" in text
    assert "disk.a.reads" not in text
    assert "disk.a.reads  (a second, every 1 s)" in said(capsys, run, "--names")
    told = json.loads(said(capsys, run, "--host", "ini2", "--format", "json"))
    assert {each["name"] for each in told["series"]} == {"disk.a.reads", "cpu.busy_pct"}
    assert len(told["gaps"]["ini2"]) == 1


def test_a_series_is_printed_with_its_gaps_and_exported(
    run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = said(capsys, run, "--host", "ini2", "--series", "disk.a.reads", "--points", "20")
    assert "each of 10 s: least, mean, greatest, a second" in text
    assert "gap: 2026-12-01T00:00:50.000Z to 2026-12-01T00:01:20.000Z, 30.0 s" in text
    (found,) = json.loads(
        said(
            capsys, run, "--host", "ini1", "--series", "disk.*", "--format", "json",
            "--from", "2026-12-01T00:00:10", "--to", "2026-12-01T00:00:12+00:00",
        )
    )  # fmt: skip
    assert [point["mean"] for point in found["points"]] == [50, 50]
    assert found["per_second"] is True
    out = tmp_path / "a.csv"
    said(capsys, run, "--series", "cpu.busy_pct", "--format", "csv", "-o", str(out))
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert {row["host"] for row in rows} == {"ini1", "ini2"}
    assert {row["high"] for row in rows} == {"2.0"}


def test_events_are_printed_harmless(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, run, "--events", "kernel")
    assert "ini1  kernel: nvme0: " in text
    assert "\x1b" not in text
    assert json.loads(said(capsys, run, "--events", "--format", "json", "--host", "ini1"))
    assert said(capsys, run, "--events", "restart") == "nothing of that kind happened\n"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--series", "nothing"], "no series 'nothing'"),
        (["--series", "cpu.busy_pct", "--from", "yesterday"], "'yesterday' is no time"),
        (["--series", "cpu.busy_pct", "--points", "1"], "no line"),
        (["--format", "csv"], "text or JSON"),
        (["--events", "--format", "csv"], "text or JSON"),
    ],
)
def test_what_cannot_be_told_is_refused(
    run: str, words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["telemetry", run, *words]) == 64
    assert why in capsys.readouterr().err


def test_a_run_without_telemetry_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run"
    RunWriter.create(path, {"kvgate": "0"}, {}).close()
    assert main(["telemetry", str(path)]) == 64
    assert "has no telemetry in series" in capsys.readouterr().err
