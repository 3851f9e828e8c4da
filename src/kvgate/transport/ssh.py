"""The way to a host by SSH: one connection, many channels, and paramiko's traps with channels."""

from __future__ import annotations

import contextlib
import logging
import select
import threading
import time
from collections.abc import Callable
from typing import TypeVar

import paramiko

from kvgate.errors import CommandError, HostUnreachableError, TransportError
from kvgate.spec.inventory import Host
from kvgate.transport import alarm, failures, leash
from kvgate.transport.dial import dial
from kvgate.transport.exchange import NoCommonGroundError
from kvgate.transport.lane import Lane
from kvgate.transport.leashed import Leashed, Start
from kvgate.transport.places import Places
from kvgate.transport.pump import PIECE_BYTES, Line
from kvgate.transport.window import FloodError, bounded

_PIECES = 16
_MOMENT_S = 0.2
_T = TypeVar("_T")
_BY_HOP = "not reached, because of jump host"
_REQUEST_S = 30.0
"""How long a host may take to open a channel or to take a command."""

_LOG = logging.getLogger("paramiko")
_LOG.addHandler(logging.NullHandler())
_LOG.propagate = False  # what matters is in our errors, and what hosts say is in no log as it came


class SshTransport(Leashed):
    """A Transport by SSH, through the connection of `via` where there is a jump host.

    A command that is waited for goes by a brief link (`transport.lane`) where that is enough; what
    runs long, or beside another command, shares paramiko's connection.

    A lost link raises HostUnreachableError for what ran on it, and the next call opens a new
    connection. Only what provably did not begin is asked for again, and once: a session or a way
    through that could not be opened because the link was lost already. A command whose request
    was sent is never sent again, as nobody knows what it has done.
    """

    def __init__(self, host: Host, via: SshTransport | None = None) -> None:
        super().__init__(host.name)
        self._host = host
        self._via = via
        self._opened: tuple[paramiko.Transport, Places] | None = None
        self._dialling = threading.Lock()
        self._asking = threading.Lock()  # paramiko keeps one error a connection, not one a channel
        self._attempts = 0
        self._is_way = False  # others go through it
        self._lane = Lane(host)
        self._failure: TransportError | None = None

    def open(self) -> None:
        """Make sure that there is a connection; raises the TransportError that says why not."""
        self._connection()

    @property
    def connected(self) -> bool:
        """Tell whether a connection is open, or was when it was last used."""
        return self._opened is not None or self._lane.open

    def tunnel(self, address: str, port: int, timeout_s: float) -> paramiko.Channel:
        """Return a channel through this host to `address`:`port`, for the next hop's connection."""
        self._is_way = True
        until = time.monotonic() + timeout_s
        return self._on_live_link(lambda link, _: self._way_to(link, address, port, until))

    def _way_to(
        self, link: paramiko.Transport, address: str, port: int, until: float
    ) -> paramiko.Channel:
        ends = (address, port), ("127.0.0.1", 0)
        try:
            return link.open_channel("direct-tcpip", *ends, timeout=_left(until))
        except Exception as err:
            raise HostUnreachableError(
                self.name,
                f"no way from there to {address} port {port}: {failures.reason(err)}",
                hint="see that the jump host reaches it and allows TCP forwarding",
            ) from err

    def close(self) -> None:
        """Let the leash end all that was started, then close the connection."""
        super().close()
        self._lane.close()
        with self._dialling:
            if self._opened is not None:
                self._opened[0].close()
                self._opened = None

    def rest(self) -> None:
        """Close each connection on which nothing runs and through which nothing goes."""
        self._lane.rest()
        if not self._dialling.acquire(blocking=False):
            return
        try:
            if self._opened is not None and not self._is_way and self._opened[1].idle():
                self._opened[0].close()
                self._opened = None
        finally:
            self._dialling.release()

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
                link = bounded(self._dialled())
            except TransportError as err:
                self._failure = err
                raise
            finally:
                self._attempts += 1
            self._opened = link, Places(self.name)
            return self._opened

    def _dialled(self) -> paramiko.Transport:
        """Dial, each hop with its own deadline; an error names the hop where it failed."""
        if self._via is None:
            return dial(self._host, None)
        try:
            self._via.open()
        except TransportError as err:
            raise _on_the_way(self.name, err) from err
        try:
            return dial(self._host, self._via.tunnel)
        except TransportError as err:
            if err.host == self.name:
                raise
            raise _on_the_way(self.name, err) from err

    def _begun(self, words: list[str], timeout_s: float) -> tuple[Line, Start]:
        """Run `words` on the brief link where there is no other, and nothing else runs on it."""
        opened = self._opened
        if (opened is None or not opened[0].is_active()) and self._lane.take():
            with contextlib.suppress(NoCommonGroundError):
                return self._lane.begin(self._wire(words), min(timeout_s, _REQUEST_S))
        return super()._begun(words, timeout_s)

    def _line(self, words: list[str], timeout_s: float) -> Line:
        seconds = min(timeout_s, _REQUEST_S)
        link, places, channel = self._on_live_link(
            lambda link, places: (link, places, self._session(link, places, seconds))
        )
        until = time.monotonic() + seconds
        try:
            with alarm.after(_left(until), channel.close):  # paramiko waits without a limit
                channel.exec_command(self._wire(words))
            return _ChannelLine(self.name, link, channel, places)
        except Exception as err:
            channel.close()
            places.give()
            if link.is_active() and time.monotonic() >= until:
                raise failures.hangs(self.name, f"took no command within {seconds:g} s") from err
            raise self._refusal(link, f"the host takes no command: {failures.reason(err)}") from err

    def _wire(self, words: list[str]) -> bytes:
        """Return what is sent for `words`: a line for a login shell of the Bourne family."""
        return leash.line(words)

    def _on_live_link(self, use: Callable[[paramiko.Transport, Places], _T]) -> _T:
        """Return what `use` opens: on another connection where ours turns out to be lost."""
        link, places = self._connection()
        try:
            return use(link, places)
        except HostUnreachableError:
            link.join(_MOMENT_S)
            if link.is_active():
                raise
        return use(*self._connection())

    def _session(
        self, link: paramiko.Transport, places: Places, seconds: float
    ) -> paramiko.Channel:
        """Open a session, waiting for a free place where the host allows no more (MaxSessions)."""
        until = time.monotonic() + seconds
        while True:
            places.take(until)
            try:
                with self._asking:
                    channel = link.open_session(timeout=_left(until))
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
            except Exception as err:
                places.give(opened=False)
                if link.is_active() and time.monotonic() >= until:
                    told = f"opened no session within {seconds:g} s"
                    raise failures.hangs(self.name, told) from err
                told = f"the host opens no session: {failures.reason(err)}"
                raise self._refusal(link, told) from err

    def _refusal(self, link: paramiko.Transport, message: str) -> TransportError:
        link.join(_MOMENT_S)  # channels are closed before a connection that is lost says so
        if not link.is_active():
            return HostUnreachableError(self.name, f"the link was lost: {message}")
        return CommandError(self.name, message, hint="see this user's login shell, and sshd's log")


def _left(until: float) -> float:
    return max(0.1, until - time.monotonic())


def _on_the_way(name: str, err: TransportError) -> TransportError:
    """Return the error of a hop as that of the host behind it, which names the hop once."""
    told = err.message.removeprefix(f"{err.host}: ")
    if not told.startswith(_BY_HOP):
        told = f"{_BY_HOP} {err.message}"
    return type(err)(name, told, hint=err.hint)


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
        self._link.join(_MOMENT_S)  # channels are closed before a connection that is lost says so
        if not self._link.is_active():
            why = self._link.get_exception()
            flooded = f": {why}" if isinstance(why, FloodError) else ""
            raise HostUnreachableError(
                self._host,
                f"the link was lost while a command ran{flooded}",
                hint="its leash ends the command on the host; see whether the host is up",
            )
        return None

    def close(self) -> None:
        self._channel.close()
        self._places.give()
