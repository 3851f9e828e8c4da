"""Long commands, small files and the end of a connection: the second half of the contract."""

from __future__ import annotations

import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kvgate.errors import CommandError
from kvgate.transport.leashed import Leashed

Gone = Callable[..., bool]
T = 30.0


def sh(script: str, *args: str) -> list[str]:
    return ["sh", "-c", script, "sh", *args]


def test_a_process_tells_its_pid_and_its_output_as_it_comes(
    way: Leashed, running: Callable[[int], bool]
) -> None:
    came = threading.Event()
    pieces: list[bytes] = []

    def take(piece: bytes) -> None:
        pieces.append(piece)
        came.set()

    process = way.start(
        sh("echo $$; echo err >&2; read x; sleep 300"), deadline_s=60, on_stdout=take
    )
    assert came.wait(T)
    assert int(b"".join(pieces)) == process.pid
    assert running(process.pid)
    process.stop()


def test_a_process_that_ends_by_itself(way: Leashed) -> None:
    process = way.start(sh("echo out; echo err >&2; exit 5"), deadline_s=60)
    result = process.wait(T)
    assert process.poll()
    assert (result.exit_status, result.stdout, result.stderr) == (5, b"out\n", b"err\n")
    assert not result.timed_out


def test_a_process_takes_env_and_hostile_arguments(way: Leashed) -> None:
    process = way.start(
        sh('printf "%s|" "$KVGATE_X" "$@"', "", "-n", "$(id)", "'\n"),
        deadline_s=60,
        env={"KVGATE_X": "a b"},
    )
    assert process.wait(T).stdout == b"a b||-n|$(id)|'\n|"


def test_waiting_for_a_process_that_still_runs_is_an_error(way: Leashed) -> None:
    process = way.start(["sleep", "300"], deadline_s=60)
    with pytest.raises(CommandError, match="still runs"):
        process.wait(0.05)
    assert not process.poll()
    process.kill()


def test_stop_sends_term_to_the_whole_group(way: Leashed, gone: Gone) -> None:
    process = way.start(
        sh("trap 'echo term; exit 9' TERM; sleep 300 & echo $!; wait"), deadline_s=60
    )
    _let_traps_stand()
    result = process.stop()
    child, word = result.stdout.split()
    assert word == b"term"
    assert result.exit_status == 9
    assert gone(process.pid, int(child))


def _let_traps_stand() -> None:
    time.sleep(0.5)  # a TERM that comes before the shell has read its trap would prove nothing


def test_stop_kills_what_ignores_term(way: Leashed, gone: Gone) -> None:
    process = way.start(sh("trap '' TERM; while :; do sleep 1; done"), deadline_s=60)
    _let_traps_stand()
    result = process.stop(grace_s=0.3)
    assert (result.exit_status, result.signal) == (None, 9)
    assert gone(process.pid)


def test_kill_comes_at_once(way: Leashed, gone: Gone) -> None:
    process = way.start(sh("trap '' TERM; while :; do sleep 1; done"), deadline_s=60)
    process.kill()
    assert process.wait(T).signal == 9
    assert gone(process.pid)


def test_stopping_what_has_ended_tells_how_it_ended(way: Leashed) -> None:
    process = way.start(["true"], deadline_s=60)
    process.wait(T)
    process.kill()
    assert process.stop().exit_status == 0


def test_the_deadline_ends_a_process(way: Leashed, gone: Gone) -> None:
    process = way.start(["sleep", "300"], deadline_s=0.5)
    result = process.wait(T)
    assert result.timed_out
    assert gone(process.pid)


def test_a_process_that_is_not_there_exits_127(way: Leashed) -> None:
    assert way.start(["no-such-program-here"], deadline_s=60).wait(T).exit_status == 127


def test_output_of_a_process_is_capped_and_still_handed_on(way: Leashed) -> None:
    seen: list[int] = []
    process = way.start(
        ["head", "-c", "1000000", "/dev/zero"],
        deadline_s=60,
        cap_bytes=10,
        on_stdout=lambda piece: seen.append(len(piece)),
    )
    result = process.wait(T)
    assert (len(result.stdout), result.stdout_dropped, sum(seen)) == (10, 999_990, 1_000_000)


def test_an_error_in_on_stdout_ends_the_process_and_is_raised(way: Leashed, gone: Gone) -> None:
    def broken(piece: bytes) -> None:
        raise LookupError("of the caller")

    process = way.start(sh("sleep 1; echo x; sleep 300"), deadline_s=60, on_stdout=broken)
    with pytest.raises(LookupError, match="of the caller"):
        process.wait(T)
    assert gone(process.pid)


def test_close_ends_what_was_started(way: Leashed, gone: Gone) -> None:
    stubborn = way.start(sh("trap '' TERM; while :; do sleep 1; done"), deadline_s=600)
    mild = way.start(sh("sleep 300 & sleep 300"), deadline_s=600)
    _let_traps_stand()
    way.close()
    assert gone(stubborn.pid, mild.pid)


def test_a_transport_opens_afresh_after_close(way: Leashed) -> None:
    assert way.run(["true"], timeout_s=T).ok
    way.close()
    assert way.run(["true"], timeout_s=T).ok


@pytest.mark.parametrize("name", ["plain", "with space", "-dash", "quote'\n$(x)", "漢字"])
@pytest.mark.parametrize("data", [b"", b"\0\xff\n" * 100_000], ids=["empty", "binary"])
def test_a_file_is_written_and_read(way: Leashed, tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / name
    way.write_file(str(path), data, mode=0o640)
    assert path.read_bytes() == data
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert way.read_file(str(path)) == data
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_replaced_whole(way: Leashed, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before, and longer")
    with path.open("rb") as reader:
        way.write_file(str(path), b"after")
        assert reader.read() == b"before, and longer"
    assert path.read_bytes() == b"after"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("where", ["no/folder/file", "."])
def test_a_file_that_cannot_be_written_leaves_nothing(
    way: Leashed, tmp_path: Path, where: str
) -> None:
    with pytest.raises(CommandError):
        way.write_file(str(tmp_path / where), b"x")
    assert list(tmp_path.iterdir()) == []


def test_an_absent_file_and_one_over_the_cap_are_errors(way: Leashed, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="absent"):
        way.read_file(str(tmp_path / "absent"))
    path = tmp_path / "large"
    path.write_bytes(b"x" * 101)
    with pytest.raises(CommandError, match="more than 100 bytes"):
        way.read_file(str(path), cap_bytes=100)
    assert way.read_file(str(path), cap_bytes=101) == b"x" * 101
    with pytest.raises(CommandError, match="more than"):
        way.read_file("/dev/zero", cap_bytes=1000)
