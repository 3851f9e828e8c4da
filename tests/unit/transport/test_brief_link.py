"""Commands by a brief link: against asyncssh's server, and real sshds that want new keys often."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from kvgate.errors import CommandError, HostKeyError, HostUnreachableError, LoginError
from kvgate.spec.inventory import Host
from kvgate.transport import brief, lane, sshd
from kvgate.transport.base import OUTPUT_CAP_BYTES
from kvgate.transport.exchange import Exchange
from kvgate.transport.ssh import SshTransport
from kvgate.transport.sshd import PrivateSshd

T = 30.0
SENT = 3_072_000
"""More bytes than any window."""
Process = asyncssh.SSHServerProcess[bytes]
Serve = Callable[..., Host]


async def act(process: Process) -> None:
    """Do what the leashed command's last word says."""
    line = process.command or ""
    link = process.channel.get_connection()
    if "say-much" in line:
        for _ in range(300):
            process.stdout.write(b"0123456789abcdef" * 1024)
            await process.stdout.drain()
    elif "say-both" in line:
        process.stdout.write(b"out\n")
        process.stderr.write(b"err\n")
        process.exit(7)
    elif "by-signal" in line:
        process.exit_with_signal("KILL", False, "gone", "en")
        return
    elif "take-all" in line:
        data = await process.stdin.readexactly(SENT)
        process.stdout.write(hashlib.sha256(data).hexdigest().encode())
    elif "linger-a-while" in line:
        await asyncio.sleep(1.0)
    elif "keys-and-silence" in line:
        link.send_packet(20, bytes(16) + bytes(45))
        await asyncio.sleep(20)
    elif "another-message" in line:
        link.send_packet(77)
        await asyncio.sleep(20)
    elif "farewell" in line:
        process.stdout.write(b"half")
        farewell = asyncssh.packet.String("going down for maintenance")
        link.send_packet(1, bytes(3) + b"\x0b" + farewell + asyncssh.packet.String(""))
        await asyncio.sleep(20)
    elif "ask-back" in line:
        link.send_packet(4, b"\0" + asyncssh.packet.String("debug") + bytes(4))
        try:
            await link.create_connection(asyncssh.SSHTCPSession, "x", 1, "y", 2)
        except asyncssh.ChannelOpenError:
            process.exit(5)
    process.exit(0)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Return a function that serves with some options and returns the host; it ends by itself."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    listening: list[Any] = []

    def begin(*, key: str = "ssh-ed25519", host_key: str = "ssh-ed25519", **options: Any) -> Host:
        client, own = (asyncssh.generate_private_key(kind) for kind in (key, host_key))
        # asyncssh pads some ECDSA keys in OpenSSH's form as paramiko (and no ssh-keygen) does not
        form = "pkcs1-pem" if key.startswith("ecdsa") else "openssh"
        client.write_private_key(tmp_path / "key", form)
        client.write_public_key(tmp_path / "key.pub")
        told = {
            "server_host_keys": [own],
            "authorized_client_keys": str(tmp_path / "key.pub"),
            "process_factory": act,
            "encoding": None,
        }

        async def listen() -> Any:
            return await asyncssh.listen("127.0.0.1", 0, **(told | options))

        server = asyncio.run_coroutine_threadsafe(listen(), loop).result(20)
        listening.append(server)
        port = server.get_port()
        public = own.export_public_key().decode().strip()
        (tmp_path / "known_hosts").write_text(f"[127.0.0.1]:{port} {public}\n")
        return Host.model_validate(
            {
                "roles": ["client"],
                "name": "far",
                "address": "127.0.0.1",
                "port": port,
                "user": "someone",
                "key": {"file": str(tmp_path / "key")},
                "known_hosts": str(tmp_path / "known_hosts"),
            }
        )

    yield begin
    for server in listening:
        loop.call_soon_threadsafe(server.close)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)


