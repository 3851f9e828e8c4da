"""The way to a host by SSH: one connection, many channels, and paramiko's traps with channels."""

from __future__ import annotations

import contextlib
import logging
import select
import threading
import time
from collections.abc import Iterator

import paramiko

from kvgate.errors import CommandError, HostUnreachableError, TransportError
from kvgate.spec.inventory import Host
from kvgate.transport import leash
from kvgate.transport.dial import dial
from kvgate.transport.leashed import Leashed
from kvgate.transport.places import Places
from kvgate.transport.pump import PIECE_BYTES, Line

_PIECES = 16
_REQUEST_S = 30.0
"""How long a host may take to open a channel or to take a command."""

logging.getLogger("paramiko").addHandler(logging.NullHandler())  # what matters is in our errors


class SshTransport(Leashed):
    """A Transport by SSH, through the connection of `via` where there is a jump host.

    A lost link raises HostUnreachableError for what ran on it; nothing is run again, and the next
    call opens a new connection.
    """

    def __init__(self, host: Host, via: SshTransport | None = None) -> None:
        super().__init__(host.name)
        self._host = host
        self._via = via
        self._opened: tuple[paramiko.Transport, Places] | None = None
        self._dialling = threading.Lock()
        self._asking = threading.Lock()  # paramiko keeps one error a connection, not one a channel
        self._attempts = 0
        self._failure: TransportError | None = None

    def open(self) -> None:
        """Make sure that there is a connection; raises the TransportError that says why not."""
        self._connection()

    def tunnel(self, address: str, port: int, timeout_s: float) -> paramiko.Channel:
        """Return a channel through this host to `address`:`port`, for the next hop's connection."""
        link, _ = self._connection()
        try:
            return link.open_channel(
                "direct-tcpip", (address, port), ("127.0.0.1", 0), timeout=timeout_s
            )
        except (paramiko.SSHException, EOFError, OSError) as err:
            raise HostUnreachableError(
                self.name,
                f"as jump host: no way to {address} port {port}: {err}",
                hint="see that the jump host reaches it and allows TCP forwarding",
            ) from err

    def close(self) -> None:
        """Let the leash end all that was started, then close the connection."""
        super().close()
        with self._dialling:
            if self._opened is not None:
                self._opened[0].close()
                self._opened = None

    def _connection(self) -> tuple[paramiko.Transport, Places]:
        """Return the live connection, opened if need be; callers that waited share a failure."""
        seen = self._attempts
        with self._dialling:
            if self._opened is not None and self._opened[0].is_active():
                return self._opened
            if self._failure is not None and self._attempts != seen:
                raise self._failure
            self._failure = None
            try:
                link = dial(self._host, self._via.tunnel if self._via else None)
            except TransportError as err:
                self._failure = err
                raise
            finally:
                self._attempts += 1
            self._opened = link, Places(self.name)
            return self._opened

    def _line(self, words: list[str], timeout_s: float) -> Line:
        link, places = self._connection()
        until = time.monotonic() + min(timeout_s, _REQUEST_S)
        channel = self._session(link, places, until)
        try:
            with _closed_at(channel, until):
                channel.exec_command(leash.line(words))
            return _ChannelLine(self.name, link, channel, places)
        except (paramiko.SSHException, EOFError, OSError) as err:
            channel.close()
            places.give()
            raise self._refusal(link, f"took no command: {err}") from err

    def _session(self, link: paramiko.Transport, places: Places, until: float) -> paramiko.Channel:
        """Open a session, waiting for a free place where the host allows no more (MaxSessions)."""
        while True:
            places.take(until)
            try:
                with self._asking:
                    channel = link.open_session(timeout=max(0.1, until - time.monotonic()))
                    places.opened()
                    return channel
            except paramiko.ChannelException as err:
                if places.refused(until):
                    continue
                raise CommandError(
                    self.name,
                    f"the host opens no session: {err.text}",
                    hint="see MaxSessions and the login shell of this user on the host",
                ) from err
            except (paramiko.SSHException, EOFError, OSError) as err:
                places.give(opened=False)
                raise self._refusal(link, f"opened no channel: {err}") from err

    def _refusal(self, link: paramiko.Transport, message: str) -> TransportError:
        if not link.is_active():
            return HostUnreachableError(self.name, f"the link was lost: {message}")
        return CommandError(self.name, message)


@contextlib.contextmanager
def _closed_at(channel: paramiko.Channel, until: float) -> Iterator[None]:
    """Close `channel` if the block lasts longer: paramiko waits for a reply without a limit."""
    timer = threading.Timer(max(0.1, until - time.monotonic()), channel.close)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class _ChannelLine:
    """A leash at the other end of an SSH channel."""

    def __init__(
        self, host: str, link: paramiko.Transport, channel: paramiko.Channel, places: Places
    ) -> None:
        self._host = host
        self._link = link
        self._channel = channel
        self._places = places
        self._poll = select.poll()  # paramiko's pipe: readable at news of either stream, or the end
        self._poll.register(channel.fileno(), select.POLLIN)

    def wait(self, timeout_s: float, *, to_write: bool) -> None:
        if not to_write:
            self._poll.poll(timeout_s * 1000)
        elif not self._channel.send_ready():
            self._poll.poll(min(timeout_s * 1000, 10))  # a window that opens is no event

    def read(self) -> tuple[bytes, bytes]:
        """Drain both: unread bytes of one close the window for the other (paramiko #1778)."""
        channel = self._channel
        out = [channel.recv(PIECE_BYTES) for _ in range(_PIECES) if channel.recv_ready()]
        err = [
            channel.recv_stderr(PIECE_BYTES) for _ in range(_PIECES) if channel.recv_stderr_ready()
        ]
        return b"".join(out), b"".join(err)

    def write(self, data: memoryview) -> int:
        if self._channel.closed or self._channel.eof_sent:
            raise BrokenPipeError("the line was hung up")
        if not self._channel.send_ready():
            return 0
        try:
            return self._channel.send(bytes(data))
        except OSError as err:
            raise BrokenPipeError(str(err)) from err

    def drained(self) -> bool:
        ended = self._channel.eof_received or self._channel.closed  # before asking for the rest
        return bool(ended) and not (self._channel.recv_ready() or self._channel.recv_stderr_ready())

    def exited(self) -> bool:
        return self._channel.exit_status_ready()

    def hang_up(self) -> None:
        with contextlib.suppress(paramiko.SSHException, EOFError, OSError):
            self._channel.shutdown_write()

    def status(self, timeout_s: float) -> int | None:
        """Wait for the status after all was read (paramiko #448), and not for ever (#1815)."""
        self._channel.status_event.wait(timeout_s)
        if self._channel.exit_status >= 0:
            return self._channel.exit_status
        self._link.join(0.2)  # channels are closed before a connection that is lost says so
        if not self._link.is_active():
            raise HostUnreachableError(
                self._host,
                "the link was lost while a command ran",
                hint="its leash ends the command on the host; see whether the host is up",
            )
        return None

    def close(self) -> None:
        self._channel.close()
        self._places.give()
