"""Diagnostics with fakes of the tools: they print what the real ones do, and are judged by it."""

import contextlib
import dataclasses
import json
import os
import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from kvgate.errors import CommandError, HarnessError, NotRunError, ParseError
from kvgate.model.quantity import Quantity
from kvgate.spec.diagnostics import AgfhcRecipe, DiagnosticsWorkload, MemoryTest, RvsLevel
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


def rvs(level: int) -> Diagnostic:
    return diagnostics.rvs(RvsLevel(level=level, duration=Quantity.of(60, "s")))


def agfhc(recipe: str) -> Diagnostic:
    return diagnostics.agfhc(AgfhcRecipe(recipe=recipe, duration=Quantity.of(60, "s")))


def memory(seconds: int, mebibytes: int) -> Diagnostic:
    size, duration = Quantity.of(mebibytes, "MiB"), Quantity.of(seconds, "s")
    return diagnostics.memory_test(MemoryTest(size=size, duration=duration))


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
        (rvs(4), RVS_GOOD, 0, True),
        (rvs(4), RVS_GOOD + RVS_BAD, 0, False),
        (rvs(1), "[ERROR ] [1] no device\n", 0, False),
        (rvs(1), RVS_GOOD, 1, None),
        (rvs(1), "nothing was run\n", 0, None),
        (agfhc("all_lvl1"), AGFHC_GOOD, 0, True),
        (agfhc("all_lvl1"), AGFHC_GOOD + "hbm test: FAIL\n", 0, False),
        (agfhc("hbm_lvl5"), "ended\n", 0, None),
        (agfhc("hbm_lvl5"), "ended with code AGFHC_TEST_FAILURE\n", 1, False),
        (memory(5, 64), STRESS_GOOD, 0, True),
        (memory(5, 64), STRESS_BAD, 1, False),
        (memory(5, 64), "Log: Seconds remaining: 3\n", 0, None),
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
    assert {reading.item for reading in answer.readings} == {""}
    kept = bench.kept[answer.evidence[-1]]
    assert text.encode() in kept.stdout
    assert kept.exit_status == status


def test_the_lines_that_failed_are_told(tool: Any) -> None:
    bench = tool("rvs", says(RVS_GOOD + RVS_BAD))
    found = told(diagnostics.run(bench.witness, rvs(2)))
    assert found["diagnostic.findings"] == RVS_BAD.strip()


def test_the_tool_gets_its_level(tool: Any) -> None:
    bench = tool("rvs", 'echo "pass: TRUE $*"')
    answer = diagnostics.run(bench.witness, rvs(3))
    assert bench.kept[answer.evidence[-1]].stdout == b"pass: TRUE -r 3\n"


