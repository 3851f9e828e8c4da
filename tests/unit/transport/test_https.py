"""The way by HTTPS against a device that misbehaves: each a clear error, none without an end."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kvgate.errors import (
    CommandError,
    HostKeyError,
    HostUnreachableError,
    LoginError,
    TransportError,
)
from kvgate.simulate.certificate import certificate
from kvgate.spec.inventory import Host
from kvgate.transport.https import SESSIONS, HttpsTransport
from kvgate.transport.readonly import MOST_BYTES
from kvgate.untrusted import MASK

Stream = socket.socket
Behave = Callable[[Stream, str], bool]
"""Answers one request (its head, as text) on a stream; tells whether it goes on."""


def ok(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


@dataclasses.dataclass
class Odd:
    """A device of our own on loopback: where it is, what it was sent, how it is trusted."""

    port: int
    folder: Path
    fingerprint: str
    heads: list[str] = dataclasses.field(default_factory=list)
    bodies: list[bytes] = dataclasses.field(default_factory=list)
    connections: int = 0

    def host(self, **fields: Any) -> Host:
        entry = {
            "roles": ["bmc"],
            "of": "node1",
            "adapter": "redfish",
            "transport": "https",
            "address": "127.0.0.1",
            "port": self.port,
            "tls": {"fingerprint": f"sha256:{self.fingerprint}"},
            "connect_timeout": "3 s",
            **fields,
        }
        return Host.model_validate(entry).model_copy(update={"name": "bmc1"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tls")
    certificate(made)
    return made


@contextlib.contextmanager
def serving(folder: Path, behave: Behave, *, plain: bool = False) -> Iterator[Odd]:
    made, key = certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made, key)
    shown = ssl.PEM_cert_to_DER_cert(made.read_text())
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        odd = Odd(server.getsockname()[1], folder, hashlib.sha256(shown).hexdigest())

        def one(raw: Stream) -> None:
            with contextlib.suppress(OSError, ValueError), raw:
                stream = raw if plain else context.wrap_socket(raw, server_side=True)
                with stream:
                    while not over.is_set() and (head := _head(stream, odd)):
                        odd.heads.append(head)
                        if not behave(stream, head):
                            return

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    raw, _ = server.accept()
                    raw.settimeout(20)
                    odd.connections += 1
                    threading.Thread(target=one, args=(raw,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield odd
        finally:
            over.set()
            server.shutdown(socket.SHUT_RDWR)


def _head(stream: Stream, odd: Odd) -> str:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = stream.recv(4096)
        if not piece:
            return ""
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    text = head.decode("ascii")
    length = next((int(x[15:]) for x in text.split("\r\n") if x.startswith("Content-Length:")), 0)
    while len(body) < length:
        body += stream.recv(4096)
    odd.bodies.append(body)
    return text


def says(answer: bytes) -> Behave:
    def behave(stream: Stream, _: str) -> bool:
        stream.sendall(answer)
        return True

    return behave


def drips(first: bytes) -> Behave:
    def behave(stream: Stream, _: str) -> bool:
        stream.sendall(first)
        for _ in range(2000):
            stream.sendall(b"a")
            time.sleep(0.01)
        return False

    return behave


GET = ["GET", "/redfish/v1/Systems"]


def get(odd: Odd, *, timeout_s: float = 10, login: str = "none", **fields: Any) -> Any:
    way = HttpsTransport(odd.host(**fields), login=login)
    try:
        return way.run(GET, timeout_s=timeout_s)
    finally:
        way.close()


def test_a_document_is_got_and_a_connection_kept(folder: Path) -> None:
    with serving(folder, says(ok(b'{"a": 1}'))) as odd:
        way = HttpsTransport(odd.host())
        for _ in range(3):
            result = way.run(GET, timeout_s=10)
        way.close()
    assert (result.exit_status, result.stdout, result.host) == (0, b'{"a": 1}', "bmc1")
    assert result.argv == ("GET", "/redfish/v1/Systems")
    assert odd.connections == 1
    assert all(head.startswith("GET /redfish/v1/Systems HTTP/1.1") for head in odd.heads)


@pytest.mark.parametrize(
    "argv",
    [
        ["POST", "/redfish/v1/Systems"],
        ["GET", "redfish"],
        ["GET", "/a", "/b"],
        ["GET", "//elsewhere/x"],
        ["GET", "/a b"],
        ["GET", "/a\r\nX: y"],
        ["GET", "/../x"],
        ["sh", "-c"],
    ],
)
def test_nothing_but_get_and_a_path_is_ever_sent(folder: Path, argv: list[str]) -> None:
    with serving(folder, says(ok(b"{}"))) as odd:
        with pytest.raises(CommandError, match="is not GET and a path"):
            HttpsTransport(odd.host()).run(argv, timeout_s=5)
        with pytest.raises(CommandError, match="is not started on a device"):
            HttpsTransport(odd.host()).start(argv, deadline_s=5)
        assert odd.heads == []


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", id="the-body"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX-Slow: ", id="a-header"),
        pytest.param(b"HT", id="the-status"),
    ],
)
def test_what_drips_ends_at_the_deadline(folder: Path, first: bytes) -> None:
    with serving(folder, drips(first)) as odd:
        result = get(odd, timeout_s=0.5)
    assert result.timed_out
    assert result.exit_status is None
    assert "was ended after" in result.describe()


def test_a_silent_device_ends_at_the_deadline(folder: Path) -> None:
    release = threading.Event()
    with serving(folder, lambda *_: bool(release.wait(20))) as odd:
        assert get(odd, timeout_s=0.3).timed_out
        release.set()


@pytest.mark.parametrize("status", ["500 Internal Server Error", "503 Busy", "404 Not Found"])
def test_an_error_of_http_is_the_result(folder: Path, status: str) -> None:
    with serving(folder, says(ok(b"oops", status=status))) as odd:
        result = get(odd)
    assert result.exit_status == int(status[:3])
    with pytest.raises(CommandError, match=f"was answered after .*: HTTP {status}"):
        result.expect_ok()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "no HTTP answer: BadStatusLine", id="ssh"),
        pytest.param(b"\x00\x01\x02\r\n\r\n", "no HTTP answer", id="bytes"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n", "no HTTP answer", id="headers"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000 + b"\r\n\r\n", "no HTTP answer", id="a-header"
        ),
        pytest.param(ok(b"\x1f\x8b", "Content-Encoding: gzip"), "the answer is packed", id="gzip"),
    ],
)
def test_what_is_no_answer_is_told(folder: Path, answer: bytes, expected: str) -> None:
    with serving(folder, says(answer)) as odd, pytest.raises(CommandError, match=expected):
        get(odd)


def test_an_answer_cut_short_is_no_answer(folder: Path) -> None:
    def cut(stream: Stream, _: str) -> bool:
        stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{}")
        return False

    with serving(folder, cut) as odd, pytest.raises(TransportError, match="IncompleteRead"):
        get(odd)


def test_a_huge_document_is_cut_and_said_so(folder: Path) -> None:
    huge = b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n" + b" " * (MOST_BYTES + 70_000)
    with serving(folder, says(huge)) as odd:
        result = get(odd, timeout_s=60)
    assert len(result.stdout) == MOST_BYTES
    assert result.stdout_dropped == 999_999_999_999 - MOST_BYTES
    with pytest.raises(CommandError, match="over the cap"):
        result.expect_ok()


def test_a_redirection_on_the_device_is_followed(folder: Path) -> None:
    def behave(stream: Stream, head: str) -> bool:
        if head.startswith("GET /there "):
            stream.sendall(ok(b"{}"))
        else:
            stream.sendall(ok(b"", "Location: /there", status="308 Permanent Redirect"))
        return True

    with serving(folder, behave) as odd:
        assert get(odd).stdout == b"{}"


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        pytest.param("https://elsewhere.example/x", "redirects to another place", id="away"),
        pytest.param("http://127.0.0.1:1/x", "redirects to another place", id="another-port"),
        pytest.param("/redfish/v1/Systems", "redirects without end", id="in-a-circle"),
        pytest.param("", "redirects without end", id="nowhere"),
    ],
)
def test_a_redirection_elsewhere_is_refused(folder: Path, location: str, expected: str) -> None:
    answer = ok(b"", f"Location: {location}", status="302 Found")
    with serving(folder, says(answer)) as odd, pytest.raises(CommandError, match=expected):
        get(odd)


def test_endless_redirections_end(folder: Path) -> None:
    numbers = iter(range(1000))

    def behave(stream: Stream, _: str) -> bool:
        stream.sendall(ok(b"", f"Location: /{next(numbers)}", status="302 Found"))
        return True

    with serving(folder, behave) as odd:
        with pytest.raises(CommandError, match="redirects without end"):
            get(odd)
        assert len(odd.heads) < 6


# certificates


def test_an_unknown_certificate_is_told_with_the_line_that_pins_it(folder: Path) -> None:
    with serving(folder, says(ok(b"{}"))) as odd:
        with pytest.raises(HostKeyError, match="the certificate is not trusted") as caught:
            get(odd, tls=None)
        assert f"tls: {{fingerprint: 'sha256:{odd.fingerprint}'}}" in caught.value.hint
        assert odd.heads == []  # nothing was asked of it


def test_a_certificate_is_trusted_by_its_file(folder: Path) -> None:
    with serving(folder, says(ok(b"{}"))) as odd:
        assert get(odd, tls={"ca": str(folder / "certificate.pem")}).ok


def test_another_certificate_than_the_pinned_is_refused(folder: Path) -> None:
    with serving(folder, says(ok(b"{}"))) as odd:
        with pytest.raises(HostKeyError, match="the certificate has changed") as caught:
            get(odd, tls={"fingerprint": "AB:" * 31 + "AB"})
        assert odd.fingerprint in caught.value.message
        assert odd.heads == []


def test_a_ca_file_that_is_none_is_told(folder: Path, tmp_path: Path) -> None:
    refused = pytest.raises(LoginError, match=r"CA file .* can't be read")
    with serving(folder, says(ok(b"{}"))) as odd, refused:
        get(odd, tls={"ca": str(tmp_path / "absent.pem")})


def test_what_speaks_no_tls_is_told(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def greet() -> None:
            raw, _ = server.accept()
            with contextlib.suppress(OSError), raw:
                raw.sendall(b"220 mail ready\r\n")
                raw.recv(100)

        threading.Thread(target=greet, daemon=True).start()
        odd = Odd(port, folder, "ab" * 32)
        with pytest.raises(HostUnreachableError, match="no TLS handshake"):
            get(odd)


def test_a_port_where_nobody_listens_is_told(folder: Path) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        with pytest.raises(HostUnreachableError, match=r"127\.0\.0\.1 port .*: Connection refused"):
            get(Odd(held.getsockname()[1], folder, "ab" * 32))


# logging in


def session(password: str) -> Behave:
    def behave(stream: Stream, head: str) -> bool:
        if head.startswith(f"POST {SESSIONS} "):
            headers = ("X-Auth-Token: tok-4711-secret", f"Location: {SESSIONS}/9")
            stream.sendall(ok(b"{}", *headers, status="201 Created"))
        elif "X-Auth-Token: tok-4711-secret" in head:
            stream.sendall(ok(b'{"leak": "tok-4711-secret", "pw": "' + password.encode() + b'"}'))
        else:
            stream.sendall(ok(b"{}", status="401 Unauthorized"))
        return True

    return behave


@pytest.fixture
def account(tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "password"
    path.write_text("geheim-0815\n")
    return {"user": "reader", "password": {"file": str(path)}}


def test_a_session_is_opened_used_masked_and_given_back(
    folder: Path, account: dict[str, Any]
) -> None:
    with serving(folder, session("geheim-0815")) as odd:
        result = get(odd, login="session", **account)
        heads, bodies = odd.heads, odd.bodies
    assert json.loads(bodies[0]) == {"UserName": "reader", "Password": "geheim-0815"}
    assert [head.split(" ")[0] for head in heads] == ["POST", "GET", "DELETE"]
    assert heads[-1].startswith(f"DELETE {SESSIONS}/9 ")
    assert result.stdout.count(MASK.encode()) == result.masked == 2


def test_a_session_that_ended_there_is_opened_anew(folder: Path, account: dict[str, Any]) -> None:
    tokens = iter(("first-token-1", "second-token-2"))
    valid: list[str] = []

    def behave(stream: Stream, head: str) -> bool:
        if head.startswith("POST"):
            valid[:] = [next(tokens)]
            stream.sendall(ok(b"{}", f"X-Auth-Token: {valid[0]}", status="201 Created"))
        elif valid and f"X-Auth-Token: {valid[0]}" in head:
            stream.sendall(ok(b"{}"))
        else:
            stream.sendall(ok(b"", status="401 Unauthorized"))
        return True

    with serving(folder, behave) as odd:
        way = HttpsTransport(odd.host(**account), login="session")
        assert way.run(GET, timeout_s=10).ok
        valid.clear()
        assert way.run(GET, timeout_s=10).ok
        way.close()


@pytest.mark.parametrize("login", ["basic", "session"])
def test_a_wrong_password_is_told_and_in_no_message(
    folder: Path, account: dict[str, Any], login: str
) -> None:
    refusal = says(ok(b"", status="401 Unauthorized"))
    with serving(folder, refusal) as odd, pytest.raises(LoginError) as caught:
        get(odd, login=login, **account)
    assert "bmc1: user 'reader' was refused: HTTP 401 Unauthorized" in caught.value.message
    assert "geheim" not in str(caught.value)
    assert len(odd.heads) == 1


def test_a_login_without_an_account_is_told(folder: Path) -> None:
    with serving(folder, says(ok(b"{}"))) as odd:
        with pytest.raises(LoginError, match="no user and password"):
            get(odd, login="basic")
        assert odd.heads == []


def test_a_connection_that_was_closed_meanwhile_is_opened_again(folder: Path) -> None:
    def once(stream: Stream, _: str) -> bool:
        stream.sendall(ok(b"{}"))
        return False  # and closes, without having said so

    with serving(folder, once) as odd:
        way = HttpsTransport(odd.host())
        assert way.run(GET, timeout_s=10).ok
        assert way.run(GET, timeout_s=10).ok
        way.close()
    assert odd.connections == 2


def test_http_goes_to_this_machine_only(folder: Path) -> None:
    with serving(folder, says(ok(b"{}")), plain=True) as odd:
        assert get(odd, transport="http", tls=None).ok
    with pytest.raises(ValueError, match="goes to this machine only"):
        odd.host(transport="http", tls=None, address="192.0.2.1")
