"""What only SSH has: host keys, logins, ways that lead nowhere, jump hosts, lost links."""

from __future__ import annotations

import concurrent.futures
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kvgate.errors import (
    CommandError,
    HostKeyError,
    HostUnreachableError,
    LoginError,
    SpecError,
)
from kvgate.model.quantity import Quantity
from kvgate.spec.inventory import Host, Inventory
from kvgate.transport import hostkeys
from kvgate.transport import sshd as sshd_module
from kvgate.transport.connect import Connections
from kvgate.transport.ssh import SshTransport
from kvgate.transport.sshd import PrivateSshd

pytestmark = pytest.mark.sshd
Other = Callable[..., Host]
T = 30.0


@pytest.fixture
def new_key(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that makes a key pair and gives the private half's path."""

    def make(name: str, *options: str) -> Path:
        path = tmp_path / name
        subprocess.run(
            ["ssh-keygen", "-q", "-N", "", "-f", str(path), *(options or ("-t", "ed25519"))],
            check=True,
            timeout=60,
        )
        return path

    return make


def public(path: Path) -> str:
    return " ".join(path.with_name(path.name + ".pub").read_text().split()[:2])


def test_an_unknown_key_is_refused_with_fingerprint_and_the_line_to_add(
    other: Other, tmp_path: Path
) -> None:
    known = tmp_path / "known_hosts"
    host = other(known_hosts=str(known))
    with pytest.raises(HostKeyError) as caught:
        SshTransport(host).open()
    assert host.known_hosts != other().known_hosts
    right = Path(str(other().known_hosts)).read_text().strip()
    assert right in caught.value.message
    assert "SHA256:" in caught.value.message
    assert "not known" in caught.value.message
    assert str(known) in caught.value.hint
    line = next(row for row in caught.value.message.splitlines() if row.startswith("    "))
    known.write_text(line.strip() + "\n")  # what the message says to do is enough
    assert SshTransport(host).run(["true"], timeout_s=T).ok


def test_a_changed_key_is_told_apart(
    other: Other, tmp_path: Path, new_key: Callable[..., Path]
) -> None:
    name = hostkeys.host_name("127.0.0.1", other().port)
    known = tmp_path / "known_hosts"
    known.write_text(f"{name} {public(new_key('k'))}\n")
    with pytest.raises(HostKeyError, match="has changed") as caught:
        SshTransport(other(known_hosts=str(known))).open()
    assert caught.value.message.count("SHA256:") == 2


def test_another_kind_of_key_in_known_hosts_is_no_permission(
    other: Other, tmp_path: Path, new_key: Callable[..., Path]
) -> None:
    name = hostkeys.host_name("127.0.0.1", other().port)
    known = tmp_path / "known_hosts"
    known.write_text(f"{name} {public(new_key('k', '-t', 'ecdsa'))}\n")
    with pytest.raises((HostKeyError, HostUnreachableError)):
        SshTransport(other(known_hosts=str(known))).open()


def test_a_revoked_key_is_refused(other: Other, tmp_path: Path) -> None:
    right = Path(str(other().known_hosts)).read_text()
    known = tmp_path / "known_hosts"
    known.write_text(f"{right}@revoked {right}")
    with pytest.raises(HostKeyError, match="revoked"):
        SshTransport(other(known_hosts=str(known))).open()


def test_a_wrong_user_is_refused(other: Other) -> None:
    with pytest.raises(LoginError, match="'nobody-of-that-name'") as caught:
        SshTransport(other(user="nobody-of-that-name")).open()
    assert "authorized_keys" in caught.value.hint


def test_a_wrong_key_is_refused_and_named(other: Other, new_key: Callable[..., Path]) -> None:
    path = new_key("wrong")
    with pytest.raises(LoginError, match="SHA256:") as caught:
        SshTransport(other(key={"file": str(path)})).open()
    assert str(path) in caught.value.message


def test_a_key_comes_from_the_environment_and_never_into_a_message(
    other: Other, monkeypatch: pytest.MonkeyPatch, new_key: Callable[..., Path]
) -> None:
    right = Path(str(other().key and other().key.file)).read_text()  # type: ignore[union-attr]
    monkeypatch.setenv("KVGATE_KEY", right)
    assert SshTransport(other(key={"env": "KVGATE_KEY"})).run(["true"], timeout_s=T).ok
    wrong = new_key("wrong").read_text()
    for value in (wrong, "no key at all SECRET", right[: len(right) // 2]):
        monkeypatch.setenv("KVGATE_KEY", value)
        with pytest.raises(LoginError, match="KVGATE_KEY") as caught:
            SshTransport(other(key={"env": "KVGATE_KEY"})).open()
        assert not any(line in str(caught.value) for line in value.splitlines() if line)
    monkeypatch.delenv("KVGATE_KEY")
    with pytest.raises(LoginError, match="KVGATE_KEY is not set"):
        SshTransport(other(key={"env": "KVGATE_KEY"})).open()


def test_a_key_with_a_passphrase(
    sshd: PrivateSshd, other: Other, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "locked"
    path.write_bytes(Path(str(sshd.host_entry()["key"]["file"])).read_bytes())  # type: ignore[index]
    path.chmod(0o600)
    subprocess.run(
        ["ssh-keygen", "-q", "-p", "-P", "", "-N", "open sesame", "-f", str(path)],
        check=True,
        timeout=60,
        stdout=subprocess.DEVNULL,
    )
    with pytest.raises(LoginError, match="has a passphrase"):
        SshTransport(other(key={"file": str(path)})).open()
    secret = {"env": "KVGATE_PASS"}
    monkeypatch.setenv("KVGATE_PASS", "open sesame")
    host = other(key={"file": str(path)}, key_passphrase=secret)
    assert SshTransport(host).run(["true"], timeout_s=T).ok
    monkeypatch.setenv("KVGATE_PASS", "open barley")
    with pytest.raises(LoginError, match="passphrase") as caught:
        SshTransport(host).open()
    assert "barley" not in str(caught.value)


def test_without_key_and_agent_nothing_is_searched_for(
    other: Other, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/nonexistent")
    with pytest.raises(LoginError, match="neither a key nor an agent"):
        SshTransport(other(key=None)).open()
    with pytest.raises(LoginError, match="agent holds no key"):
        SshTransport(other(key=None, agent=True)).open()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Return a listening socket that accepts by backlog and never says anything."""
    with socket.create_server(("127.0.0.1", 0), backlog=8) as listening:
        listening.settimeout(10)
        yield listening


@pytest.fixture
def held() -> Iterator[socket.socket]:
    """Yield a port that refuses: bound and not listening, and nobody else's meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound


def test_a_closed_port_is_unreachable_at_once(other: Other, held: socket.socket) -> None:
    port = held.getsockname()[1]
    begun = time.monotonic()
    with pytest.raises(HostUnreachableError, match=f"127.0.0.1 port {port}: Connection refused"):
        SshTransport(other(port=port)).open()
    assert time.monotonic() - begun < 5


def test_a_listener_that_says_nothing_costs_one_deadline(
    other: Other, listener: socket.socket
) -> None:
    host = other(port=listener.getsockname()[1], connect_timeout=Quantity.of(1, "s"))
    transport = SshTransport(host)
    begun = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:  # those who waited share the failure
        asked = [pool.submit(transport.run, ["true"], timeout_s=T) for _ in range(8)]
        errors = [one.exception() for one in asked]
    assert all(isinstance(error, HostUnreachableError) for error in errors)
    assert "no SSH handshake" in str(errors[0])
    assert time.monotonic() - begun < 5


def test_what_is_no_sshd_is_named_as_such(other: Other, listener: socket.socket) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:

        def answer() -> None:
            stream, _ = listener.accept()
            with stream:
                stream.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 200)

        pool.submit(answer)
        with pytest.raises(HostUnreachableError, match="no SSH handshake"):
            SshTransport(other(port=listener.getsockname()[1])).open()


def site(sshd: PrivateSshd, **jumps: str | None) -> Inventory:
    fields = {"roles": ["client"], **sshd.host_entry()}
    return Inventory.model_validate(
        {"inventory": "site", "hosts": {n: {**fields, "jump": j} for n, j in jumps.items()}}
    )


def test_a_host_behind_two_jump_hosts(sshd: PrivateSshd) -> None:
    inventory = site(sshd, far="middle", middle="near", near=None)
    with Connections(inventory) as connections:
        far = connections.to(inventory.hosts["far"])
        assert far.name == "far"
        said = far.run(["sh", "-c", "echo $SSH_CONNECTION"], timeout_s=T).expect_ok()
        assert said.stdout.startswith(b"127.0.0.1 ")
        assert connections.to(inventory.hosts["middle"]).run(["true"], timeout_s=T).ok
        assert connections.to(inventory.hosts["far"]) is far
        process = far.start(["sleep", "300"], deadline_s=60)
    assert process.poll()


def test_each_hop_has_its_own_key_check(sshd: PrivateSshd, tmp_path: Path) -> None:
    inventory = site(sshd, far="near", near=None)
    strange = inventory.hosts["near"].model_copy(update={"known_hosts": str(tmp_path / "none")})
    for changed in ("near", "far"):
        hosts = dict(inventory.hosts)
        hosts[changed] = strange.model_copy(update={"name": changed, "jump": hosts[changed].jump})
        with (
            Connections(inventory.model_copy(update={"hosts": hosts})) as connections,
            pytest.raises(HostKeyError, match=f"{changed}: the host key is not known"),
        ):
            connections.to(hosts["far"]).run(["true"], timeout_s=T)


def test_a_jump_host_that_reaches_nothing_names_itself(
    sshd: PrivateSshd, held: socket.socket
) -> None:
    port = held.getsockname()[1]
    inventory = site(sshd, far="near", near=None)
    far = inventory.hosts["far"].model_copy(update={"port": port})
    with (
        Connections(inventory) as connections,
        pytest.raises(HostUnreachableError, match=f"^far: .* near: no way .* port {port}"),
    ):
        connections.to(far).run(["true"], timeout_s=T)


@pytest.mark.parametrize(
    ("jumps", "complaint"),
    [
        ({"a": "b", "b": "a"}, "reached through itself"),
        ({"a": "a"}, "reached through itself"),
        ({"a": "missing"}, "not in the inventory"),
    ],
)
def test_a_way_without_beginning_is_refused(
    other: Other, jumps: dict[str, str | None], complaint: str
) -> None:
    hosts = {name: other(jump=jump, name=name) for name, jump in jumps.items()}
    inventory = Inventory.model_construct(inventory="site", hosts=hosts)
    with Connections(inventory) as connections, pytest.raises(SpecError, match=complaint):
        connections.to(hosts["a"])


def _own_session(transport: SshTransport) -> int:
    """Return the pid of the sshd process that serves this connection."""
    script = "read -r a b c ppid rest </proc/$PPID/stat; echo $ppid"
    return int(transport.run(["sh", "-c", script], timeout_s=T).expect_ok().stdout)


def test_a_lost_link_is_told_and_the_next_call_opens_another(ssh_host: Host) -> None:
    transport = SshTransport(ssh_host)
    transport.open()  # the connection that all share, not one for a single command
    session = _own_session(transport)
    process = transport.start(["sleep", "300"], deadline_s=60)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        asked = pool.submit(transport.run, ["sleep", "300"], timeout_s=60)
        time.sleep(0.5)
        os.kill(session, signal.SIGKILL)
        with pytest.raises(HostUnreachableError, match="link was lost"):
            asked.result(T)
    with pytest.raises(HostUnreachableError, match="link was lost"):
        process.wait(T)
    assert transport.run(["echo", "again"], timeout_s=T).stdout == b"again\n"
    transport.close()


def test_more_commands_than_the_host_has_sessions_for_take_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = sshd_module._CONFIG.replace("MaxSessions 500", "MaxSessions 3")
    monkeypatch.setattr(sshd_module, "_CONFIG", small)
    with PrivateSshd(tmp_path / "sshd") as server:
        host = Host.model_validate({"roles": ["client"], **server.host_entry(), "name": "small"})
        transport = SshTransport(host)
        with concurrent.futures.ThreadPoolExecutor(9) as pool:
            results = list(
                pool.map(lambda i: transport.run(["echo", str(i)], timeout_s=T), range(9))
            )
        assert [result.stdout for result in results] == [b"%d\n" % i for i in range(9)]
        held = [transport.start(["sleep", "300"], deadline_s=60) for _ in range(3)]
        with pytest.raises(CommandError, match="sessions of the connection are in use"):
            transport.run(["true"], timeout_s=1)
        held[0].stop()
        assert transport.run(["true"], timeout_s=T).ok
        transport.close()