@pytest.mark.parametrize(
    "diagnostic",
    [rvs(1), agfhc("all_lvl1"), memory(1, 1)],
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
    diagnostics.run(bench.witness, rvs(1), on_progress=heard.append, around=around)
    assert any("rvs.level-1, 0 min: [INFO] action 1" in each for each in heard)
    assert within == ["in", "out"]


def test_cancelling_ends_the_tool_on_the_host_and_keeps_what_it_said(tool: Any) -> None:
    bench = tool("rvs", "echo begun; exec sleep 600.123")
    cancel = threading.Event()
    threading.Timer(0.5, cancel.set).start()
    begin = time.monotonic()
    with pytest.raises(HarnessError, match="was cancelled"):
        diagnostics.run(bench.witness, rvs(5), cancel=cancel)
    assert time.monotonic() - begin < 20
    assert [each.stdout for each in bench.kept.values()][1:] == [b"begun\n"]
    listed = bench.transport.run(["ps", "-eo", "args"], timeout_s=10).stdout
    assert b"sleep 600.123" not in listed


def test_a_plan_asks_for_parts_and_they_take_their_time() -> None:
    asked = DiagnosticsWorkload.model_validate(
        {
            "rvs": [{"level": 1, "duration": "5 min"}, {"level": 4, "duration": "1 h"}],
            "memory": [{"size": "64 GiB", "duration": "10 min"}],
            "nvme_self_test": [{"kind": "extended", "duration": "2 h"}],
        }
    )
    parts = diagnostics.of_plan(asked, "rvs")
    assert {part: each.argv for part, each in parts.items()} == {
        "level-1": ("rvs", "-r", "1"),
        "level-4": ("rvs", "-r", "4"),
    }
    assert parts["level-4"].deadline_s == 3 * 3600 + 600
    memory = diagnostics.of_plan(asked, "memory")["65536-mib"]
    assert memory.argv == ("stressapptest", "-W", "-s", "600", "-M", "65536")
    assert diagnostics.of_plan(asked, "agfhc") == {}
    found = diagnostics.estimate(asked)
    assert (found.seconds, found.bytes_written) == (300 + 3600 + 600 + 7200, 0)


def test_memory_that_is_not_free_is_not_taken(tool: Any) -> None:
    bench = tool("stressapptest", says(STRESS_GOOD))
    with pytest.raises(NotRunError, match="MiB of memory are free, not 1073741824 MiB"):
        diagnostics.run(bench.witness, memory(1, 2**30))
    assert not [each for each in bench.transport.asked if each[0].endswith("stressapptest")]


def test_garbage_and_a_tool_that_hangs_are_no_verdict(tool: Any) -> None:
    bench = tool("rvs", "head -c 100000 /dev/urandom; echo; echo begun; exec sleep 600")
    hung = dataclasses.replace(rvs(1), seconds=(0.5 - 600) / 3)
    found = told(diagnostics.run(bench.witness, hung))
    assert "by its deadline" in found["diagnostic.passed"]


SUDO = """
# As sudo -n: what it runs is out of the reach of whoever asked (here: another session).
[ "$1 $2" = "-n --" ] || exit 9
shift 2
exec setsid -w "$@"
"""


@pytest.fixture
def by_sudo(bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the bench of a login that is root by sudo only."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "sudo").write_text(f"#!/bin/sh{SUDO}")
    (folder / "sudo").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    host = bench.witness.host.model_copy(update={"sudo": "passwordless"})
    bench.witness = dataclasses.replace(bench.witness, host=host)
    return bench


def test_by_sudo_a_tool_ends_as_it_does_without(by_sudo: Any, tool: Any) -> None:
    bench = tool("rvs", says(RVS_GOOD))
    answer = diagnostics.run(bench.witness, rvs(1))
    assert told(answer)["diagnostic.passed"] is True
    bench = tool("rvs", says(RVS_GOOD, 3))
    assert "exited 3" in told(diagnostics.run(bench.witness, rvs(1)))["diagnostic.passed"]


def test_by_sudo_cancelling_ends_the_tool_that_the_leash_can_not_reach(
    by_sudo: Any, tool: Any
) -> None:
    bench = tool("rvs", "trap '' TERM; echo begun; sleep 600.321 & wait; sleep 600.321")
    cancel = threading.Event()
    heard = threading.Event()
    threading.Thread(target=lambda: (heard.wait(60), cancel.set()), daemon=True).start()

    def hear(said: str) -> None:
        if "begun" in said:
            heard.set()

    with pytest.raises(HarnessError, match="was cancelled"):
        diagnostics.run(bench.witness, rvs(5), cancel=cancel, on_progress=hear)
    until = time.monotonic() + 60
    while b"sleep 600.321" in bench.transport.run(["ps", "-eo", "args"], timeout_s=10).stdout:
        assert time.monotonic() < until
        time.sleep(0.2)


# a drive that tests itself: its state is in files


DRIVE = (Path(__file__).parent / "fake_nvme.sh").read_text()
SHORT = drive_test.Watching(most_s=60, every_s=0.05, settle_s=0.3)


@dataclasses.dataclass
class Drive:
    """A fake drive: ``bench`` to ask it by, ``folder`` with what it holds."""

    bench: Any
    folder: Path

    def set(self, name: str, text: str = "") -> None:
        (self.folder / name).write_text(text)

    def got(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def test(self, kind: str = "short", watching: drive_test.Watching = SHORT) -> Any:
        return drive_test.run(self.bench.witness, "nvme0n1", "SN1", kind=kind, watching=watching)


@pytest.fixture
def drive(tool: Any, tmp_path: Path) -> Drive:
    folder = tmp_path / "drive"
    folder.mkdir()
    made = Drive(tool("nvme", f"folder={folder}\n{DRIVE}"), folder)
    made.set("log", entry(0, 2, 3))
    return made


def entry(result: int, kind: int, hours: int) -> str:
    return json.dumps({"Self test result": result, "Self test code": kind, "Power on hours": hours})


def test_a_drive_tests_itself_and_passes(drive: Drive) -> None:
    heard: list[str] = []
    answer = drive.test(watching=dataclasses.replace(SHORT, on_progress=heard.append))
    assert told(answer)["nvme.self_test_passed"] is True
    assert {reading.item for reading in answer.readings} == {"SN1"}
    assert heard[0] == "self-test of nvme0n1: 40 %"
    assert drive.got("commands") == ["/dev/nvme0n1 -s 0x1"]


@pytest.mark.parametrize("result", [5, 6, 7])
def test_a_failed_segment_fails(drive: Drive, result: int) -> None:
    drive.set("result", f"{result}\n")
    assert told(drive.test())["nvme.self_test_passed"] is False


def test_a_test_that_was_aborted_is_no_verdict(drive: Drive) -> None:
    drive.set("result", "2\n")
    assert told(drive.test())["nvme.self_test_passed"] == "aborted by a controller reset"


@pytest.mark.parametrize(("runs", "asked"), [(1, "short"), (2, "extended"), (2, "short")])
def test_a_resumed_run_waits_for_the_test_that_runs(drive: Drive, runs: int, asked: str) -> None:
    drive.set("running", f"{runs} 3\n")
    assert told(drive.test(asked))["nvme.self_test_passed"] is True
    assert drive.got("commands") == []


@pytest.mark.parametrize("runs", [1, 14])
def test_a_lesser_test_that_runs_is_waited_out_first(drive: Drive, runs: int) -> None:
    drive.set("running", f"{runs} 3\n")
    assert told(drive.test("extended"))["nvme.self_test_passed"] is True
    assert drive.got("commands") == ["/dev/nvme0n1 -s 0x2"]


def test_cancelling_aborts_it_on_the_drive(drive: Drive) -> None:
    drive.set("hang")
    cancel = threading.Event()
    threading.Timer(0.3, cancel.set).start()
    with pytest.raises(HarnessError, match="was cancelled"):
        drive.test(watching=dataclasses.replace(SHORT, cancel=cancel))
    assert drive.got("commands") == ["/dev/nvme0n1 -s 0x1", "/dev/nvme0n1 -s 0xf"]
    assert drive.got("running") == []


def test_what_another_started_is_left_alone(drive: Drive) -> None:
    drive.set("hang")
    drive.set("running", "2 3\n")
    with pytest.raises(HarnessError, match="hangs"):
        drive.test("extended", dataclasses.replace(SHORT, most_s=0.3))
    assert drive.got("commands") == []
    assert drive.got("running") == ["2 3"]


def test_a_test_that_hangs_is_aborted(drive: Drive) -> None:
    drive.set("hang")
    with pytest.raises(HarnessError, match="hangs: it still runs after 0 s, at 40 %"):
        drive.test(watching=dataclasses.replace(SHORT, most_s=0.3))
    assert drive.got("commands")[-1] == "/dev/nvme0n1 -s 0xf"


def test_a_drive_that_can_not_is_not_run(drive: Drive) -> None:
    drive.set("refuse")
    with pytest.raises(NotRunError, match="Invalid Command Opcode"):
        drive.test()


def test_only_a_namespace_is_named(drive: Drive) -> None:
    with pytest.raises(NotRunError, match="no NVMe namespace"):
        drive_test.run(drive.bench.witness, "sda; rm", "SN1", kind="short", watching=SHORT)


def test_an_old_entry_is_not_taken_for_the_test_that_was_started(drive: Drive) -> None:
    drive.set("forget")
    with pytest.raises(HarnessError, match="tells in its log of no self-test"):
        drive.test()


def test_a_drive_may_be_slow_to_show_what_was_started(drive: Drive) -> None:
    drive.set("slow", "2\n")
    found = drive.test(watching=dataclasses.replace(SHORT, settle_s=60))
    assert told(found)["nvme.self_test_passed"] is True


def test_a_log_that_says_nothing_is_no_verdict(drive: Drive) -> None:
    drive.set("garbage")
    with pytest.raises((ParseError, CommandError)):
        drive.test()


def test_a_missing_nvme_cli_is_named(bench: Any) -> None:
    bench.witness.host.tools["nvme"] = "/nosuch/nvme"
    with pytest.raises(NotRunError, match="is not there") as err:
        drive_test.run(bench.witness, "nvme0n1", "SN1", kind="short", watching=SHORT)
    assert "install nvme-cli" in err.value.hint
