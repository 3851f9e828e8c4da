"""The ways through a run: direct pytest, force, entry by earlier runs, kill and resume."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from kvgate.store.reader import RunReader

if TYPE_CHECKING:
    from conftest import Site  # the small site of this folder

pytestmark = pytest.mark.whole

HOLDS = '''
@settles("G1.1")
def test_what_holds(bench: Bench) -> None:
    """Hold."""
    say(bench, "a.held", Quantity.of(1, "ms"))
'''
SECOND = HOLDS.replace("G1.1", "G2.1").replace("a.held", "b.held")
BLOCKS = '''
import os, pathlib, time

@settles("G1.1")
def test_four_rounds(bench: Bench) -> None:
    """Measure four rounds; wait in the third for as long as the file `hold` is there."""
    for host in bench.hosts("serving"):
        for block in bench.blocks("round", round=range(1, 5), host=[host.name]):
            with block:
                told = bench.witness(host).ask(["echo", block["round"]], timeout_s=10)
                reading = Reading(name="a.held", value=Quantity.of(1, "ms"))
                bench.record(Answer((reading,), (told.ref,)), host=host, phase="inspection",
                             round=block["round"])
                give_up = time.monotonic() + 60
                while block["round"] == "3" and pathlib.Path("hold").exists():
                    if time.monotonic() > give_up:
                        raise TimeoutError("nobody took the file away")
                    time.sleep(0.02)
'''
ONE = {"G1.1": ("a.held", "{at_most: 2 ms}")}


def wait_for(site: Site, kind: str, count: int, *, within_s: float = 60) -> None:
    """Wait until the newest run's journal holds `count` records of `kind`."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if site.runs() and len(site.events(kind)) >= count:
            return
        time.sleep(0.05)
    raise TimeoutError(f"no {count} records of {kind} within {within_s} s")


def children(pid: int) -> list[int]:
    """Return the children of a process."""
    with open(f"/proc/{pid}/task/{pid}/children") as stream:  # noqa: PTH123  a proc file
        return [int(word) for word in stream.read().split()]


def gone(pid: int, *, within_s: float = 30) -> bool:
    """Tell whether a process has ended within the time (a zombie has)."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        try:
            with open(f"/proc/{pid}/stat") as stream:  # noqa: PTH123  a proc file
                if stream.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_a_plain_pytest_makes_an_ordinary_run(site: Site) -> None:
    site.gate("G1", ONE, HOLDS)
    done = site.pytest("suites/g1", "--inventory", "inventory/local/this-machine.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kvgate: G1 pass (accepted)" in done.stdout
    assert site.findings()["G1.1"]["verdict"] == "pass"
    assert site.kvgate("verify", site.newest().name).returncode == 0
    assert site.kvgate("run").returncode == 0
    first, second = site.runs()
    kinds = [[event.kind for event in RunReader(run).events()] for run in (first, second)]
    assert kinds[0] == kinds[1]  # the same code path


def test_a_plain_pytest_exits_by_the_verdict(site: Site) -> None:
    site.gate("G1", {"G1.1": ("a.held", "{at_most: 1 us}")}, HOLDS)
    done = site.pytest("suites/g1", "--inventory", "inventory/local/this-machine.yaml")
    assert done.returncode == 1, done.stdout
    assert "G1.1 fail" in done.stdout


def test_without_inventory_the_plugin_is_inert(site: Site) -> None:
    (site.root / "test_other.py").write_text("def test_one() -> None:\n    pass\n")
    done = site.pytest("test_other.py")
    assert done.returncode == 0, done.stdout
    assert site.runs() == []


def test_a_test_that_settles_nothing_is_refused(site: Site) -> None:
    site.gate("G1", ONE, HOLDS + "\ndef test_of_nothing(bench: Bench) -> None:\n    pass\n")
    done = site.pytest("suites/g1", "--inventory", "inventory/local/this-machine.yaml")
    assert done.returncode == 4
    assert "names no criterion" in done.stdout + done.stderr


def test_a_later_gate_opens_on_an_earlier_run_with_the_same_serials(site: Site) -> None:
    site.gate("G1", ONE, HOLDS)
    site.gate("G2", {"G2.1": ("b.held", "{at_most: 2 ms}")}, SECOND, entry="G1")
    site.plan("G1", "G2")
    closed = site.kvgate("run", "--gate", "G2")
    assert closed.returncode == 2
    assert "G1 was not run yet" in site.events("gate_refused")[0]["because"]
    assert site.kvgate("run", "--gate", "G1").returncode == 0
    opened = site.kvgate("run", "--gate", "G2")
    assert opened.returncode == 0, opened.stderr
    assert any("opens on G1" in e["text"] for e in site.events("note"))


@pytest.mark.parametrize("how", ["altered", "sealed-by-hand"])
def test_an_earlier_run_that_is_not_as_it_was_sealed_opens_nothing(site: Site, how: str) -> None:
    site.gate("G1", ONE, HOLDS)
    site.gate("G2", {"G2.1": ("b.held", "{at_most: 2 ms}")}, SECOND, entry="G1")
    site.plan("G1", "G2")
    assert site.kvgate("run", "--gate", "G1").returncode == 0
    run = site.newest()
    if how == "altered":
        journal = run / "journal.jsonl"
        journal.write_bytes(journal.read_bytes().replace(b'"note"', b'"nota"', 1) + b"\n")
    else:
        (run / "SHA256SUMS.1").unlink()
        (run / "SHA256SUMS").write_bytes(b"")
    assert site.kvgate("run", "--gate", "G2").returncode == 2
    because = site.events("gate_refused")[0]["because"]
    assert "G2 stays closed" in because
    assert run.name in because


def test_a_forced_gate_opens_and_bars_acceptance(site: Site) -> None:
    site.gate("G1", ONE, HOLDS)
    site.gate("G2", {"G2.1": ("b.held", "{at_most: 2 ms}")}, SECOND, entry="G1")
    site.plan("G1", "G2")
    assert site.kvgate("run", "--force-gate", "because").returncode == 64
    done = site.kvgate("run", "--gate", "G2", "--force-gate", "looking for a cable")
    assert done.returncode == 0, done.stderr
    judged = site.events("gate_judged")[-1]
    assert (judged["verdict"], judged["disposition"]) == ("pass", "rejected")
    assert "looking for a cable" in (site.newest() / "report/report.html").read_text()


@pytest.mark.parametrize("victim", ["tests", "supervisor"])
def test_kill_and_resume_repeats_nothing_that_was_finished(site: Site, victim: str) -> None:
    site.gate("G1", ONE, BLOCKS)
    (site.root / "hold").touch()
    started = site.start("run")
    wait_for(site, "block_begin", 3)
    tests = children(started.pid)
    os.kill(tests[0] if victim == "tests" else started.pid, signal.SIGKILL)
    _, err = started.communicate(timeout=90)
    assert all(gone(pid) for pid in tests)
    (site.root / "hold").unlink()
    if victim == "tests":
        assert started.returncode == 3
        assert "kvgate run --resume" in err
    run = site.newest()
    ended_before = [e["block"] for e in site.events("block_end")]
    assert len(ended_before) == 2
    done = site.kvgate("run", "--resume", run.name)
    assert done.returncode == 0, done.stderr
    assert site.runs() == [run]
    blocks = [e["block"] for e in site.events("block_end")]
    assert len(blocks) == len(set(blocks)) == 4
    assert len(site.events("block_discarded")) == 1  # the torn one, whole, and said so
    begun = [e["block"] for e in site.events("block_begin")]
    assert all(begun.count(block) == 1 for block in ended_before)
    assert site.findings()["G1.1"]["verdict"] == "pass"
    assert site.kvgate("verify", run.name).returncode == 0


DIES_BEFORE_THE_JUDGE = """
import os, pathlib, signal
from kvgate.engine import judging

