"""The private sshd: who gets in, what it leaves (nothing), and what it says where it can't be."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kvgate.errors import HarnessError, LoginError
from kvgate.spec.inventory import Host
from kvgate.transport import sshd as sshd_module
from kvgate.transport.ssh import SshTransport
from kvgate.transport.sshd import PrivateSshd

pytestmark = pytest.mark.sshd
Gone = Callable[..., bool]
T = 30.0


def host(server: PrivateSshd, **fields: object) -> Host:
    return Host.model_validate(
        {"roles": ["client"], "name": "here", **server.host_entry(), **fields}
    )


def test_it_comes_serves_and_goes_with_its_sessions(tmp_path: Path, gone: Gone) -> None:
    with PrivateSshd(tmp_path / "a %b" / "sshd") as server:
        port = server.port
        transport = SshTransport(host(server))
        assert transport.run(["echo", "hello"], timeout_s=T).stdout == b"hello\n"
        process = transport.start(["sleep", "300"], deadline_s=60)
        folder = tmp_path / "a %b" / "sshd"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((folder / "client_key").stat().st_mode) == 0o600
    assert gone(process.pid)
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), 2):
        pass


def test_its_keys_stay_the_same_when_it_is_started_again(tmp_path: Path) -> None:
    keys = []
    for _ in range(2):
        with PrivateSshd(tmp_path) as server:
            keys.append((tmp_path / "host_key.pub").read_text())
            assert SshTransport(host(server)).run(["true"], timeout_s=T).ok
    assert keys[0] == keys[1]


def test_it_listens_again_where_it_did_or_says_that_it_can_not(tmp_path: Path) -> None:
    with PrivateSshd(tmp_path) as first:
        port = first.port
        with pytest.raises(HarnessError, match=f"port {port} can't be listened on"):
            PrivateSshd(tmp_path / "other", port=port).__enter__()
    with PrivateSshd(tmp_path, port=port) as again:
        assert again.port == port
        assert SshTransport(host(again)).run(["echo", "hello"], timeout_s=T).stdout == b"hello\n"


def test_two_at_once_do_not_meet(tmp_path: Path) -> None:
    with PrivateSshd(tmp_path / "1") as one, PrivateSshd(tmp_path / "2") as two:
        assert one.port != two.port
        with pytest.raises(LoginError):
            SshTransport(host(one, key=two.host_entry()["key"])).open()


def test_a_password_is_not_even_asked_for(sshd: PrivateSshd) -> None:
    if shutil.which("ssh") is None:
        pytest.skip("needs the ssh client")
    tried = subprocess.run(
        [
            "ssh",
            "-F",
            "none",
            "-v",
            "-o",
            "BatchMode=yes",
            "-o",
            "IdentityFile=none",
            "-o",
            "IdentityAgent=none",
            "-o",
            f"UserKnownHostsFile={sshd.host_entry()['known_hosts']}",
            "-p",
            str(sshd.port),
            "127.0.0.1",
            "true",
        ],
        capture_output=True,
        timeout=30,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert tried.returncode == 255
    assert b"Permission denied (publickey)" in tried.stderr


def test_a_taken_port_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        begin = PrivateSshd._start
        calls: list[int] = []

        def first_on_a_taken_port(self: PrivateSshd, program: str) -> None:
            if not calls:
                config = sshd_module._CONFIG
                monkeypatch.setattr(
                    sshd_module,
                    "_CONFIG",
                    config.replace("{address}:{port}", f"127.0.0.1:{taken.getsockname()[1]}", 1),
                )
                begin(self, program)
                monkeypatch.setattr(sshd_module, "_CONFIG", config)
            else:
                begin(self, program)
            calls.append(self.port)

        monkeypatch.setattr(PrivateSshd, "_start", first_on_a_taken_port)
        with PrivateSshd(tmp_path) as server:
            assert len(calls) == 2
            assert SshTransport(host(server)).run(["true"], timeout_s=T).ok


def test_a_configuration_it_refuses_is_told_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sshd_module, "_CONFIG", sshd_module._CONFIG + "NoSuchOption yes\n")
    with pytest.raises(HarnessError, match="NoSuchOption"), PrivateSshd(tmp_path):
        pass


def test_missing_programs_name_their_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sshd_module.shutil, "which", lambda *_, **__: None)
    with pytest.raises(HarnessError, match="'sshd'") as caught, PrivateSshd(tmp_path):
        pass
    assert "openssh-server" in caught.value.hint


def test_an_account_without_a_shell_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = pwd.struct_passwd(("nobody", "x", 65534, 65534, "", "/", "/usr/sbin/nologin"))
    monkeypatch.setattr(sshd_module.pwd, "getpwuid", lambda _: account)
    with pytest.raises(HarnessError, match="nologin") as caught, PrivateSshd(tmp_path):
        pass
    assert "login shell" in caught.value.hint


SERVE = """
import ctypes, sys, threading
from pathlib import Path
from kvgate.spec.inventory import Host
from kvgate.transport.sshd import PrivateSshd
from kvgate.transport.ssh import SshTransport
ctypes.CDLL(None).prctl(47, 4, 0, 0, 0)  # PR_CAP_AMBIENT_CLEAR_ALL: children are as they would be
with PrivateSshd(Path(sys.argv[1])) as server:
    host = Host.model_validate({"roles": ["client"], "name": "here", **server.host_entry()})
    transport = SshTransport(host)
    print(transport.run(["id", "-u"], timeout_s=30).expect_ok().stdout.decode().strip(), end=" ")
    print(transport.start(["sleep", "300"], deadline_s=600).pid, server._process.pid, flush=True)
    if sys.argv[2] == "stay":
        threading.Event().wait()
