"""The leash in every shell that is here, and what is left when kvgate itself is killed: nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kvgate.transport import leash

SHELLS = {
    "sh": ["/bin/sh"],
    "dash": ["dash"],
    "bash": ["bash"],
    "bash-posix": ["bash", "--posix"],
    "busybox": ["busybox", "sh"],
}


@pytest.fixture(params=[name for name, argv in SHELLS.items() if shutil.which(argv[0])])
def shell(request: pytest.FixtureRequest) -> list[str]:
    """Return the argument list that starts a shell, each shell in turn."""
    return SHELLS[request.param]


class Leash:
    """A command on a leash whose stdin the test holds."""

    def __init__(
        self, shell: list[str], argv: list[str], *, stdin_bytes: int = 0, deadline_s: float = 60
    ) -> None:
        talks = stdin_bytes < 0
        words = leash.command(
            "h", argv, deadline_s=deadline_s, stdin_bytes=max(stdin_bytes, 0), talks=talks
        )
        self.child = subprocess.Popen(
            shell + words[1:],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )

    def send(self, data: bytes) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(data)

    def hang_up(self) -> None:
        assert self.child.stdin is not None
        self.child.stdin.close()

    def end(self) -> tuple[int, bytes, bytes]:
        """Return status, stdout and stderr once it has ended; stdin is held open until then."""
        assert self.child.stdout is not None
        assert self.child.stderr is not None
        with self.child.stdout as out, self.child.stderr as err:
            said = out.read(), err.read()
        status = self.child.wait(30)
        if self.child.stdin and not self.child.stdin.closed:
            self.child.stdin.close()
        return status, *said


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo out; echo err >&2; exit 7", (7, b"out\n", b"err\n")),
        ("kill -9 $$", (137, b"", b"")),
        ("kill -TERM $$", (143, b"", b"")),
        ("sleep 300 & echo x", (0, b"x\n", b"")),
    ],
)
def test_the_status_is_the_commands(
    shell: list[str], script: str, expected: tuple[int, bytes, bytes]
) -> None:
    assert Leash(shell, ["sh", "-c", script]).end() == expected


def test_a_missing_program_is_127(shell: list[str]) -> None:
    status, _, complaint = Leash(shell, ["no-such-program"]).end()
    assert (status, complaint) == (127, b"kvgate-leash: no-such-program: not found\n")


def test_stdin_is_cut_at_its_size_and_the_line_stays_open(shell: list[str]) -> None:
    held = Leash(shell, ["cat"], stdin_bytes=5)
    held.send(b"KILL\nTERM\nKILL\n")  # what follows the data is no request
    assert held.end() == (0, b"KILL\n", b"")


def test_a_command_that_is_talked_to_gets_every_line_but_the_leashs_own(shell: list[str]) -> None:
    script = 'read a; echo "$a!"; read b; echo "$b?"; exec <&-; echo deaf; sleep 300'
    held = Leash(shell, ["sh", "-c", script], stdin_bytes=-1)
    held.send(b"q 1\nq 2\n")
    assert held.child.stdout is not None
    assert [held.child.stdout.readline() for _ in range(3)] == [b"q 1!\n", b"q 2?\n", b"deaf\n"]
    held.send(b"into the void\nKILL\n")  # it does not listen any more, the leash does
    assert held.end()[0] == 137


@pytest.mark.parametrize(("word", "status"), [(b"TERM\n", 143), (b"KILL\n", 137)])
def test_a_request_ends_the_command(shell: list[str], word: bytes, status: int) -> None:
    held = Leash(shell, ["sleep", "300"])
    time.sleep(0.2)
    held.send(b"nonsense\n" + word)
    assert held.end()[0] == status


@pytest.mark.parametrize("stdin_bytes", [0, 2, -1], ids=["no-stdin", "stdin", "talks"])
@pytest.mark.parametrize("pause_s", [0, 0.2], ids=["at-once", "later"])
def test_the_end_of_the_line_ends_the_command(
    shell: list[str], stdin_bytes: int, pause_s: float
) -> None:
    begun = time.monotonic()
    held = Leash(shell, ["sleep", "300"], stdin_bytes=stdin_bytes)
    held.send(b"xx"[: max(stdin_bytes, 0)])
    time.sleep(pause_s)
    held.hang_up()
    assert held.end()[0] in (143, 137)
    assert time.monotonic() - begun < 15


def test_what_ignores_term_is_killed_after_the_grace(shell: list[str]) -> None:
    begun = time.monotonic()
    held = Leash(shell, ["sh", "-c", "trap '' TERM; echo x; while :; do sleep 300; done"])
    time.sleep(0.3)
    held.hang_up()
    assert held.end() == (137, b"x\n", b"")
    assert time.monotonic() - begun >= leash.GRACE_S


def test_the_hosts_own_timer_ends_it_when_the_link_is_silent(
    shell: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leash, "MARGIN_S", 0)
    assert Leash(shell, ["sleep", "300"], deadline_s=1).end()[0] == 143


def test_without_a_group_of_its_own_it_refuses(shell: list[str]) -> None:
    words = leash.command("h", ["true"], deadline_s=5)
    ran = subprocess.run(
        ["sh", "-c", '"$@"; exit $?', "sh", *shell, *words[1:]],
        capture_output=True,
        timeout=30,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert ran.returncode == 125
    assert b"not the leader" in ran.stderr


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="needs shellcheck")
def test_shellcheck_has_no_complaint() -> None:
    checked = subprocess.run(
        ["shellcheck", "-s", "sh", "-"],
        input=leash.SCRIPT.encode(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert checked.stdout.decode() == ""


CONTROLLER = """
import json, os, sys, threading
from kvgate.spec.inventory import Host
from kvgate.transport.local import LocalTransport
from kvgate.transport.ssh import SshTransport
way = sys.argv[1]
transport = LocalTransport("here") if way == "local" else (
    SshTransport(Host.model_validate(json.load(sys.stdin))))
script = "trap '' HUP; sleep 300 & (trap '' TERM; sleep 300 & echo $$ $!; wait) & echo $!; wait"
def show(piece):
    os.write(1, piece)
long = transport.start(["sh", "-c", script], deadline_s=600, on_stdout=show)
os.write(1, b"%d\\n" % long.pid)  # whole lines, of both threads
short = ["sh", "-c", 'echo $$ >"$1"; sleep 300', "sh", sys.argv[2]]
threading.Thread(target=lambda: transport.run(short, timeout_s=600), daemon=True).start()
threading.Event().wait()
"""


@pytest.mark.parametrize("way", ["local", pytest.param("ssh", marks=pytest.mark.sshd)])
def test_nothing_stays_on_the_host_when_kvgate_is_killed(
    way: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    gone: Callable[..., bool],
    running: Callable[[int], bool],
) -> None:
    entry = request.getfixturevalue("sshd").host_entry() if way == "ssh" else {}
    note = tmp_path / "pid"
    with subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, way, str(note)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as controller:
        assert controller.stdin is not None
        assert controller.stdout is not None
        controller.stdin.write(json.dumps({"roles": ["client"], "name": "here", **entry}).encode())
        controller.stdin.close()
        try:
            pids: list[int] = []
            while len(pids) < 4:
                pids += map(int, controller.stdout.readline().split())
            until = time.monotonic() + 30
            while not (note.exists() and note.read_text().strip()):
                assert time.monotonic() < until
                time.sleep(0.02)
            pids.append(int(note.read_text()))
            assert all(running(pid) for pid in pids)
        finally:
            controller.kill()
    assert gone(*pids, within_s=leash.GRACE_S + 10)
