"""Diagnostics with fakes of the tools: they print what the real ones do, and are judged by it."""

import contextlib
import json
import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from kvgate.errors import CommandError, HarnessError, NotRunError, ParseError
from kvgate.workloads import diagnostics, drive_test
from kvgate.workloads.diagnostics import Diagnostic

RVS_GOOD = "[RESULT] [1] [gst-fp16] gst 1234 GFLOPS 172400 Target: 172333 met: TRUE\nDone\n"
RVS_BAD = "[RESULT] [1] [gst-fp16] gst 1234 GFLOPS 99000 Target: 172333 met: FALSE\n"
AGFHC_GOOD = "Running recipe all_lvl1\nProgram exited with code AGFHC_SUCCESS [0]\n"
STRESS_GOOD = (
    "Stats: Found 0 hardware incidents\nStatus: PASS - please verify no corrected errors\n"
)
STRESS_BAD = (
    "Report Error: miscompare : DIMM Unknown : 1 : 20s\nStatus: FAIL - test discovered HW\n"
)


@pytest.fixture
def tool(bench: Any, tmp_path: Path) -> Any:
    """Return what puts a fake (name, script) where the inventory says the tool is."""

    def make(name: str, script: str) -> Any:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        bench.witness.host.tools[name] = str(path)
        return bench

    return make


def told(answer: Any) -> dict[str, Any]:
    return {r.name: r.problem if r.value is None else r.value for r in answer.readings}


def says(text: str, status: int = 0) -> str:
    return f"cat <<'END'\n{text}END\nexit {status}"


@pytest.mark.parametrize(
    ("diagnostic", "text", "status", "passed"),
    [
        (diagnostics.rvs(4), RVS_GOOD, 0, True),
        (diagnostics.rvs(4), RVS_GOOD + RVS_BAD, 0, False),
        (diagnostics.rvs(1), "[ERROR ] [1] no device\n", 0, False),
        (diagnostics.rvs(1), RVS_GOOD, 1, None),
        (diagnostics.rvs(1), "nothing was run\n", 0, None),
        (diagnostics.agfhc("all_lvl1"), AGFHC_GOOD, 0, True),
        (diagnostics.agfhc("all_lvl1"), AGFHC_GOOD + "hbm test: FAIL\n", 0, False),
        (diagnostics.agfhc("hbm_lvl5"), "ended\n", 0, None),
        (diagnostics.agfhc("hbm_lvl5"), "ended with code AGFHC_TEST_FAILURE\n", 1, False),
        (diagnostics.memory_test(5, mebibytes=64), STRESS_GOOD, 0, True),
        (diagnostics.memory_test(5, mebibytes=64), STRESS_BAD, 1, False),
        (diagnostics.memory_test(5, mebibytes=64), "Log: Seconds remaining: 3\n", 0, None),
    ],
)  # fmt: skip
def test_a_tool_is_judged_by_its_own_words(
    tool: Any, diagnostic: Diagnostic, text: str, status: int, passed: bool | None
) -> None:
    bench = tool(diagnostic.needs, says(text, status))
    answer = diagnostics.run(bench.witness, diagnostic)
    found = told(answer)
    if passed is None:
        assert isinstance(found["diagnostic.passed"], str)
    else:
        assert found["diagnostic.passed"] is passed
    assert {reading.item for reading in answer.readings} == {diagnostic.name}
    kept = bench.kept[answer.evidence[0]]
    assert text.encode() in kept.stdout
    assert kept.exit_status == status


def test_the_lines_that_failed_are_told(tool: Any) -> None:
    bench = tool("rvs", says(RVS_GOOD + RVS_BAD))
    found = told(diagnostics.run(bench.witness, diagnostics.rvs(2)))
    assert found["diagnostic.findings"] == RVS_BAD.strip()


def test_the_tool_gets_its_level(tool: Any) -> None:
    bench = tool("rvs", 'echo "pass: TRUE $*"')
    answer = diagnostics.run(bench.witness, diagnostics.rvs(3))
    assert bench.kept[answer.evidence[0]].stdout == b"pass: TRUE -r 3\n"


@pytest.mark.parametrize(
    "diagnostic",
    [diagnostics.rvs(1), diagnostics.agfhc("all_lvl1"), diagnostics.memory_test(1, mebibytes=1)],
    ids=lambda diagnostic: diagnostic.needs,
)
def test_a_missing_tool_is_not_run_and_named(bench: Any, diagnostic: Diagnostic) -> None:
    bench.witness.host.tools[diagnostic.needs] = "/nosuch/tool"
    with pytest.raises(NotRunError, match="'/nosuch/tool' is not there") as err:
        diagnostics.run(bench.witness, diagnostic)
    assert f"install {diagnostic.package}" in err.value.hint


def test_it_is_watched(tool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostics, "_WATCH_S", 0.1)
    heard: list[str] = []
    within: list[str] = []

    @contextlib.contextmanager
    def around() -> Any:
        within.append("in")
        yield
        within.append("out")

    bench = tool("rvs", "echo '[INFO] action 1'; sleep 1; echo 'pass: TRUE'")
    diagnostics.run(bench.witness, diagnostics.rvs(1), on_progress=heard.append, around=around)
    assert any("rvs.level-1, 0 min: [INFO] action 1" in each for each in heard)
    assert within == ["in", "out"]