@pytest.fixture
def exchanges(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return a list that holds every KEXINIT by which a host asked for new keys."""
    seen: list[bytes] = []
    again = Exchange.again

    def noting(self: Exchange, theirs: bytes, until: float) -> None:
        again(self, theirs, until)
        seen.append(theirs)

    monkeypatch.setattr(Exchange, "again", noting)
    return seen


def briefly(transport: SshTransport) -> bool:
    """Tell whether a brief link is open, and no other."""
    return transport._lane.open and transport._opened is None


def run(host: Host, word: str, **how: Any) -> Any:
    transport = SshTransport(host)
    try:
        return transport.run([word], timeout_s=how.pop("timeout_s", T), **how)
    finally:
        transport.close()


@pytest.mark.parametrize(
    "kind",
    ["ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa"],
)
def test_keys_of_every_kind_on_both_sides(serve: Serve, kind: str) -> None:
    transport = SshTransport(serve(key=kind, host_key=kind))
    result = transport.run(["say-both"], timeout_s=T)
    assert (result.stdout, result.stderr, result.exit_status) == (b"out\n", b"err\n", 7)
    assert briefly(transport)
    transport.close()


@pytest.mark.parametrize(
    "options",
    [
        {"kex_algs": ["diffie-hellman-group14-sha256"]},
        {"encryption_algs": ["aes256-ctr"]},
    ],
    ids=["key exchange", "cipher"],
)
def test_other_algorithms_are_the_full_links(serve: Serve, options: dict[str, Any]) -> None:
    transport = SshTransport(serve(**options))
    for _ in range(2):
        assert transport.run(["say-both"], timeout_s=T).exit_status == 7
    assert transport._opened is not None
    assert not transport._lane.open
    transport.close()


@pytest.mark.parametrize("kind", ["ssh-ed25519", "ssh-rsa"])
def test_a_key_that_is_refused(serve: Serve, tmp_path: Path, kind: str) -> None:
    host = serve(key=kind)
    asyncssh.generate_private_key(kind).write_private_key(tmp_path / "key")
    with pytest.raises(LoginError, match=r"user 'someone' was refused; offered: .*SHA256:"):
        run(host, "say-both")


def test_a_host_key_that_has_changed(serve: Serve, tmp_path: Path) -> None:
    host = serve()
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
    (tmp_path / "known_hosts").write_text(f"[127.0.0.1]:{host.port} {other}")
    with pytest.raises(HostKeyError, match="the host key has changed"):
        run(host, "say-both")


def test_much_output_and_much_input_by_ever_new_keys(serve: Serve, exchanges: list[bytes]) -> None:
    host = serve(rekey_bytes=200_000)
    transport = SshTransport(host)
    result = transport.run(["say-much"], timeout_s=T)
    assert result.stdout == b"0123456789abcdef" * 1024 * 300
    assert len(exchanges) >= 5
    data = bytes(range(256)) * (SENT // 256)
    told = transport.run(["take-all"], timeout_s=T, stdin=data)
    assert told.stdout.decode() == hashlib.sha256(data).hexdigest()
    assert briefly(transport)
    transport.close()


def test_a_command_that_a_signal_ended_has_no_status(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = serve()
    ours = run(host, "by-signal")
    monkeypatch.setattr(brief, "suits", lambda _: False)
    full = run(host, "by-signal")
    assert ours.exit_status is full.exit_status is None
    assert (ours.timed_out, ours.signal) == (full.timed_out, full.signal)


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("keys-and-silence", "no new keys"),
        ("another-message", "message 77, which has no meaning here"),
        ("farewell", "it ended the connection: going down for maintenance"),
    ],
)
def test_a_host_that_goes_wrong_in_a_command_is_told_with_the_cause(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, word: str, told: str
) -> None:
    monkeypatch.setattr(brief, "_REKEY_S", 0.3)
    begun = time.monotonic()
    with pytest.raises(HostUnreachableError, match=f"lost while a command ran: .*{told}"):
        run(serve(), word)
    assert time.monotonic() - begun < 5


def test_channels_that_a_host_opens_are_refused_and_do_not_disturb(serve: Serve) -> None:
    assert run(serve(), "ask-back").exit_status == 5


def test_a_host_that_asks_whether_we_live_is_answered(serve: Serve) -> None:
    host = serve(keepalive_interval=0.2, keepalive_count_max=2)
    transport = SshTransport(host)
    assert transport.run(["linger-a-while"], timeout_s=T).exit_status == 0  # five times as long
    time.sleep(1.2)  # and now nobody answers: the host ends the connection
    assert transport.run(["say-both"], timeout_s=T).exit_status == 7
    assert briefly(transport)
    transport.close()


def test_a_line_that_is_silent_is_pinged(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    pings: list[float] = []
    ping = brief.BriefLink.ping

    def noting(self: brief.BriefLink) -> None:
        pings.append(time.monotonic())
        ping(self)

    monkeypatch.setattr(lane, "_KEEP_ALIVE_S", 0.1)
    monkeypatch.setattr(brief.BriefLink, "ping", noting)
    assert run(serve(), "linger-a-while").exit_status == 0
    assert pings


def test_what_comes_with_the_answer_to_a_request_is_not_waited_for(serve: Serve) -> None:
    """A host may send the command's end in the same piece: no poll tells of that."""
    transport = SshTransport(serve())
    transport.run(["say-both"], timeout_s=T)
    begun = time.monotonic()
    for _ in range(10):
        transport.run(["say-both"], timeout_s=T)
    assert time.monotonic() - begun < 10 * 0.4  # a pump that slept through it takes 0.5 s each
    transport.close()


@pytest.fixture
def real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Host]]:
    """Return a function that starts a real sshd with more configuration and returns its host."""
    running: list[PrivateSshd] = []

    def begin(more: str) -> Host:
        monkeypatch.setattr(sshd, "_CONFIG", more + sshd._CONFIG)
        server = PrivateSshd(tmp_path / "sshd").__enter__()
        running.append(server)
        entry = {"roles": ["client"], "name": "here", **server.host_entry()}
        return Host.model_validate(entry)

    yield begin
    for server in running:
        server.__exit__(None, None, None)


