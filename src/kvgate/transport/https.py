"""The way to a device by HTTPS: documents are got, and nothing else is ever asked of it.

Every answer is bounded in bytes and in time, also one that drips. Redirections are followed only
to where we are already. A session's token is held in memory, masked everywhere, and given back.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import http.client
import json
import threading
import time
import urllib.parse
from collections.abc import Mapping, Sequence

from kvgate.errors import CommandError, LoginError, TransportError
from kvgate.spec.adapter import is_place
from kvgate.spec.inventory import Host
from kvgate.transport import secret
from kvgate.transport.base import OUTPUT_CAP_BYTES, CommandResult
from kvgate.transport.readonly import MOST_BYTES, ReadOnly
from kvgate.transport.weblink import Answer, WebLink
from kvgate.untrusted import keep_secret, mask_bytes

SESSIONS = "/redfish/v1/SessionService/Sessions"
"""Where Redfish logs in (DSP0266, "Redfish session login authentication")."""

_MOST_REDIRECTIONS = 3
_REDIRECTIONS = (301, 302, 303, 307, 308)
_PIECE = 64 * 1024
_LOGOUT_S = 5.0


class HttpsTransport(ReadOnly):
    """A Transport to one device whose commands are ``GET`` and a path; thread-safe.

    The result's stdout is the document, its exit status 0 for HTTP 200 and else the HTTP status,
    whose line stands in stderr. `login` is how its adapter logs in: none, basic or session.
    """

    def __init__(self, host: Host, *, login: str = "none") -> None:
        self.name = host.name
        self._host = host
        self._login = login
        self._address = (host.address or "", host.port)
        self._link = WebLink(host)
        self._asking = threading.Lock()
        self._token = ""
        self._session = ""

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,  # noqa: ARG002  there is none on a device
        cap_bytes: int = OUTPUT_CAP_BYTES,
    ) -> CommandResult:
        """Get a document; raises the TransportError that says why the device can't be asked."""
        if len(argv) != 2 or argv[0] != "GET" or stdin or not is_place(argv[1]):
            self._refuse(f"`{' '.join(argv)[:200]}` is not GET and a path")
        begun, started_at = time.monotonic(), datetime.datetime.now(datetime.UTC)
        with self._asking:
            answer = self._got(argv[1], begun + timeout_s, min(cap_bytes, MOST_BYTES))
        return self._result(tuple(argv), answer, started_at, time.monotonic() - begun)

    def _result(
        self,
        argv: tuple[str, ...],
        answer: Answer | None,
        started_at: datetime.datetime,
        elapsed_s: float,
    ) -> CommandResult:
        if answer is None:
            body, status, told = b"", None, ""
        else:
            status, told = (0 if answer.status == 200 else answer.status), answer.line
            body = answer.body
        dropped = answer.dropped if answer else 0
        stdout, masked = mask_bytes(body, cut=bool(dropped))
        return CommandResult(
            host=self.name,
            argv=argv,
            exit_status=status,
            stdout=stdout,
            stderr=mask_bytes(told.encode("utf-8", "replace"))[0],
            started_at=started_at,
            elapsed_s=round(elapsed_s, 6),
            timed_out=answer is None,
            stdout_dropped=dropped,
            masked=masked,
        )

    def close(self) -> None:
        """Give a session back, and close the connection."""
        with self._asking:
            if self._session and self._link.opened:
                with contextlib.suppress(TransportError, OSError, http.client.HTTPException):
                    until = time.monotonic() + _LOGOUT_S
                    self._link.ask("DELETE", self._session, self._headers(), None, until, _PIECE)
            self._token = self._session = ""
            self._link.drop()

    def _got(self, path: str, until: float, cap_bytes: int) -> Answer | None:
        """Return the document at `path`, redirected here at most; None at the deadline."""
        seen, had_session = [path], bool(self._token)
        while True:
            if self._login == "session" and not self._token and not self._log_in(until):
                return None
            answer = self._link.ask("GET", seen[-1], self._headers(), None, until, cap_bytes)
            if answer is not None and answer.status == 401 and had_session:
                had_session, self._token = False, ""  # it was ended there: once more, anew
                continue
            if answer is None or answer.status not in _REDIRECTIONS:
                break
            seen.append(self._here(answer.location, seen))
        if answer is not None:
            self._refuse_login(answer)
            if answer.encoding != "identity":
                raise CommandError(
                    self.name, f"GET {path}: the answer is packed ({answer.encoding}), unasked"
                )
        return answer

    def _here(self, location: str, seen: Sequence[str]) -> str:
        """Return the path that a redirection leads to; raises CommandError if it leads away."""
        target = urllib.parse.urlsplit(location)
        if target.netloc or target.scheme:
            own = f"{self._host.transport}://{self._authority()}"
            if f"{target.scheme}://{target.netloc}" != own:
                raise CommandError(
                    self.name,
                    f"GET {seen[0]}: redirects to another place: {location[:200]}",
                    hint="nothing is sent there; name the right address in the inventory",
                )
        path = target.path + (f"?{target.query}" if target.query else "")
        if not is_place(path) or path in seen or len(seen) > _MOST_REDIRECTIONS:
            raise CommandError(self.name, f"GET {seen[0]}: redirects without end: {location[:200]}")
        return path

    def _authority(self) -> str:
        address, port = self._address
        name = f"[{address}]" if ":" in address else address
        usual = {"https": 443, "http": 80}[self._host.transport]
        return name if port == usual else f"{name}:{port}"

    def _headers(self) -> dict[str, str]:
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": "kvgate",
        }
        if self._login == "basic":
            headers["Authorization"] = self._basic()
        if self._token:
            headers["X-Auth-Token"] = self._token
        return headers

    def _basic(self) -> str:
        user, password = self._account()
        coded = base64.b64encode(f"{user}:{password}".encode()).decode("ascii")
        keep_secret(coded)
        return f"Basic {coded}"

    def _account(self) -> tuple[str, str]:
        if self._host.user is None or self._host.password is None:
            raise LoginError(
                self.name,
                "the inventory declares no user and password, and the adapter logs in",
                hint="give 'user' and 'password: {env: …}' or '{file: …}'",
            )
        password = secret.resolve(self.name, "password", self._host.password)
        return self._host.user, password.rstrip("\r\n")

    def _log_in(self, until: float) -> bool:
        """Open a session: the one thing that is ever posted. False at the deadline."""
        user, password = self._account()
        body = json.dumps({"UserName": user, "Password": password}).encode()
        headers = {**self._headers(), "Content-Type": "application/json"}
        answer = self._link.ask("POST", SESSIONS, headers, body, until, _PIECE)
        if answer is None:
            return False
        self._refuse_login(answer)
        if answer.status not in (200, 201) or not answer.token.isascii() or not answer.token:
            raise LoginError(
                self.name,
                f"opened no session for user '{user}': {answer.line}",
                hint="see that Redfish is on, and how many sessions the device has open",
            )
        keep_secret(answer.token)
        self._token = answer.token
        path = urllib.parse.urlsplit(answer.location).path
        self._session = path if is_place(path) and path.startswith(f"{SESSIONS}/") else ""
        return True

    def _refuse_login(self, answer: Answer) -> None:
        """Raise LoginError where the answer is that we may not ask."""
        if answer.status in (401, 403):
            self._token = self._session = ""
            raise LoginError(
                self.name,
                f"user '{self._host.user}' was refused: {answer.line}",
                hint="correct 'user' or 'password' in the inventory; reading is all it needs",
            )
