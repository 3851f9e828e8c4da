"""The watcher of paths on a folder for /sys, and what its lines tell."""

import contextlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.errors import HarnessError, KvgateError, ParseError
from kvgate.spec.inventory import Host, Role
from kvgate.telemetry import paths_script
from kvgate.telemetry.paths import PathWatch, away, departures
from kvgate.telemetry.paths_seen import Follower, Moment, PathId, PathState, parse
from kvgate.transport.local import LocalTransport
from kvgate.witness import Witness

LINE = (
    b"kvgate-paths 217.67 1796082777.017 nvme3 tcp traddr=10.77.1.1,trsvcid=4420,"
    b"src_addr=10.77.1.2 live optimized 12 30 nvme4 rdma traddr=10.77.2.1,trsvcid=4420 "
    b"connecting - - -"
)
A = PathId("tcp", "10.77.1.1", "4420", "10.77.1.2")
B = PathId("rdma", "10.77.2.1", "4420")


def test_a_path_is_the_same_one_while_it_is_not_connected() -> None:
    follower = Follower()
    gone = LINE.replace(b",src_addr=10.77.1.2 live", b" connecting")
    assert list(follower.moment(LINE).paths) == [A, B]
    assert list(follower.moment(gone).paths) == [A, B]
    assert follower.moment(gone).paths[A].state == "connecting"
    moved = gone.replace(b"10.77.1.1", b"10.77.7.7")
    assert PathId("tcp", "10.77.7.7", "4420") in follower.moment(moved).paths


def at(uptime: float, **states: str) -> Moment:
    paths = {
        {"a": A, "b": B}[name]: PathState("nvme1", *state.split("/"), 0, 0)
        for name, state in states.items()
    }
    return Moment(uptime, 1000 + uptime, paths)


def test_a_line_tells_paths_by_their_addresses() -> None:
    seen = parse(LINE)
    assert (seen.uptime_s, seen.clock_s, list(seen.paths)) == (217.67, 1796082777.017, [A, B])
    assert seen.paths[A] == PathState("nvme3", "live", "optimized", 12, 30)
    assert seen.best == {A}
    assert str(A) == "tcp 10.77.1.1:4420 from 10.77.1.2"
    assert seen.paths[B].told == "connecting"


def test_an_old_controller_that_is_being_deleted_hides_no_new_one() -> None:
    line = LINE.replace(
        b"nvme4 rdma traddr=10.77.2.1,trsvcid=4420 connecting",
        b"nvme9 tcp traddr=10.77.1.1,trsvcid=4420,src_addr=10.77.1.2 deleting",
    )
    assert parse(line).paths == {A: PathState("nvme3", "live", "optimized", 12, 30)}


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"kvgate-paths",
        b"kvgate-path 1.0 2.0",
        b"kvgate-paths x 2.0",
        b"kvgate-paths 1.0 2.0 nvme3 tcp",
        LINE.replace(b"nvme3", b"../../x"),
        LINE.replace(b" 12 ", b" -12 "),
        LINE.replace(b"live", b"\x1b[31m"),
    ],
)
def test_what_is_no_line_of_the_watcher_is_refused(line: bytes) -> None:
    with pytest.raises(ParseError, match="watcher of paths"):
        parse(line)


@given(st.binary(max_size=200) | st.builds(lambda cut: LINE[:cut], st.integers(0, len(LINE))))
@settings(max_examples=100)
def test_any_bytes_are_a_moment_or_refused(line: bytes) -> None:
    with contextlib.suppress(ParseError):
        assert parse(line).uptime_s >= 0


def test_a_path_is_away_while_it_is_worse_than_before() -> None:
    before = at(0, a="live/optimized", b="live/non-optimized")
    assert away(at(1, a="live/optimized", b="live/non-optimized"), before) == set()
    assert away(at(1, a="live/optimized", b="live/optimized"), before) == set()
    assert away(at(1, a="live/inaccessible", b="live/non-optimized"), before) == {A}
    assert away(at(1, a="live/optimized"), before) == {B}


