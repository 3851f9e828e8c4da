"""Many commands in one channel: each framed, ended in time, and never another's."""

import datetime
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.errors import HostUnreachableError, ParseError
from kvgate.probes import ALL, gather, gather_script
from kvgate.probes.base import Command, Probe
from kvgate.spec.inventory import Host
from kvgate.transport.base import CommandResult
from kvgate.transport.local import LocalTransport

TOKEN = "kvgate0123456789abcdef"
SHELLS = [
    shell.split()
    for shell in ("dash -s", "bash --posix -s", "bash -s", "busybox sh -s")
    if shutil.which(shell.split()[0])
]


def sh(text: str, **fields: Any) -> Command:
    return Command(argv=("sh", "-c", text), **fields)


@pytest.fixture
def local() -> Iterator[LocalTransport]:
    transport = LocalTransport("h1")
    yield transport
    transport.close()


def result_of(stdout: bytes) -> CommandResult:
    return CommandResult(
        host="h1",
        argv=("/bin/sh", "-s"),
        exit_status=0,
        stdout=stdout,
        stderr=b"",
        started_at=datetime.datetime(2026, 11, 30, tzinfo=datetime.UTC),
        elapsed_s=1.0,
    )


def by_shell(shell: Sequence[str], commands: Sequence[Command], tmp_path: Path) -> Any:
    done = subprocess.run(
        shell,
        input=gather_script.script(commands, TOKEN),
        capture_output=True,
        timeout=60,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR": str(tmp_path)},
        start_new_session=True,
    )
    assert done.stderr == b""
    assert list(tmp_path.iterdir()) == []
    return gather.split(result_of(done.stdout), commands, TOKEN)


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_every_end_of_a_command_is_told_by_every_shell(
    shell: Sequence[str], tmp_path: Path
) -> None:
    commands = (
        sh("printf out; printf err >&2; exit 3"),
        Command(argv=("nosuchtool", "x")),
        Command(argv=("cat", "/dev/zero"), cap_bytes=10_000),
        sh("kill -9 $$"),
        sh("printf begun; exec sleep 60", timeout_s=1),
        sh("trap '' TERM; while :; do :; done", timeout_s=1),
        sh("cat; printf silence"),
        Command(argv=("printf", "%s|", "it's", "$HOME", "", "a  b\n")),
        sh("exit 124"),
    )
    found = by_shell(shell, commands, tmp_path)
    assert found.whole
    plain, missing, endless, killed, hung, deaf, stdin, quoted, status = (
        found.answers[command.argv] for command in commands
    )
    assert (plain.exit_status, plain.stdout, plain.stderr) == (3, b"out", b"err")
    assert missing.exit_status == 127
    assert len(endless.stdout) == 10_000
    assert endless.stdout_dropped > 0
    assert not endless.ok
    assert (killed.exit_status, killed.signal) == (None, 9)
    assert hung.timed_out
    assert hung.stdout == b"begun"
    assert 1 <= hung.elapsed_s < 6
    assert deaf.timed_out
    assert deaf.signal == 9
    assert stdin.stdout == b"silence"
    assert quoted.stdout == b"it's|$HOME||a  b\n|"
    assert (status.exit_status, status.timed_out) == (124, False)


def test_a_command_for_each_file_that_is_there(local: LocalTransport, tmp_path: Path) -> None:
    for name in ("a b", "it's", "new\nline"):
        (tmp_path / name).touch()
    command = Command(argv=("echo", "x{}y", "{}"), each=(f"{tmp_path}/*", f"{tmp_path}/none*"))
    found = gather.gather(local, (command,))
    assert found.whole
    assert {argv[2]: answer.stdout for argv, answer in found.answers.items()} == {
        name: f"x{name}y {name}\n".encode() for name in ("a b", "it's", "new\nline")
    }


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_ended_half_way_it_leaves_no_folder(shell: list[str], tmp_path: Path) -> None:
    slow = [Command(argv=("sleep", "30.4242"))]
    quick = [Command(argv=("true", str(number))) for number in range(100)]
    text = gather_script.script(slow + quick, TOKEN)
    for told in (1, 10, 30, 60):  # lines, so that it is met at its work
        with subprocess.Popen(
            shell,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)},
            start_new_session=True,
        ) as running:
            assert running.stdin
            assert running.stdout
            running.stdin.write(text)
            running.stdin.close()
            for _ in range(told):
                assert running.stdout.readline()
            os.killpg(running.pid, signal.SIGTERM)
            assert running.wait(60) == 143
        assert list(tmp_path.iterdir()) == []


