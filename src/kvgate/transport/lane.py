"""The lane of one host: its brief link, lent to one command at a time, and that command's line."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

import paramiko

from kvgate.errors import CommandError, HostUnreachableError
from kvgate.spec.inventory import Host
from kvgate.transport import brief, failures
from kvgate.transport.brief import LOST, BriefLink, Channel
from kvgate.transport.exchange import NoCommonGroundError
from kvgate.transport.leashed import Start
from kvgate.transport.pump import Line

_KEEP_ALIVE_S = 15.0
"""How long a line that waits is silent at most: the kernel then learns whether the link lives."""

_MOST_CARRIED = 2**30
"""A link that has brought so many bytes is not used again: keys are for so much."""


class Lane:
    """Lends one link to `host`, dialled when it is needed; thread-safe but for who has taken it."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._lock = threading.Lock()
        self._suits = brief.suits(host)
        self._lent = False
        self._link: BriefLink | None = None

    @property
    def open(self) -> bool:
        """Tell whether there is a link."""
        return self._link is not None

    def take(self) -> bool:
        """Take the lane for one command; False where it is taken, or not for this host."""
        with self._lock:
            if self._lent or not self._suits:
                return False
            self._lent = True
            return True

    def begin(self, command: bytes, seconds: float) -> tuple[Line, Start]:
        """Have `command` run, on the lane that was taken: its line gives it back when it is closed.

        A link that was lost since is dialled again, for what can't have begun on it. Raises
        TransportError, or NoCommonGroundError where this host has to be asked otherwise; the lane
        is given back then.
        """
        try:
            kept = self._link
            link = kept or self._dialled()
            start = Start()
            try:
                channel = self._session(link, seconds)
            except (HostUnreachableError, CommandError):
                if kept is None or self._link is not None:
                    raise
                link = self._dialled()
                start = Start()
                channel = self._session(link, seconds)
            self._command(link, channel, command, seconds)
        except NoCommonGroundError:
            self._suits = False
            self._give()
            raise
        except BaseException:
            self._drop()
            raise
        return _BriefLine(self._host.name, link, channel, self._given_back), start

    def _dialled(self) -> BriefLink:
        self._link = brief.dialled(self._host)
        return self._link

    def _session(self, link: BriefLink, seconds: float) -> Channel:
        name = self._host.name
        try:
            return link.open(time.monotonic() + seconds)
        except TimeoutError as err:
            raise failures.hangs(name, f"opened no session within {seconds:g} s") from err
        except paramiko.ChannelException as err:
            self._forget()  # on another link the last command's session is no longer in the way
            raise CommandError(
                name,
                f"the host opens no session: {err.text}",
                hint="see MaxSessions and the login shell of this user on the host",
            ) from err
        except LOST as err:
            self._forget()
            told = f"the host opens no session: {failures.reason(err)}"
            raise HostUnreachableError(name, f"the link was lost: {told}") from err

    def _command(self, link: BriefLink, channel: Channel, command: bytes, seconds: float) -> None:
        name = self._host.name
        try:
            link.run(channel, command, time.monotonic() + seconds)
        except TimeoutError as err:
            raise failures.hangs(name, f"took no command within {seconds:g} s") from err
        except LOST as err:
            told = f"the host takes no command: {failures.reason(err)}"
            if channel.accepted is None and not channel.closed:
                raise HostUnreachableError(name, f"the link was lost: {told}") from err
            raise CommandError(
                name, told, hint="see this user's login shell, and sshd's log"
            ) from err

    def _given_back(self, usable: bool) -> None:
        link = self._link
        if usable and link is not None and link.wire.carried < _MOST_CARRIED:
            self._give()
        else:
            self._drop()

    def _give(self) -> None:
        with self._lock:
            self._lent = False

    def _drop(self) -> None:
        self._forget()
        self._give()

    def _forget(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.wire.close()

    def rest(self) -> None:
        """Close the link unless a command runs on it."""
        if self.take():
            self._drop()

    def close(self) -> None:
        """Close the link; a command that runs on it, in another thread, is lost."""
        if self.take():
            self._drop()
        elif (link := self._link) is not None:
            link.wire.hang_up()


class _BriefLine:
    """A leash at the other end of a brief link (see `pump.Line`)."""

    def __init__(
        self, host: str, link: BriefLink, channel: Channel, give: Callable[[bool], None]
    ) -> None:
        self._host = host
        self._link = link
        self._channel = channel
        self._give = give
        self._lost: Exception | None = None
        self._alive = time.monotonic()  # when we last heard of the link, or looked

    def wait(self, timeout_s: float, *, to_write: bool) -> None:
        channel, wire = self._channel, self._link.wire
        if channel.out or channel.err or channel.eof or self._lost or wire.holds:
            return
        if to_write and channel.room and not wire.unsent:
            return
        if wire.wait(timeout_s):
            self._alive = time.monotonic()
        elif time.monotonic() - self._alive > _KEEP_ALIVE_S:
            self._alive = time.monotonic()
            with self._noting():
                self._link.ping()

    def read(self) -> tuple[bytes, bytes]:
        if self._lost is None:
            with self._noting():
                self._link.take_arrived()
                self._link.open_window(self._channel)
                self._link.wire.flush_some()
        return self._channel.taken()

    def write(self, data: memoryview) -> int:
        if self._lost or self._channel.closed or self._channel.eof_sent:
            raise BrokenPipeError("the line was hung up")
        try:
            if self._link.wire.unsent and not self._link.wire.flush_some():
                return 0
            count = self._link.send(self._channel, data)
            self._link.wire.flush_some()
        except LOST as err:
            self._lost = err
            raise BrokenPipeError(str(err)) from err
        return count

    def drained(self) -> bool:
        ended = self._lost is not None or self._channel.eof
        return ended and not (self._channel.out or self._channel.err)

    def exited(self) -> bool:
        return self._channel.status is not None

    def hang_up(self) -> None:
        with self._noting():
            self._link.end_input(self._channel)
            self._link.wire.flush_some()

    def status(self, timeout_s: float) -> int | None:
        channel = self._channel
        with self._noting(), contextlib.suppress(TimeoutError):
            if self._lost is None:
                self._link.take(
                    lambda: channel.status is not None or channel.closed,
                    time.monotonic() + timeout_s,
                )
        if channel.status is None and self._lost is not None:
            why = f": {self._lost}" if isinstance(self._lost, paramiko.SSHException) else ""
            raise HostUnreachableError(
                self._host,
                f"the link was lost while a command ran{why}",
                hint="its leash ends the command on the host; see whether the host is up",
            )
        return channel.status

    def close(self) -> None:
        with self._noting():
            self._link.leave(self._channel)
            self._link.wire.flush_some()
        ended = self._channel.status is not None or self._channel.closed
        self._give(ended and self._lost is None and not self._link.wire.unsent)

    @contextlib.contextmanager
    def _noting(self) -> Iterator[None]:
        """Note that the link was lost, for `status` to tell."""
        try:
            yield
        except TimeoutError:
            raise
        except LOST as err:
            self._lost = err
