"""Logging in to a device by HTTPS: sessions, passwords, and what of them is ever seen."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvgate.errors import LoginError
from kvgate.transport.https import SESSIONS, HttpsTransport
from kvgate.untrusted import MASK

Web = Callable[..., contextlib.AbstractContextManager[Any]]
Behave = Callable[[socket.socket, str], bool]
GET = ["GET", "/redfish/v1/Systems"]


def ok(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def says(answer: bytes) -> Behave:
    def behave(stream: socket.socket, _: str) -> bool:
        stream.sendall(answer)
        return True

    return behave


def get(odd: Any, *, timeout_s: float = 10, login: str = "none", **fields: Any) -> Any:
    way = HttpsTransport(odd.host(**fields), login=login)
    try:
        return way.run(GET, timeout_s=timeout_s)
    finally:
        way.close()


def session(password: str) -> Behave:
    def behave(stream: socket.socket, head: str) -> bool:
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


def test_a_session_is_opened_used_masked_and_given_back(web: Web, account: dict[str, Any]) -> None:
    with web(session("geheim-0815")) as odd:
        result = get(odd, login="session", **account)
        heads, bodies = odd.heads, odd.bodies
    assert json.loads(bodies[0]) == {"UserName": "reader", "Password": "geheim-0815"}
    assert [head.split(" ")[0] for head in heads] == ["POST", "GET", "DELETE"]
    assert heads[-1].startswith(f"DELETE {SESSIONS}/9 ")
    assert result.stdout.count(MASK.encode()) == result.masked == 2


def test_a_session_that_ended_there_is_opened_anew(web: Web, account: dict[str, Any]) -> None:
    tokens = iter(("first-token-1", "second-token-2"))
    valid: list[str] = []

    def behave(stream: socket.socket, head: str) -> bool:
        if head.startswith("POST"):
            valid[:] = [next(tokens)]
            stream.sendall(ok(b"{}", f"X-Auth-Token: {valid[0]}", status="201 Created"))
        elif valid and f"X-Auth-Token: {valid[0]}" in head:
            stream.sendall(ok(b"{}"))
        else:
            stream.sendall(ok(b"", status="401 Unauthorized"))
        return True

    with web(behave) as odd:
        way = HttpsTransport(odd.host(**account), login="session")
        assert way.run(GET, timeout_s=10).ok
        valid.clear()
        assert way.run(GET, timeout_s=10).ok
        way.close()


@pytest.mark.parametrize("login", ["basic", "session"])
def test_a_wrong_password_is_told_and_in_no_message(
    web: Web, account: dict[str, Any], login: str
) -> None:
    refusal = says(ok(b"", status="401 Unauthorized"))
    with web(refusal) as odd, pytest.raises(LoginError) as caught:
        get(odd, login=login, **account)
    assert "bmc1: user 'reader' was refused: HTTP 401 Unauthorized" in caught.value.message
    assert "geheim" not in str(caught.value)
    assert len(odd.heads) == 1


def test_a_login_without_an_account_is_told(web: Web) -> None:
    with web(says(ok(b"{}"))) as odd:
        with pytest.raises(LoginError, match="no user and password"):
            get(odd, login="basic")
        assert odd.heads == []
