"""The way by HTTPS against a device that misbehaves: each a clear error, none without an end."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
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
from kvgate.transport.https import HttpsTransport
from kvgate.transport.readonly import MOST_BYTES

Web = Callable[..., contextlib.AbstractContextManager[Any]]
Behave = Callable[[socket.socket, str], bool]


def ok(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def says(answer: bytes) -> Behave:
    def behave(stream: socket.socket, _: str) -> bool:
        stream.sendall(answer)
        return True

    return behave


def drips(first: bytes) -> Behave:
    def behave(stream: socket.socket, _: str) -> bool:
        stream.sendall(first)
        for _ in range(2000):
            stream.sendall(b"a")
            time.sleep(0.01)
        return False

    return behave


GET = ["GET", "/redfish/v1/Systems"]


def get(odd: Any, *, timeout_s: float = 10, login: str = "none", **fields: Any) -> Any:
    way = HttpsTransport(odd.host(**fields), login=login)
    try:
        return way.run(GET, timeout_s=timeout_s)
    finally:
        way.close()


def test_a_document_is_got_and_a_connection_kept(web: Web) -> None:
    with web(says(ok(b'{"a": 1}'))) as odd:
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
def test_nothing_but_get_and_a_path_is_ever_sent(web: Web, argv: list[str]) -> None:
    with web(says(ok(b"{}"))) as odd:
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
def test_what_drips_ends_at_the_deadline(web: Web, first: bytes) -> None:
    with web(drips(first)) as odd:
        result = get(odd, timeout_s=0.5)
    assert result.timed_out
    assert result.exit_status is None
    assert "was ended after" in result.describe()


def test_a_silent_device_ends_at_the_deadline(web: Web) -> None:
    release = threading.Event()
    with web(lambda *_: bool(release.wait(20))) as odd:
        assert get(odd, timeout_s=0.3).timed_out
        release.set()


@pytest.mark.parametrize("status", ["500 Internal Server Error", "503 Busy", "404 Not Found"])
def test_an_error_of_http_is_the_result(web: Web, status: str) -> None:
    with web(says(ok(b"oops", status=status))) as odd:
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
def test_what_is_no_answer_is_told(web: Web, answer: bytes, expected: str) -> None:
    with web(says(answer)) as odd, pytest.raises(CommandError, match=expected):
        get(odd)


def test_an_answer_cut_short_is_no_answer(web: Web) -> None:
    def cut(stream: socket.socket, _: str) -> bool:
        stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{}")
        return False

    with web(cut) as odd, pytest.raises(TransportError, match="IncompleteRead"):
        get(odd)


def test_a_huge_document_is_cut_and_said_so(web: Web) -> None:
    huge = b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n" + b" " * (MOST_BYTES + 70_000)
    with web(says(huge)) as odd:
        result = get(odd, timeout_s=60)
    assert len(result.stdout) == MOST_BYTES
    assert result.stdout_dropped == 999_999_999_999 - MOST_BYTES
    with pytest.raises(CommandError, match="over the cap"):
        result.expect_ok()


def test_a_redirection_on_the_device_is_followed(web: Web) -> None:
    def behave(stream: socket.socket, head: str) -> bool:
        if head.startswith("GET /there "):
            stream.sendall(ok(b"{}"))
        else:
            stream.sendall(ok(b"", "Location: /there", status="308 Permanent Redirect"))
        return True

    with web(behave) as odd:
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
def test_a_redirection_elsewhere_is_refused(web: Web, location: str, expected: str) -> None:
    answer = ok(b"", f"Location: {location}", status="302 Found")
    with web(says(answer)) as odd, pytest.raises(CommandError, match=expected):
        get(odd)


def test_endless_redirections_end(web: Web) -> None:
    numbers = iter(range(1000))

    def behave(stream: socket.socket, _: str) -> bool:
        stream.sendall(ok(b"", f"Location: /{next(numbers)}", status="302 Found"))
        return True

    with web(behave) as odd:
        with pytest.raises(CommandError, match="redirects without end"):
            get(odd)
        assert len(odd.heads) < 6


# certificates


def test_an_unknown_certificate_is_told_with_the_line_that_pins_it(web: Web) -> None:
    with web(says(ok(b"{}"))) as odd:
        with pytest.raises(HostKeyError, match="the certificate is not trusted") as caught:
            get(odd, tls=None)
        assert f"tls: {{fingerprint: 'sha256:{odd.fingerprint}'}}" in caught.value.hint
        assert odd.heads == []  # nothing was asked of it


def test_a_certificate_is_trusted_by_its_file(web: Web) -> None:
    with web(says(ok(b"{}"))) as odd:
        assert get(odd, tls={"ca": str(odd.folder / "certificate.pem")}).ok


def test_another_certificate_than_the_pinned_is_refused(web: Web) -> None:
    with web(says(ok(b"{}"))) as odd:
        with pytest.raises(HostKeyError, match="the certificate has changed") as caught:
            get(odd, tls={"fingerprint": "AB:" * 31 + "AB"})
        assert odd.fingerprint in caught.value.message
        assert odd.heads == []


def test_a_ca_file_that_is_none_is_told(web: Web, tmp_path: Path) -> None:
    refused = pytest.raises(LoginError, match=r"CA file .* can't be read")
    with web(says(ok(b"{}"))) as odd, refused:
        get(odd, tls={"ca": str(tmp_path / "absent.pem")})


def test_what_speaks_no_tls_is_told(web: Web) -> None:
    def greet(stream: socket.socket, _: str) -> bool:
        stream.sendall(b"220 mail ready\r\n")
        return False

    refused = pytest.raises(HostUnreachableError, match="no TLS handshake")
    with web(greet, plain=True, greets=True) as odd, refused:
        get(odd)


def test_a_port_where_nobody_listens_is_told(web: Web) -> None:
    refused = pytest.raises(HostUnreachableError, match=r"127\.0\.0\.1 port .*: Connection refused")
    with web(says(ok(b"{}"))) as odd, socket.socket() as held, refused:
        held.bind(("127.0.0.1", 0))  # and does not listen
        get(odd, port=held.getsockname()[1])


def test_a_connection_that_was_closed_meanwhile_is_opened_again(web: Web) -> None:
    def once(stream: socket.socket, _: str) -> bool:
        stream.sendall(ok(b"{}"))
        return False  # and closes, without having said so

    with web(once) as odd:
        way = HttpsTransport(odd.host())
        assert way.run(GET, timeout_s=10).ok
        assert way.run(GET, timeout_s=10).ok
        way.close()
    assert odd.connections == 2


def test_http_goes_to_this_machine_only(web: Web) -> None:
    with web(says(ok(b"{}")), plain=True) as odd:
        assert get(odd, transport="http", tls=None).ok
    with pytest.raises(ValueError, match="goes to this machine only"):
        odd.host(transport="http", tls=None, address="192.0.2.1")
