"""A simulated device's web service: documents over HTTPS on loopback, behind a login.

Runs in threads of this process and ends with its block; what is got is made anew from the
device's state at every request.
"""

from __future__ import annotations

import base64
import hmac
import http.server
import json
import secrets
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from kvgate.errors import HarnessError
from kvgate.simulate.certificate import ADDRESS, certificate
from kvgate.transport.https import SESSIONS

USER = "kvgate"
_IDLE_S = 30.0
_MOST_BODY = 4096

Documents = Callable[[], Mapping[str, Any]]


class _Service(http.server.ThreadingHTTPServer):
    """The server: TLS is spoken in each connection's own thread, so that none waits for it."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(
        self, port: int, context: ssl.SSLContext, documents: Documents, password: str
    ) -> None:
        super().__init__((ADDRESS, port), _Handler)
        self.context = context
        self.documents = documents
        self.password = password
        self.sessions: set[str] = set()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Shake hands, then answer."""
        request.settimeout(_IDLE_S)
        with self.context.wrap_socket(request, server_side=True) as stream:
            super().finish_request(stream, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that does not trust the certificate hangs up, as it should."""


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Service
    protocol_version = "HTTP/1.1"
    server_version = "kvgate-simulated"
    sys_version = ""

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: who asked what is in the run's evidence."""

    def do_GET(self) -> None:
        if not self._admitted():
            self._answer(401, {"error": "log in first"})
            return
        document = self.server.documents().get(self.path.rstrip("/"))
        if document is None:
            self._answer(404, {"error": "there is no such document"})
        else:
            self._answer(200, document)

    def do_POST(self) -> None:
        """Open a session, the one thing that may be posted."""
        length = int(self.headers.get("Content-Length") or 0)
        told = json.loads(self.rfile.read(min(length, _MOST_BODY)) or b"{}")
        if self.path != SESSIONS or length > _MOST_BODY:
            self._answer(405, {"error": "nothing is changed here"})
        elif not self._is_user(str(told.get("UserName")), str(told.get("Password"))):
            self._answer(401, {"error": "user or password is wrong"})
        else:
            token = secrets.token_hex(16)
            self.server.sessions.add(token)
            headers = {"X-Auth-Token": token, "Location": f"{SESSIONS}/{len(self.server.sessions)}"}
            self._answer(201, {"Id": "1"}, headers)

    def do_DELETE(self) -> None:
        """End the session that asks for it."""
        admitted = self.path.startswith(f"{SESSIONS}/") and self._admitted()
        self.server.sessions.discard(self.headers.get("X-Auth-Token") or "")
        self._answer(200 if admitted else 405, {})

    def _admitted(self) -> bool:
        if (self.headers.get("X-Auth-Token") or "") in self.server.sessions:
            return True
        kind, _, coded = (self.headers.get("Authorization") or "").partition(" ")
        if kind != "Basic":
            return False
        try:
            user, _, password = base64.b64decode(coded, validate=True).decode().partition(":")
        except ValueError:
            return False
        return self._is_user(user, password)

    def _is_user(self, user: str, password: str) -> bool:
        same = hmac.compare_digest(password.encode(), self.server.password.encode())
        return same and user == USER

    def _answer(self, status: int, document: Any, headers: Mapping[str, str] | None = None) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


class WebDevice:
    """A simulated device's web service on loopback; use as a context manager.

    It listens on `port`, any free one where that is 0; certificate and password are those in
    `folder`. Raises HarnessError where the port is taken.
    """

    def __init__(self, folder: Path, documents: Documents, *, port: int = 0) -> None:
        self._folder = folder
        self._documents = documents
        self.port = port
        self._service: _Service | None = None

    def __enter__(self) -> WebDevice:
        """Make what is missing in the folder, listen, and answer in threads."""
        made, key = certificate(self._folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(made, key)
        password = (self._folder / "password").read_text("utf-8")
        try:
            service = _Service(self.port, context, self._documents, password)
        except OSError as err:
            raise HarnessError(
                f"{ADDRESS} port {self.port} can't be listened on: {err.strerror}",
                hint="a run that is resumed needs the ports it began with: end what uses them",
            ) from err
        service.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port = int(service.server_address[1])
        self._service = service
        threading.Thread(
            target=service.serve_forever, args=(0.2,), name=f"simulated {self.port}", daemon=True
        ).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop listening."""
        if self._service is not None:
            self._service.shutdown()
            self._service.server_close()