@pytest.mark.sshd
def test_a_real_sshd_that_wants_new_keys_at_every_turn(
    real: Callable[[str], Host], exchanges: list[bytes]
) -> None:
    transport = SshTransport(real("RekeyLimit 64K\n"))
    result = transport.run(["seq", "1", "200000"], timeout_s=T)
    assert result.stdout.split() == [b"%d" % n for n in range(1, 200_001)]
    assert len(exchanges) >= 5
    data = bytes(range(256)) * 10_000
    told = transport.run(["sha256sum"], timeout_s=T, stdin=data).stdout
    assert told.split()[0].decode() == hashlib.sha256(data).hexdigest()
    assert briefly(transport)
    transport.close()


@pytest.mark.sshd
def test_a_real_sshd_that_allows_one_session(real: Callable[[str], Host]) -> None:
    """The session of a command that has ended is still there for a moment."""
    transport = SshTransport(real("MaxSessions 1\n"))
    for _ in range(20):
        assert transport.run(["echo", "x"], timeout_s=T).stdout == b"x\n"
    transport.close()


@pytest.mark.sshd
def test_a_real_sshd_that_allows_none(real: Callable[[str], Host]) -> None:
    transport = SshTransport(real("MaxSessions 0\n"))
    with pytest.raises(CommandError, match="the host opens no session"):
        transport.run(["true"], timeout_s=T)
    assert not transport.connected
    transport.close()


@pytest.mark.sshd
def test_endless_output_is_cut_and_ended_at_its_time(ssh_host: Host) -> None:
    transport = SshTransport(ssh_host)
    result = transport.run(["cat", "/dev/zero"], timeout_s=1.0)
    assert result.timed_out
    assert len(result.stdout) <= OUTPUT_CAP_BYTES
    assert result.stdout_dropped > 0
    assert transport.run(["echo", "x"], timeout_s=T).stdout == b"x\n"
    transport.close()