def test_cancelling_ends_the_tool_on_the_host_and_keeps_what_it_said(tool: Any) -> None:
    bench = tool("rvs", "echo begun; exec sleep 600.123")
    cancel = threading.Event()
    threading.Timer(0.5, cancel.set).start()
    begin = time.monotonic()
    with pytest.raises(HarnessError, match="was cancelled"):
        diagnostics.run(bench.witness, diagnostics.rvs(5), cancel=cancel)
    assert time.monotonic() - begin < 20
    assert [each.stdout for each in bench.kept.values()] == [b"begun\n"]
    listed = bench.transport.run(["ps", "-eo", "args"], timeout_s=10).stdout
    assert b"sleep 600.123" not in listed


@pytest.mark.parametrize("make", [lambda: diagnostics.rvs(9), lambda: diagnostics.agfhc("x;y")])
def test_what_there_is_not_is_not_run(make: Any) -> None:
    with pytest.raises(NotRunError):
        make()


def test_an_estimate_is_the_sum() -> None:
    found = diagnostics.estimate((diagnostics.rvs(1), diagnostics.memory_test(60, mebibytes=1)))
    assert (found.seconds, found.bytes_written) == (360, 0)


# a drive that tests itself: its state is a file


DRIVE = """
state={folder}/state
[ -f "$state" ] || echo 0 >"$state"
case $1 in
device-self-test)
  [ ! -f {folder}/refuse ] || {{ echo 'Invalid Command Opcode' >&2; exit 1; }}
  case $4 in 0xf) echo 0 >"$state"; echo aborted >{folder}/aborted ;; *) echo 3 >"$state"
  echo started >>{folder}/started ;; esac ;;
self-test-log)
  read -r left <"$state"
  running=0
  [ "$left" -le 0 ] || {{ running=1; [ -f {folder}/hang ] || echo $((left - 1)) >"$state"; }}
  result=$(cat {folder}/result)
  printf '{{"Current Device Self-Test Operation": %s, "Current Device Self-Test Completion": 40,' \\
    "$running"
  printf '"List of Valid Reports": [%s]}}\\n' "$result" ;;
esac
"""


def report(result: int) -> str:
    return json.dumps({"Self test result": result, "Self test code": 1, "Power on hours": 12})


@pytest.fixture
def drive(tool: Any, tmp_path: Path) -> Any:
    def make(result: str) -> Any:
        (tmp_path / "result").write_text(result)
        return tool("nvme", DRIVE.format(folder=tmp_path))

    return make


def test_a_drive_tests_itself_and_passes(drive: Any, tmp_path: Path) -> None:
    bench = drive(report(0))
    heard: list[str] = []
    answer = drive_test.run(bench.witness, "nvme0n1", "SN1", every_s=0.05, on_progress=heard.append)
    assert told(answer)["nvme.self_test_passed"] is True
    assert {reading.item for reading in answer.readings} == {"SN1"}
    assert heard[0] == "self-test of nvme0n1: 40 %"
    assert (tmp_path / "started").read_text() == "started\n"


@pytest.mark.parametrize(("result", "passed"), [(5, False), (6, False), (7, False)])
def test_a_failed_segment_fails(drive: Any, result: int, passed: bool) -> None:
    bench = drive(report(result))
    answer = drive_test.run(bench.witness, "nvme0n1", "SN1", every_s=0.05)
    assert told(answer)["nvme.self_test_passed"] is passed


def test_a_test_that_was_aborted_is_no_verdict(drive: Any) -> None:
    answer = drive_test.run(drive(report(2)).witness, "nvme0n1", "SN1", every_s=0.05)
    assert told(answer)["nvme.self_test_passed"] == "aborted by a controller reset"


def test_a_resumed_run_waits_for_the_test_that_runs(drive: Any, tmp_path: Path) -> None:
    bench = drive(report(0))
    (tmp_path / "state").write_text("2\n")
    answer = drive_test.run(bench.witness, "nvme0n1", "SN1", every_s=0.05)
    assert told(answer)["nvme.self_test_passed"] is True
    assert not (tmp_path / "started").exists()


def test_cancelling_aborts_it_on_the_drive(drive: Any, tmp_path: Path) -> None:
    bench = drive(report(0))
    (tmp_path / "hang").touch()
    cancel = threading.Event()
    threading.Timer(0.3, cancel.set).start()
    with pytest.raises(HarnessError, match="was cancelled"):
        drive_test.run(bench.witness, "nvme0n1", "SN1", every_s=0.05, cancel=cancel)
    assert (tmp_path / "aborted").exists()


def test_a_test_that_hangs_is_aborted(
    drive: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = drive(report(0))
    (tmp_path / "hang").touch()
    monkeypatch.setitem(drive_test.MOST_S, drive_test.SHORT, 0.3)
    with pytest.raises(HarnessError, match="hung"):
        drive_test.run(bench.witness, "nvme0n1", "SN1", every_s=0.05)
    assert (tmp_path / "aborted").exists()


def test_a_drive_that_can_not_is_not_run(drive: Any, tmp_path: Path) -> None:
    bench = drive(report(0))
    (tmp_path / "refuse").touch()
    with pytest.raises(NotRunError, match="Invalid Command Opcode"):
        drive_test.run(bench.witness, "nvme0n1", "SN1")


def test_only_a_namespace_is_named(drive: Any) -> None:
    with pytest.raises(NotRunError, match="no NVMe namespace"):
        drive_test.run(drive(report(0)).witness, "sda; rm", "SN1")


@pytest.mark.parametrize(("log", "error"), [("5", ParseError), ("", HarnessError)])
def test_a_log_that_says_nothing_is_no_verdict(drive: Any, log: str, error: Any) -> None:
    with pytest.raises((error, CommandError)):
        drive_test.run(drive(log).witness, "nvme0n1", "SN1", every_s=0.05)
