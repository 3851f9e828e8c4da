"""One HTTP connection to a device: a request and its answer, bounded in bytes and in time."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping

from kvgate.errors import CommandError, HostUnreachableError, TransportError
from kvgate.spec.inventory import Host
from kvgate.transport import tls

_PIECE = 64 * 1024


class Answer:
    """One HTTP answer: its status, reason, headers of interest, and body up to a cap."""

    def __init__(self, got: http.client.HTTPResponse) -> None:
        self.status = got.status
        self.reason = got.reason[:80]
        self.location = got.headers.get("Location") or ""
        self.token = got.headers.get("X-Auth-Token") or ""
        self.encoding = (got.headers.get("Content-Encoding") or "identity").lower()
        self.body = b""
        self.dropped = 0

    def read(self, got: http.client.HTTPResponse, cap_bytes: int) -> None:
        """Read the body; what is over the cap is counted, as far as it was announced."""
        announced = got.length
        pieces, left = [], cap_bytes + 1
        while left > 0 and (piece := got.read1(min(_PIECE, left))):
            pieces.append(piece)
            left -= len(piece)
        whole = b"".join(pieces)
        if got.length and len(whole) <= cap_bytes:  # at its end before what it announced
            raise http.client.IncompleteRead(whole[:100], got.length)
        self.body = whole[:cap_bytes]
        if len(whole) > cap_bytes:
            self.dropped = max(1, (announced or 0) - cap_bytes)

    @property
    def line(self) -> str:
        """Return its status as a line."""
        return f"HTTP {self.status} {self.reason}".rstrip()


class WebLink:
    """The connection to `host`, opened when it is needed; use from one thread at a time."""

    def __init__(self, host: Host) -> None:
        self.name = host.name
        self._host = host
        self._address = (host.address or "", host.port)
        self._link: http.client.HTTPConnection | None = None

    @property
    def opened(self) -> bool:
        """Tell whether there is a connection."""
        return self._link is not None

    def ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None,
        until: float,
        cap_bytes: int,
    ) -> Answer | None:
        """Return the answer; None at the deadline. Asked again once on a connection that was old.

        Only then, and only GET: the device had closed it before it could have seen the question.
        """
        old = self._link is not None
        try:
            return self._once(method, path, headers, body, until, cap_bytes)
        except _ClosedError as err:
            if not old or method != "GET":
                raise err.told from err
        try:
            return self._once(method, path, headers, body, until, cap_bytes)
        except _ClosedError as err:
            raise err.told from err

    def _once(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None,
        until: float,
        cap_bytes: int,
    ) -> Answer | None:
        link = self._connected(until)
        over = threading.Event()
        try:
            with _ended_at(link, until, over):
                link.request(method, path, body=body, headers=dict(headers))
                got = link.getresponse()
                answer = Answer(got)
                answer.read(got, cap_bytes)
                got.close()  # or the next question is refused (read1 does not see its own end)
            if got.will_close or answer.dropped:
                self.drop()
        except (OSError, http.client.HTTPException, ValueError) as err:
            self.drop()
            if over.is_set() or isinstance(err, TimeoutError) or time.monotonic() >= until:
                return None
            told = self._broken(method, path, err)
            if isinstance(err, http.client.RemoteDisconnected | ConnectionError):
                raise _ClosedError(told) from err
            raise told from err
        if over.is_set():  # it was cut, and looked like an end
            self.drop()
            return None
        return answer

    def _broken(self, method: str, path: str, err: Exception) -> TransportError:
        why = (str(err) or type(err).__name__)[:200]
        if isinstance(err, http.client.HTTPException) and not isinstance(err, ConnectionError):
            return CommandError(
                self.name,
                f"{method} {path}: no HTTP answer: {type(err).__name__}: {why}",
                hint="something else than the device's web service answers on this port",
            )
        return HostUnreachableError(self.name, f"{method} {path}: the link was lost: {why}")

    def _connected(self, until: float) -> http.client.HTTPConnection:
        """Return the connection, opened and its certificate checked if need be."""
        if self._link is not None:
            return self._link
        seconds = min(self._host.connect_timeout.to("s"), max(0.1, until - time.monotonic()))
        link = http.client.HTTPConnection(*self._address, timeout=max(0.1, seconds))
        try:
            stream = socket.create_connection(self._address, timeout=seconds)
            link.sock = (
                self._wrapped(stream, seconds) if self._host.transport == "https" else stream
            )
        except OSError as err:
            raise self._unreachable(err, seconds) from err
        self._link = link
        return link

    def _wrapped(self, stream: socket.socket, seconds: float) -> ssl.SSLSocket:
        """Shake hands before the deadline, and check the certificate before anything is sent."""
        context = tls.context_for(self._host)
        timer = threading.Timer(seconds, lambda: _cut(stream))
        timer.daemon = True
        timer.start()
        try:
            link = context.wrap_socket(stream, server_hostname=self._address[0])
            tls.check_pin(self._host, link)
        except ssl.SSLCertVerificationError as err:
            stream.close()
            raise tls.not_trusted(self._host, self._address, err, seconds) from err
        except BaseException:
            stream.close()
            raise
        finally:
            timer.cancel()
        return link

    def _unreachable(self, err: OSError, seconds: float) -> TransportError:
        where = f"{self._address[0]} port {self._address[1]}"
        if isinstance(err, ssl.SSLError):
            why = f"no TLS handshake: {err.reason or err}"
        elif isinstance(err, TimeoutError):
            why = f"no answer within {seconds:g} s"
        else:
            why = err.strerror or str(err)
        return HostUnreachableError(
            self.name,
            f"{where}: {why}",
            hint="see that the device is up, its web service runs there, and address and port "
            "are right",
        )

    def drop(self) -> None:
        """Close the connection; the next question opens another."""
        if self._link is not None:
            self._link.close()
            self._link = None


class _ClosedError(Exception):
    """The connection was closed before an answer came; ``told`` is what to say of it."""

    def __init__(self, told: TransportError) -> None:
        super().__init__(told.message)
        self.told = told


@contextlib.contextmanager
def _ended_at(
    link: http.client.HTTPConnection, until: float, over: threading.Event
) -> Iterator[None]:
    """End what is going on on `link` at `until`, also what keeps coming byte by byte."""
    left = max(0.05, until - time.monotonic())
    sock = link.sock
    sock.settimeout(left + 1.0)

    def end() -> None:
        over.set()
        _cut(sock)

    timer = threading.Timer(left, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _cut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