"""


def test_it_ends_when_its_process_is_killed(tmp_path: Path, gone: Gone) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SERVE, str(tmp_path), "stay"], stdout=subprocess.PIPE
    ) as server:
        assert server.stdout is not None
        _, *pids = map(int, server.stdout.readline().split())
        os.kill(server.pid, signal.SIGKILL)
    assert gone(*pids)


@pytest.mark.parametrize("lock", ["!", "*"], ids=["locked", "no-password"])
def test_it_admits_a_root_whose_password_is_locked(tmp_path: Path, lock: str) -> None:
    _inside(tmp_path, f"sed -i 's/^root:[^:]*:/root:{lock}:/' etc/shadow", "0", uid=0)


def test_it_works_for_an_ordinary_user(tmp_path: Path) -> None:
    _inside(
        tmp_path,
        "echo 'kvgate:x:54321:54321::/tmp:/bin/sh' >>etc/passwd; "
        "echo 'kvgate:!:20000::::::' >>etc/shadow",
        "54321",
        uid=54321,
    )


def _inside(folder: Path, change: str, expected: str, *, uid: int) -> None:
    """Serve and log in as `uid` in a mount namespace whose account files are changed copies."""
    if os.geteuid() != 0 or not (shutil.which("unshare") and shutil.which("setpriv")):
        pytest.skip("needs root, unshare and setpriv")
    etc = folder / "etc"
    etc.mkdir()
    for name in ("passwd", "shadow"):
        shutil.copy2(Path("/etc") / name, etc / name)
    serving = folder / "serving"
    serving.mkdir()
    os.chown(serving, uid, uid)
    script = (
        f"cd '{folder}' && {change} && mount --bind etc/passwd /etc/passwd && "
        "mount --bind etc/shadow /etc/shadow && mount -t tmpfs none /run && "
        # the interpreter and the package may lie in /root: dac_read_search lets them be read
        f"mount --bind '{serving}' /mnt && cd / && exec setpriv --reuid={uid} --regid={uid} "
        + (
            "--keep-groups "
            if uid == 0
            else "--clear-groups --inh-caps=-all,+dac_read_search --ambient-caps=+dac_read_search "
        )
        + '"$@"'
    )
    ran = subprocess.run(
        [
            "unshare",
            "--mount",
            "sh",
            "-c",
            script,
            "sh",
            sys.executable,
            "-c",
            SERVE,
            "/mnt/sshd",
            "go",
        ],
        capture_output=True,
        timeout=90,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if b"unshare" in ran.stderr or b"mount:" in ran.stderr:
        pytest.skip(f"no mount namespace here: {ran.stderr.decode()[:200]}")
    assert ran.returncode == 0, ran.stderr.decode()
    assert ran.stdout.split()[0].decode() == expected
