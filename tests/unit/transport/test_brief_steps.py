"""Every step of a brief link's handshake, and hosts that close, hang or lie there.

Whatever a host does, what is said of it is what the full link says.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import paramiko
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.errors import HostKeyError, HostUnreachableError, KvgateError, LoginError
from kvgate.spec.inventory import Host
from kvgate.transport import brief, dial, exchange, hostkeys
from kvgate.transport.exchange import NoCommonGroundError
from kvgate.transport.fields import Reader, names, string, uint32
from kvgate.transport.ssh import SshTransport
from kvgate.transport.wire import Wire

BANNER = b"SSH-2.0-lies\r\n"
CONNECT_S = 1.0
Step = Callable[[socket.socket], None]


def soon() -> float:
    return time.monotonic() + 20


def frame(payload: bytes) -> bytes:
    """Return a packet before keys are agreed."""
    padding = 8 - (5 + len(payload)) % 8 + 8
    return uint32(1 + len(payload) + padding) + bytes((padding,)) + payload + bytes(padding)


def theirs(**lists: str) -> bytes:
    """Return a KEXINIT in which only what is given differs from what we like best."""
    told = {
        "kex": "curve25519-sha256@libssh.org",
        "host_key": "ssh-ed25519",
        "cipher": "aes128-gcm@openssh.com",
        "mac": "hmac-sha2-256",
        "zip": "none",
    } | lists
    shown = ("kex", "host_key", *["cipher"] * 2, *["mac"] * 2, "zip", "zip", "", "")
    return b"\x14" + bytes(16) + b"".join(names((told.get(x, ""),)) for x in shown) + bytes(5)


def key_blob(kind: bytes = b"ssh-ed25519", size: int = 32) -> bytes:
    return string(kind) + string(bytes(size))


def reply(blob: bytes, point: bytes, signature: bytes = b"") -> bytes:
    signed = signature or string(b"ssh-ed25519") + string(bytes(64))
    return frame(b"\x1f" + string(blob) + string(point) + string(signed))


def says(*pieces: bytes, hangs: bool = False) -> Step:
    """Return what says `pieces` and ends the connection, or leaves it as it is."""

    def act(stream: socket.socket) -> None:
        for piece in pieces:
            stream.sendall(piece)
            stream.recv(65536)
        if hangs:
            threading.Event().wait(CONNECT_S + 4)

    return act


def resets(stream: socket.socket) -> None:
    stream.recv(1)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def talks_on(stream: socket.socket) -> None:
    """Say IGNORE without end, and nothing else, in place of the answer."""
    stream.sendall(BANNER + frame(theirs()))
    with contextlib.suppress(OSError):
        while True:
            stream.sendall(frame(b"\x02" + string(b"")) * 100)


@pytest.fixture
def puppet(tmp_path: Path) -> Iterator[Callable[[Step], Host]]:
    """Return a function that serves `act` on a port, and returns the host that it is."""
    listening: list[socket.socket] = []
    key = tmp_path / "key"
    paramiko.ECDSAKey.generate().write_private_key_file(str(key))

    def serve(act: Step) -> Host:
        server = socket.create_server(("127.0.0.1", 0))
        listening.append(server)

        def one(stream: socket.socket) -> None:
            with contextlib.suppress(OSError), stream:
                act(stream)

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    stream, _ = server.accept()
                    threading.Thread(target=one, args=(stream,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        return host_at(server.getsockname()[1], tmp_path)

    yield serve
    for server in listening:
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        server.close()


def host_at(port: int, folder: Path, **fields: object) -> Host:
    public = ed25519.Ed25519PrivateKey.generate().public_key().public_bytes_raw()
    known = folder / "known_hosts"
    blob = string(b"ssh-ed25519") + string(public)
    known.write_text(
        hostkeys.entry(hostkeys.host_name("127.0.0.1", port), "ssh-ed25519", blob) + "\n"
    )
    return Host.model_validate(
        {
            "roles": ["client"],
            "name": "far",
            "address": "127.0.0.1",
            "port": port,
            "user": "someone",
            "key": {"file": str(folder / "key")},
            "known_hosts": str(known),
            "connect_timeout": f"{CONNECT_S} s",
            **fields,
        }
    )


STEPS: dict[str, tuple[Step, str]] = {
    "closes": (says(), "no SSH handshake"),
    "resets": (resets, "no SSH handshake"),
    "says HTTP": (says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "no SSH handshake"),
    "speaks SSH 1": (says(b"SSH-1.5-ancient\r\n"), "no SSH handshake"),
    "closes after its version": (says(BANNER), "no SSH handshake"),
    "hangs before its version": (says(hangs=True), "no SSH handshake within 1 s"),
    "hangs after its version": (says(BANNER, hangs=True), "no SSH handshake within 1 s"),
    "hangs after its KEXINIT": (
        says(BANNER + frame(theirs()), hangs=True),
        "no SSH handshake within 1 s",
    ),
    "closes after its KEXINIT": (says(BANNER + frame(theirs())), "no SSH handshake"),
    "cuts its KEXINIT short": (says(BANNER + frame(b"\x14" + bytes(30))), "no SSH handshake"),
    "sends a packet of 4 GB": (says(BANNER + b"\xff\xff\xff\xf0" + bytes(99)), "no SSH handshake"),
    "sends another packet": (says(BANNER + frame(b"\x5a" + bytes(30))), "no SSH handshake"),
    "takes its leave": (
        says(BANNER + frame(b"\x01" + uint32(12) + string(b"too many") + string(b""))),
        "no SSH handshake",
    ),
    "shows a point that is none": (
        says(BANNER + frame(theirs()), reply(key_blob(), b"short")),
        "no SSH handshake",
    ),
    "shows the point zero": (
        says(BANNER + frame(theirs()), reply(key_blob(), bytes(32))),
        "no SSH handshake",
    ),
    "shows a key that is none": (
        says(BANNER + frame(theirs()), reply(b"x", bytes(31) + b"\x09")),
        "no SSH handshake",
    ),
    "shows a key of another kind": (
        says(BANNER + frame(theirs()), reply(key_blob(b"ssh-rsa"), bytes(31) + b"\x09")),
        "no SSH handshake",
    ),
    "signs with no key": (
        says(BANNER + frame(theirs()), reply(key_blob(), bytes(31) + b"\x09")),
        "no SSH handshake",
    ),
    "talks on": (talks_on, "no SSH handshake"),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_fails_is_told_as_the_full_link_tells_it(
    puppet: Callable[[Step], Host], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    act, told = STEPS[step]
    host = puppet(act)
    errors: list[KvgateError] = []
    for full in (False, True):
        with monkeypatch.context() as patch:
            if full:
                patch.setattr(brief, "suits", lambda _: False)
            begun = time.monotonic()
            with pytest.raises(KvgateError) as caught:
                SshTransport(host).run(["true"], timeout_s=5)
            assert time.monotonic() - begun < CONNECT_S + 4
        errors.append(caught.value)
    ours, full_one = errors
    assert type(ours) is type(full_one) is HostUnreachableError
    assert ours.hint == full_one.hint
    for each in errors:
        assert each.message.startswith(f"far: 127.0.0.1 port {host.port}: {told}"), each


def test_a_port_where_nobody_listens(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    paramiko.ECDSAKey.generate().write_private_key_file(str(tmp_path / "key"))
    with pytest.raises(HostUnreachableError, match="Connection refused"):
        brief.dialled(host_at(port, tmp_path))


@pytest.mark.parametrize(
    "lists",
    [
        {"kex": "diffie-hellman-group14-sha256"},
        {"host_key": "ssh-rsa"},
        {"cipher": "aes128-ctr"},
        {"zip": "zlib@openssh.com"},
        {"kex": ""},
    ],
)
def test_what_a_brief_link_has_not_is_left_to_the_full_one(
    puppet: Callable[[Step], Host], lists: dict[str, str]
) -> None:
    host = puppet(says(BANNER + frame(theirs(**lists)), hangs=True))
    with pytest.raises(NoCommonGroundError, match="is among"):
        brief.dialled(host)


@pytest.mark.parametrize(
    "fields",
    [
        {"agent": True},
        {"agent": True, "key": None},
        {"password": {"env": "X"}, "adapter": "made", "roles": ["switch"]},
        {"jump": "hop"},
        {"key": None},
    ],
    ids=["agent too", "agent", "password of a device", "jump host", "no key"],
)
def test_who_is_reached_otherwise_never_has_a_brief_link(
    tmp_path: Path, fields: dict[str, object]
) -> None:
    assert brief.suits(host_at(22, tmp_path))
    other = host_at(22, tmp_path, **fields)
    assert not brief.suits(other)
    assert not SshTransport(other)._lane.take()


def login(*answers: bytes, until_s: float = 20.0) -> str:
    """Return what the login comes to, of a host that says `answers`."""
    here, there = socket.socketpair()
    with here, there:
        far = Wire(there)
        for answer in answers:
            far.put(answer)
        far.flush(soon())
        return brief._answer_to_login(Wire(here), time.monotonic() + until_s)


ACCEPTS, BANNER_TEXT = b"\x06" + string(b"ssh-userauth"), b"\x35" + string(b"hi\n") + string(b"")


def test_logins_that_are_answered() -> None:
    extensions = b"\x07" + uint32(0)
    refusal = b"\x33" + names(("publickey", "password"))
    assert login(extensions, ACCEPTS, BANNER_TEXT, BANNER_TEXT, b"\x34") == ""
    assert login(ACCEPTS, refusal + b"\0") == "refused"
    assert "also wants: publickey, password" in login(ACCEPTS, refusal + b"\1")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"\x01" + uint32(2) + string(b"Too many failures") + string(b""), "Too many failures"),
        (b"\x33" + b"\xff\xff\xff\xff", "shorter than what is in it"),
        (b"\x5e" + uint32(0) + string(b"x"), "message 94 in the login"),
        (b"\x15", "message 21 in the login"),
    ],
)
def test_logins_that_are_answered_with_something_else(answer: bytes, told: str) -> None:
    with pytest.raises(paramiko.SSHException, match=told):
        login(ACCEPTS, answer)


def test_a_login_that_is_talked_over_for_ever() -> None:
    """What arrives all the time is no reason to wait for ever."""
    here, there = socket.socketpair()
    over = threading.Event()

    def talk() -> None:
        far = Wire(there)
        with contextlib.suppress(OSError, TimeoutError):
            while not over.is_set():
                far.put(BANNER_TEXT)
                far.flush(soon())

    with here, there:
        thread = threading.Thread(target=talk)
        thread.start()
        begun = time.monotonic()
        with pytest.raises(TimeoutError):
            brief._answer_to_login(Wire(here), begun + 0.3)
        assert time.monotonic() - begun < 3
        over.set()
        here.close()
        thread.join(10)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=120), max_size=4), st.binary(max_size=60))
def test_a_host_may_say_anything_in_the_handshake(packets: list[bytes], rest: bytes) -> None:
    here, there = socket.socketpair()
    with here, there:
        there.sendall(BANNER + b"".join(frame(each) for each in packets) + rest)
        there.shutdown(socket.SHUT_WR)
        made = exchange.Exchange(Wire(here), (), lambda _: None)
        with pytest.raises((*brief.LOST, NoCommonGroundError)):
            made.begin(soon())


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 255), st.binary(max_size=60))
def test_a_host_may_say_anything_once_it_is_logged_in(kind: int, fields: bytes) -> None:
    here, there = socket.socketpair()
    with here, there:
        there.shutdown(socket.SHUT_WR)
        wire = Wire(here)
        link = brief.BriefLink(wire, exchange.Exchange(wire, (), lambda _: None))
        with contextlib.suppress(*brief.LOST):
            link._handle(bytes((kind,)) + fields)


@given(st.text(max_size=30))
def test_a_farewell_is_told_whatever_it_is(text: str) -> None:
    said = text.encode("utf-8", "replace")
    packet = b"\x01" + uint32(2) + string(said) + string(b"")
    assert str(exchange.goodbye(packet)).endswith(said.decode("utf-8", "replace"))
    assert Reader(packet[5:]).text() == said.decode("utf-8", "replace")


def test_a_key_of_ours_that_can_not_be_read_is_told(
    puppet: Callable[[Step], Host], tmp_path: Path
) -> None:
    host = puppet(says())
    (tmp_path / "key").write_text("no key at all")
    with pytest.raises(LoginError, match="holds no private key"):
        next(iter(dial.own_keys(host)))


def test_the_key_is_checked_before_anything_is_said_of_us(tmp_path: Path) -> None:
    host = host_at(22, tmp_path)
    with pytest.raises(HostKeyError, match="the host key has changed"):
        dial.check_key(host, paramiko.ECDSAKey.generate())
