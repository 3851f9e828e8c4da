"""One contract for `ssh` and `local`: what a caller may rely on, whichever way leads to a host."""

from __future__ import annotations

import concurrent.futures
import datetime
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kvgate.errors import CommandError
from kvgate.transport import leash
from kvgate.transport.leashed import Leashed

Gone = Callable[..., bool]
MIB = 2**20
T = 30.0  # far more than anything here needs, for a machine that is busy with other things


def sh(script: str, *args: str) -> list[str]:
    return ["sh", "-c", script, "sh", *args]


@pytest.mark.parametrize("status", [0, 1, 3, 127, 128])
def test_an_exit_status_is_told(way: Leashed, status: int) -> None:
    result = way.run(sh(f"exit {status}"), timeout_s=T)
    assert result.exit_status == status
    assert result.ok == (status == 0)
    assert not result.timed_out


def test_a_result_says_who_what_and_when(way: Leashed) -> None:
    before = datetime.datetime.now(datetime.UTC)
    result = way.run(sh("echo out; echo err >&2"), timeout_s=T)
    assert (result.host, result.argv[0]) == (way.name, "sh")
    assert (result.stdout, result.stderr) == (b"out\n", b"err\n")
    assert before <= result.started_at <= datetime.datetime.now(datetime.UTC)
    assert 0 < result.elapsed_s < T


def test_a_program_that_is_missing_exits_127_and_the_hint_names_it(way: Leashed) -> None:
    result = way.run(["no-such-program-here", "--version"], timeout_s=T)
    assert result.exit_status == 127
    with pytest.raises(CommandError, match="no-such-program-here") as caught:
        result.expect_ok()
    assert "not installed" in caught.value.hint


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_signal_leaves_no_exit_status(way: Leashed, number: signal.Signals) -> None:
    result = way.run(sh(f"kill -{int(number)} $$"), timeout_s=T)
    assert result.exit_status is None
    assert result.signal == number
    assert not result.ok
    assert number.name in result.describe()


@pytest.mark.parametrize("size", [1, 5, 70_000, 3 * MIB])
def test_stdin_arrives_whole_and_ends(way: Leashed, size: int) -> None:
    data = (bytes(range(256)) * (size // 256 + 1))[:size]
    result = way.run(["cat"], timeout_s=T, stdin=data)
    assert result.exit_status == 0
    assert result.stdout == data


def test_without_stdin_there_is_none(way: Leashed) -> None:
    assert way.run(["wc", "-c"], timeout_s=T).stdout.strip() == b"0"


@pytest.mark.parametrize("script", ["exit 4", "exec <&-; sleep 0.2; exit 4"])
def test_stdin_that_nobody_reads_holds_nothing_up(way: Leashed, script: str) -> None:
    result = way.run(sh(script), timeout_s=T, stdin=b"KILL\nTERM\n" * 300_000)
    assert (result.exit_status, result.timed_out) == (4, False)


def test_env_is_set_for_the_command(way: Leashed) -> None:
    env = {"KVGATE_A": "one two", "KVGATE_B": "$(id) 'x' \"y\"\n`z`", "KVGATE_C": ""}
    result = way.run(
        sh('printf "%s|" "$KVGATE_A" "$KVGATE_B" "${KVGATE_C-unset}"'), timeout_s=T, env=env
    )
    assert result.stdout == b"one two|$(id) 'x' \"y\"\n`z`||"


@pytest.mark.parametrize("name", ["", "A B", "1A", "A=B", "-u", "Ä", "A\n"])
def test_a_name_that_is_none_is_no_environment_variable(way: Leashed, name: str) -> None:
    with pytest.raises(CommandError, match="environment variable"):
        way.run(["true"], timeout_s=T, env={name: "x"})


HOSTILE = [
    "",
    " ",
    "a b",
    "'",
    '"',
    "\\",
    "\\'",
    "''",
    "$(touch /tmp/x)",
    "`id`",
    "$HOME",
    "${IFS}",
    "-n",
    "--",
    "-",
    "a\nb",
    "\n",
    "\t",
    "*",
    "?",
    "~",
    "!",
    "!!",
    "&",
    ";",
    "|",
    ">",
    "#",
    "{a,b}",
    "é",
    "漢字",
    "🚪",
    "\x01\x1b[31m",
    "%s",
    "\udcff",
    "a=b",
]


def test_hostile_arguments_arrive_as_they_are(way: Leashed) -> None:
    result = way.run(sh('printf "%s\\0" "$@"', *HOSTILE), timeout_s=T)
    expected = [word.encode("utf-8", "surrogateescape") for word in HOSTILE]
    assert result.stdout.split(b"\0")[:-1] == expected


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        ([], "not the name of a program"),
        ([""], "not the name of a program"),
        (["-c"], "not the name of a program"),
        (["echo", "a\0b"], "NUL"),
        (["echo", "x" * 200_000], "120|command line"),
    ],
)
def test_what_no_shell_can_be_handed_is_refused(
    way: Leashed, argv: list[str], complaint: str
) -> None:
    with pytest.raises(CommandError, match=complaint):
        way.run(argv, timeout_s=T)