def test_commands_run_side_by_side_and_what_they_leave_behind_ends(local: LocalTransport) -> None:
    begin = time.monotonic()
    seconds = [f"{i / 1000 + 3600}" for i in range(3)]
    slow = [sh(f"sleep {each} >/dev/null 2>&1 & sleep 1") for each in seconds]
    assert gather.gather(local, slow).whole
    assert time.monotonic() - begin < 2.9
    listed = local.run(["ps", "-eo", "args"], timeout_s=10).stdout.decode()
    assert not [each for each in seconds if f"sleep {each}\n" in listed]


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_a_refused_sudo_a_missing_tool_and_a_flood_cost_no_other_answer(
    shell: Sequence[str], tmp_path: Path
) -> None:
    """A sudo that asks for a password would wait for ever: it has no terminal and no stdin."""
    refusing, asking = tmp_path.parent / f"{tmp_path.name}-sudo", tmp_path.parent / "asks-sudo"
    refusing.write_text("#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n")
    asking.write_text("#!/bin/sh\nread -r word </dev/tty || read -r word || exit 1\n")
    for each in (refusing, asking):
        each.chmod(0o755)
    commands = (
        Command(argv=(str(refusing), "-n", "nvme", "list")),
        Command(argv=(str(asking), "dmidecode"), timeout_s=1),
        Command(argv=("sudo", "-n", "nosuchtool")),
        Command(argv=("/nosuch/folder/tool",)),
        sh("yes flood | head -c 30000000", cap_bytes=100_000),
        sh("yes flood | head -c 30000000 >&2", cap_bytes=100_000),
        sh("echo answered"),
    )
    found = by_shell(shell, commands, tmp_path)
    assert found.whole
    refused, asked, _, absent, flood, loud, last = (found.answers[c.argv] for c in commands)
    assert (refused.exit_status, refused.stderr) == (1, b"sudo: a password is required\n")
    assert asked.exit_status == 1 or asked.timed_out
    assert absent.exit_status == 127
    assert (len(flood.stdout), len(loud.stderr)) == (100_000, 100_000)
    assert flood.stdout_dropped > 0
    assert loud.stderr_dropped > 0
    assert (last.exit_status, last.stdout) == (0, b"answered\n")


def test_output_can_not_pass_for_another_frame() -> None:
    forged = f"{TOKEN} 1 0 0 1.00 2.00 0 4 0\n\nfake\n\n{TOKEN} end 9\n".encode()
    commands = (sh("one"), sh("two"))
    told = b"motd of a login\n" + f"{TOKEN} begin 5.00\n".encode()
    told += f"{TOKEN} 0 0 0 5.10 5.20 0 {len(forged)} 0\n\n".encode() + forged
    told += f"\n\n{TOKEN} 1 0 7 5.10 5.35 0 2 1\n\n".encode() + b"ok\n!\n"
    told += f"{TOKEN} end 2\n".encode()
    found = gather.split(result_of(told), commands, TOKEN)
    assert found.whole
    assert found.answers[commands[0].argv].stdout == forged
    two = found.answers[commands[1].argv]
    assert (two.exit_status, two.stdout, two.stderr, two.elapsed_s) == (7, b"ok", b"!", 0.25)
    assert two.started_at.microsecond == 100_000


@settings(deadline=None)
@given(st.data())
def test_a_cut_or_altered_stream_never_gives_an_answer_that_was_not_sent(
    data: st.DataObject,
) -> None:
    outs = data.draw(st.lists(st.binary(max_size=40), min_size=1, max_size=4))
    commands = tuple(sh(str(index)) for index in range(len(outs)))
    told = f"{TOKEN} begin 5.00\n".encode()
    for index, out in enumerate(outs):
        told += f"{TOKEN} {index} 0 0 5.10 5.20 0 {len(out)} 0\n\n".encode() + out + b"\n\n"
    told += f"{TOKEN} end {len(outs)}\n".encode()
    cut = told[: data.draw(st.integers(0, len(told)))]
    try:
        found = gather.split(result_of(cut), commands, TOKEN)
    except ParseError:
        return
    assert found.whole == (cut == told)
    for index, command in enumerate(commands):
        if command.argv in found.answers:
            assert found.answers[command.argv].stdout == outs[index]