def test_each_departure_counts_once() -> None:
    before = at(0, a="live/optimized", b="live/optimized")
    states = ["live", "connecting", "connecting", "live", "resetting"]
    course = [at(n, a=f"{each}/optimized", b="live/optimized") for n, each in enumerate(states)]
    assert list(departures(course, before, frozenset({A, B}))) == [(A, 1), (A, 4)]
    assert list(departures(course, before, frozenset({B}))) == []


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    controller = tmp_path / "class/nvme-subsystem/nvme-subsys0/nvme0"
    path = controller / "nvme0c0n1"
    path.mkdir(parents=True)
    (controller.parent / "subsysnqn").write_text("nqn.x\n")
    (controller.parent / "nvme0n1").mkdir()
    for name, text in {
        "transport": "tcp",
        "address": "traddr=1.2.3.4,trsvcid=4420",
        "state": "live",
    }.items():
        (controller / name).write_text(f"{text}\n")
    (path / "ana_state").write_text("optimized\n")
    (path / "stat").write_text(" 7 0 0 0 9 0 0 0 0 0 0\n")
    return tmp_path


@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_every_shell_prints_the_same_lines(tree: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    script = paths_script.command("nqn.x", 1, every_s=0.05, sys=str(tree))[4:]
    with subprocess.Popen(
        [shell, "-c", *script[:1], "w", *script[1:]], stdout=subprocess.PIPE
    ) as running:
        first = running.stdout.readline()
        (tree / "class/nvme-subsystem/nvme-subsys0/nvme0/state").write_text("connecting\n")
        while b"connecting" not in (second := running.stdout.readline()):
            pass
        running.kill()
    assert re.fullmatch(
        rb"kvgate-paths \d+\.\d\d \d+\.\d+ nvme0 tcp traddr=1\.2\.3\.4,trsvcid=4420 live optimized "
        rb"7 9\n",
        first,
    )
    assert parse(second.strip()).paths[PathId("tcp", "1.2.3.4", "4420")].state == "connecting"


@pytest.fixture
def witness() -> Witness:
    host = Host(roles=[Role.SERVING], transport="local", name="h")
    return Witness(host, LocalTransport("h"), lambda _: "0" * 64)


def test_a_watch_waits_for_what_is_seen_and_keeps_it_as_evidence(tree: Path, witness) -> None:
    state = tree / "class/nvme-subsystem/nvme-subsys0/nvme0/state"
    with PathWatch(witness, "nqn.x", every_s=0.05, sys=str(tree)) as watch:
        assert watch.wait(lambda seen: bool(seen.best), 30) is not None
        state.write_text("connecting\n")
        gone = watch.wait(lambda seen: not seen.best, 30)
        assert gone is not None
        assert gone.uptime_s <= watch.now_s() + 0.5
        assert watch.wait(lambda seen: bool(seen.best), 0.1) is None
    assert watch.evidence == ("0" * 64,)


def test_a_watcher_that_ended_tells_nothing(tree: Path, witness) -> None:
    with PathWatch(witness, "nqn.x", every_s=0.05, sys=str(tree)) as watch:
        watch.wait(lambda _: True, 30)
        watch._process.kill()
        watch._process.wait(30)
        with pytest.raises(HarnessError, match=r"the watcher of the paths of nqn\.x ended"):
            watch.check()


def test_a_silent_watcher_and_one_that_says_nonsense_are_told(
    tree: Path, witness, monkeypatch
) -> None:
    with PathWatch(witness, "nqn.x", every_s=0.05, sys=str(tree)) as watch:
        watch.wait(lambda _: True, 30)
        monkeypatch.setattr("kvgate.telemetry.paths.SILENT_S", -1)
        with pytest.raises(HarnessError, match="is silent"):
            watch.check()
        watch._take(b"something else\n")
        with pytest.raises(KvgateError, match="is no line of its"):
            watch.check()