def test_three_mib_of_stderr_before_stdout_do_not_block(way: Leashed) -> None:
    result = way.run(
        sh(f"head -c {3 * MIB} /dev/zero >&2; head -c {3 * MIB} /dev/zero; echo end"), timeout_s=T
    )
    assert result.exit_status == 0
    assert len(result.stderr) == 3 * MIB
    assert result.stdout.endswith(b"\0end\n")


def test_every_byte_value_arrives(way: Leashed) -> None:
    script = "".join(f"\\{value:03o}" for value in range(256))
    assert way.run(["printf", script], timeout_s=T).stdout == bytes(range(256))


def test_the_deadline_ends_the_command_and_its_children_on_the_host(
    way: Leashed, gone: Gone
) -> None:
    begun = time.monotonic()
    result = way.run(sh("sleep 300 & echo $$ $!; sleep 300"), timeout_s=1.0)
    assert result.timed_out
    assert result.exit_status is None
    assert time.monotonic() - begun < 10
    assert "deadline" in result.describe()
    assert gone(*map(int, result.stdout.split()))


def test_the_deadline_kills_what_ignores_term(way: Leashed, gone: Gone) -> None:
    result = way.run(sh("trap '' TERM; echo $$; while :; do sleep 1; done"), timeout_s=0.5)
    assert result.timed_out
    assert result.elapsed_s < 0.5 + leash.GRACE_S + 8
    assert gone(int(result.stdout))


def test_output_over_the_cap_is_counted_and_not_kept(way: Leashed) -> None:
    result = way.run(
        sh("head -c 100000 /dev/zero; head -c 5000 /dev/zero >&2"), timeout_s=T, cap_bytes=1000
    )
    assert (len(result.stdout), result.stdout_dropped) == (1000, 99_000)
    assert (len(result.stderr), result.stderr_dropped) == (1000, 4000)
    assert result.exit_status == 0
    assert not result.ok
    with pytest.raises(CommandError, match="cap"):
        result.expect_ok()


def test_an_endless_writer_is_drained_in_bounded_memory(way: Leashed) -> None:
    before = _rss_bytes()
    result = way.run(["yes", "kvgate"], timeout_s=2.0, cap_bytes=MIB)
    assert result.timed_out
    assert len(result.stdout) == MIB
    assert result.stdout_dropped > MIB
    assert _rss_bytes() - before < 60 * MIB


def _rss_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


def test_what_a_command_leaves_in_its_group_is_ended_with_it(way: Leashed, gone: Gone) -> None:
    begun = time.monotonic()
    result = way.run(sh("sleep 300 & echo $!"), timeout_s=T)
    assert (result.exit_status, result.timed_out) == (0, False)
    assert time.monotonic() - begun < T / 2
    assert gone(int(result.stdout))


def test_a_daemon_that_holds_the_output_open_holds_nothing_up(way: Leashed) -> None:
    result = way.run(sh("setsid sleep 8 & echo $!"), timeout_s=T)
    assert (result.exit_status, result.timed_out) == (0, False)
    assert result.stdout.strip().isdigit()
    assert result.elapsed_s < 7


def test_twenty_commands_run_at_once(way: Leashed) -> None:
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        results = list(
            pool.map(
                lambda i: way.run(sh(f"sleep 0.2; echo {i}; exit {i}"), timeout_s=T), range(20)
            )
        )
    assert [result.exit_status for result in results] == list(range(20))
    assert [result.stdout for result in results] == [f"{i}\n".encode() for i in range(20)]


def test_nothing_of_the_leash_stays_after_a_command(way: Leashed, gone: Gone) -> None:
    pid = int(way.run(sh("echo $PPID"), timeout_s=T).stdout)
    assert gone(pid)
    assert gone(*_in_group(pid))


def _in_group(group: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group:
            found.append(int(stat.parent.name))
    return found