def test_a_host_without_a_shell_is_refused(local: LocalTransport) -> None:
    class Silent(LocalTransport):
        def run(self, *_: Any, **__: Any) -> CommandResult:
            return result_of(b"This account is not available.\n")

    with pytest.raises(ParseError, match="told nothing"):
        gather.gather(Silent("h1"), (sh("one"),))


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="needs shellcheck")
def test_shellcheck_finds_nothing_in_the_script_of_all_probes(tmp_path: Path) -> None:
    declared = {"disks": [{"serial": "X", "nvme": True}], "gpus": {"count": 8, "id": "1002:74a2"}}
    host = Host.model_validate(
        {"roles": ["serving"], "address": "h", "sudo": "passwordless", "declared": declared}
    )
    script = tmp_path / "facts.sh"
    script.write_bytes(gather_script.script(gather.commands_of(ALL, host), TOKEN))
    done = subprocess.run(
        ["shellcheck", "-s", "sh", script], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout


class Counting(LocalTransport):
    """The local transport, which counts what it is asked; a gathering is ``/bin/sh -s``."""

    def __init__(self) -> None:
        super().__init__("h1")
        self.asked: list[tuple[str, ...]] = []

    def run(self, argv: Sequence[str], **options: Any) -> CommandResult:
        self.asked.append(tuple(argv))
        return super().run(argv, **options)


def probe(name: str, *argv: str) -> Probe:
    return Probe(
        name=name,
        measures=(name,),
        ask=lambda _: pytest.fail("not asked here"),
        commands=lambda _: (Command(argv=argv),),
    )


GATHERED = ("/bin/sh", "-s")


@pytest.fixture
def counting() -> Iterator[Counting]:
    transport = Counting()
    yield transport
    transport.close()


def test_a_gate_is_gathered_once_and_a_second_survey_asks_anew(counting: Counting) -> None:
    one, two, three = probe("one", "echo", "1"), probe("two", "echo", "2"), probe("3", "echo", "3")
    facts = gather.Facts(Host(roles=["serving"], transport="local"), counting, [one, two])
    first = facts.answered([one]).run(("echo", "1"), timeout_s=5, env={"LC_ALL": "C"})
    assert first.stdout == b"1\n"
    assert facts.answered([two]).run(("echo", "2"), timeout_s=5).stdout == b"2\n"
    assert counting.asked == [GATHERED]
    facts.answered([three])
    again = facts.answered([one]).run(("echo", "1"), timeout_s=5)
    assert counting.asked == [GATHERED] * 3
    assert again.started_at > first.started_at


def test_what_was_not_gathered_is_asked_for_real(counting: Counting) -> None:
    one = probe("one", "echo", "1")
    way = gather.Facts(Host(roles=["serving"], transport="local"), counting, []).answered([one])
    assert way.run(("echo", "other"), timeout_s=5).stdout == b"other\n"
    assert way.run(("echo", "1"), timeout_s=5, env={"LC_ALL": "de"}).stdout == b"1\n"
    assert way.run(("echo", "1"), timeout_s=5, stdin=b"x").stdout == b"1\n"
    assert len(counting.asked) == 4
    short = way.run(("echo", "1"), timeout_s=5, cap_bytes=1)
    assert (short.stdout, short.stdout_dropped, short.ok) == (b"1", 1, False)
    assert len(counting.asked) == 4


def test_tools_are_asked_where_the_inventory_says_they_are() -> None:
    host = Host(roles=["serving"], transport="local", tools={"fio": "/opt/fio"})
    both = [probe("a", "fio", "-v"), probe("b", "fio", "-v")]
    assert [each.argv for each in gather.commands_of(both, host)] == [("/opt/fio", "-v")]


def test_a_host_out_of_reach_says_so() -> None:
    class Gone(LocalTransport):
        def run(self, *_: Any, **__: Any) -> CommandResult:
            raise HostUnreachableError("h1", "no route")

    with pytest.raises(HostUnreachableError):
        gather.gather(Gone("h1"), (sh("one"),))


def test_every_probe_answers_the_same_alone_and_gathered(here: Any) -> None:
    witness = here({"disks": [{"name": "vda"}], "nics": [{"name": "lo"}]})
    known = [each for each in ALL if each.commands(witness.host)]
    told = gather.gather(witness.transport, gather.commands_of(known, witness.host))
    assert told.whole
    assert {each.host for each in told.answers.values()} == {"h1"}