@settles("G1.1")
def test_that_ends_where_the_judge_begins(bench: Bench) -> None:
    \"\"\"Hold, and have the process killed when it is about to judge.\"\"\"
    say(bench, "a.held", Quantity.of(1, "ms"))
    if pathlib.Path("die").exists():
        judging.judge_gate_of = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_gate_that_was_closed_and_not_judged_is_judged_at_once(site: Site) -> None:
    site.gate("G1", ONE, DIES_BEFORE_THE_JUDGE)
    (site.root / "die").touch()
    done = site.kvgate("run")
    assert done.returncode == 0, done.stderr
    assert [e["verdict"] for e in site.events("gate_judged")] == ["pass"]
    assert site.kvgate("verify", site.newest().name).returncode == 0


def test_a_test_that_broke_is_not_mended_by_another_that_ran(site: Site) -> None:
    breaks = HOLDS.replace("what_holds", "what_breaks") + '    raise RuntimeError("planted")\n'
    site.gate("G1", ONE, breaks + HOLDS)
    assert site.kvgate("run").returncode == 2
    assert site.findings()["G1.1"]["verdict"] == "inconclusive"


def test_a_changed_suite_is_not_resumed(site: Site) -> None:
    site.gate("G1", ONE, BLOCKS)
    (site.root / "hold").touch()
    started = site.start("run")
    wait_for(site, "block_begin", 3)
    os.kill(children(started.pid)[0], signal.SIGKILL)
    started.communicate(timeout=90)
    (site.root / "hold").unlink()
    suite = site.root / "suites/g1/test_small.py"
    suite.write_text(suite.read_text() + "# changed\n")
    done = site.kvgate("run", "--resume", site.newest().name)
    assert done.returncode == 3
    assert "is not the file that this run began with" in done.stderr


def test_an_interrupt_stops_in_order_and_can_be_resumed(site: Site) -> None:
    site.gate("G1", ONE, BLOCKS)
    (site.root / "hold").touch()
    started = site.start("run")
    wait_for(site, "block_begin", 3)
    started.send_signal(signal.SIGTERM)
    _, err = started.communicate(timeout=90)
    assert started.returncode == 3
    assert "broke off" in err
    assert site.events("interrupted")
    (site.root / "hold").unlink()
    assert site.kvgate("run", "--resume", site.newest().name).returncode == 0


def test_two_at_one_run_are_refused_by_the_lock(site: Site) -> None:
    site.gate("G1", ONE, BLOCKS)
    (site.root / "hold").touch()
    started = site.start("run")
    wait_for(site, "block_begin", 3)
    second = site.kvgate("run", "--resume", site.newest().name)
    assert second.returncode == 2
    assert "in use by" in second.stderr
    assert f"process {started.pid}, run {site.newest().name}" in second.stderr
    (site.root / "hold").unlink()
    started.communicate(timeout=90)
    assert started.returncode == 0


def test_a_sealed_run_is_not_resumed(site: Site) -> None:
    site.gate("G1", ONE, HOLDS)
    assert site.kvgate("run").returncode == 0
    done = site.kvgate("run", "--resume", site.newest().name)
    assert done.returncode == 3
    assert "sealed" in done.stderr
