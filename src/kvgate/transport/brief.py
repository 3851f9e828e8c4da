"""A brief link: an SSH connection that runs one command after another, without a thread of its own.

For what a survey asks: many hosts, few commands each. What paramiko costs there (a thread a
connection, a hundred Python calls a packet, a round trip for each step) is several times what the
host's own answer takes. Only the common case is here: a key of the inventory, no jump host, the
algorithms of `exchange`; all else, and everything that runs long or side by side, is paramiko's.
RFC 4252 (publickey, signed at once, sent together with the request for the service), RFC 4254.
"""

from __future__ import annotations

import dataclasses
import functools
import getpass
import time
from collections.abc import Callable

import paramiko

from kvgate.errors import KvgateError
from kvgate.spec.inventory import Host
from kvgate.transport import dial, failures
from kvgate.transport.exchange import KEXINIT, Exchange, NoCommonGroundError, goodbye
from kvgate.transport.fields import Reader, string, uint32
from kvgate.transport.window import FloodError
from kvgate.transport.wire import Wire

LOST = (EOFError, OSError, paramiko.SSHException)
"""What is raised where a link has ended, or is ended for what came by it."""

WINDOW_BYTES = 2**21
"""How much a host may send of a command's output before we have read it."""

_PACKET_BYTES = 2**15
_REKEY_S = 10.0
_DISCONNECT, _IGNORE, _UNIMPLEMENTED, _DEBUG = 1, 2, 3, 4
_SERVICE_REQUEST, _SERVICE_ACCEPT, _EXT_INFO = 5, 6, 7
_AUTH_REQUEST, _AUTH_FAILURE, _AUTH_SUCCESS, _AUTH_BANNER = 50, 51, 52, 53
_GLOBAL_REQUEST, _REQUEST_SUCCESS, _REQUEST_FAILURE = 80, 81, 82
_OPEN, _OPENED, _OPEN_FAILURE, _ADJUST, _DATA, _EXTENDED = 90, 91, 92, 93, 94, 95
_EOF, _CLOSE, _REQUEST, _SUCCESS, _FAILURE = 96, 97, 98, 99, 100
_SAYS_NOTHING = (_IGNORE, _UNIMPLEMENTED, _DEBUG, _EXT_INFO, _REQUEST_SUCCESS, _REQUEST_FAILURE)
_STDERR = 1
_PROHIBITED = 1


def suits(host: Host) -> bool:
    """Tell whether `host` is reached in the way that brief links know."""
    declared = host.key is not None and not host.agent and host.password is None
    return declared and host.jump is None and not host.is_device


def dialled(host: Host) -> BriefLink:
    """Return a link to `host` that is checked and logged in, all within `Host.connect_timeout`.

    Raises HostUnreachableError, HostKeyError, LoginError, and NoCommonGroundError where paramiko
    may succeed.
    """
    deadline = dial.Deadline(host.connect_timeout.to("s"))
    wire = Wire(dial.connect(host, deadline))
    try:
        exchange = _shake_hands(host, wire, deadline)
        _log_in(host, wire, exchange.session, deadline)
    except BaseException:
        wire.close()
        raise
    return BriefLink(wire, exchange)


def _shake_hands(host: Host, wire: Wire, deadline: dial.Deadline) -> Exchange:
    exchange = Exchange(wire, dial.known_kinds(host), functools.partial(dial.check_key, host))
    try:
        exchange.begin(deadline.until)
    except (KvgateError, NoCommonGroundError):
        raise
    except TimeoutError as err:
        raise failures.late_handshake(host, deadline.seconds) from err
    except Exception as err:  # whatever comes of what the host sent
        raise failures.no_handshake(host, err) from err
    return exchange


def _log_in(host: Host, wire: Wire, session: bytes, deadline: dial.Deadline) -> None:
    """Offer the declared key; raises LoginError that says what was offered.

    NoCommonGroundError where the host may know the key by another algorithm.
    """
    user = host.user or getpass.getuser()
    name, key = next(iter(dial.own_keys(host)))
    wire.put(bytes((_SERVICE_REQUEST,)) + string(b"ssh-userauth"))
    wire.put(_signed(user, key, session))
    try:
        wire.flush(deadline.until)
        refusal = _answer_to_login(wire, deadline.until)
    except TimeoutError as err:
        raise failures.late_login(host, deadline.seconds) from err
    except Exception as err:
        raise failures.lost_in_login(host, err) from err
    if refusal and key.get_name() == "ssh-rsa":  # sshds before 7.2 know it by SHA-1 alone
        raise NoCommonGroundError(refusal)
    if refusal:
        raise failures.refused(host, user, [f"{name} ({refusal})"])


def _signed(user: str, key: paramiko.PKey, session: bytes) -> bytes:
    """Return the request to log in by `key`, signed at once: the host is not asked whether to."""
    algorithm = "rsa-sha2-512" if key.get_name() == "ssh-rsa" else key.get_name()
    request = b"".join(
        (
            bytes((_AUTH_REQUEST,)),
            *(string(word) for word in (user.encode(), b"ssh-connection", b"publickey")),
            b"\1",
            string(algorithm.encode("ascii")),
            string(key.asbytes()),
        )
    )
    return request + string(key.sign_ssh_data(string(session) + request, algorithm).asbytes())


def _answer_to_login(wire: Wire, until: float) -> str:
    """Return why the host refuses, "" where it does not."""
    while True:
        packet = wire.packet(until)
        kind = packet[0]
        if kind == _AUTH_SUCCESS:
            return ""
        if kind == _AUTH_FAILURE:
            fields = Reader(packet[1:])
            wanted, accepted = ", ".join(fields.names()), fields.byte()
            return f"accepted, but the host also wants: {wanted}" if accepted else "refused"
        if kind == _DISCONNECT:
            raise goodbye(packet)
        if kind not in (*_SAYS_NOTHING, _SERVICE_ACCEPT, _AUTH_BANNER):
            raise paramiko.SSHException(f"it sends message {kind} in the login")


@dataclasses.dataclass(slots=True)
class Channel:
    """One command's channel, as far as the host has told."""

    number: int
    theirs: int | None = None
    refusal: str | None = None
    accepted: bool | None = None
    room: int = 0  # bytes that the host still takes
    most: int = 0  # bytes that it takes in one packet
    window: int = WINDOW_BYTES  # bytes that we still take
    out: list[bytes] = dataclasses.field(default_factory=list)
    err: list[bytes] = dataclasses.field(default_factory=list)
    status: int | None = None
    eof: bool = False
    closed: bool = False
    eof_sent: bool = False

    def taken(self) -> tuple[bytes, bytes]:
        """Return what has come of stdout and of stderr, and hold it no longer."""
        told = b"".join(self.out), b"".join(self.err)
        self.out.clear()
        self.err.clear()
        return told


class BriefLink:
    """A connection that is logged in; one thread at a time uses it.

    What waits raises TimeoutError at its time, and one of `LOST` where the link has ended.
    """

    def __init__(self, wire: Wire, exchange: Exchange) -> None:
        self.wire = wire
        self._exchange = exchange
        self._channel = Channel(-1)

    def open(self, until: float) -> Channel:
        """Return a new session; raises ChannelException where the host allows none."""
        channel = self._channel = Channel(self._channel.number + 1)
        numbers = (channel.number, WINDOW_BYTES, _PACKET_BYTES)
        self.wire.put(bytes((_OPEN,)) + string(b"session") + b"".join(map(uint32, numbers)))
        self.wire.flush(until)
        self.take(lambda: channel.theirs is not None or channel.refusal is not None, until)
        if channel.refusal is not None:
            raise paramiko.ChannelException(_PROHIBITED, channel.refusal)
        return channel

    def run(self, channel: Channel, command: bytes, until: float) -> None:
        """Have `command` run on `channel`; raises SSHException where the host takes none."""
        self.tell(channel, _REQUEST, string(b"exec") + b"\1" + string(command))
        self.wire.flush(until)
        self.take(lambda: channel.accepted is not None or channel.closed, until)
        if not channel.accepted:
            raise paramiko.SSHException("the request was refused")

    def take(self, done: Callable[[], bool], until: float) -> None:
        """Take in packets until `done`, waiting for them."""
        while not done():
            self._handle(self.wire.packet(until))
            if time.monotonic() >= until and not done():
                raise TimeoutError

    def take_arrived(self) -> None:
        """Take in what has come, without waiting."""
        self._take_held()  # before the end of the connection hides it
        self.wire.look()
        self._take_held()

    def _take_held(self) -> None:
        """Take what is here already, up to an exchange of keys: a host may ask for many."""
        while (packet := self.wire.arrived()) is not None:
            self._handle(packet)
            if packet[0] == KEXINIT:
                return

    def tell(self, channel: Channel, kind: int, fields: bytes = b"") -> None:
        """Put a message about `channel`."""
        if channel.theirs is not None:
            self.wire.put(bytes((kind,)) + uint32(channel.theirs) + fields)

    def send(self, channel: Channel, data: memoryview) -> int:
        """Put as much of `data` as host takes now; return how much that is."""
        count = min(len(data), channel.room, channel.most, _PACKET_BYTES)
        if count:
            self.tell(channel, _DATA, string(bytes(data[:count])))
            channel.room -= count
        return count

    def open_window(self, channel: Channel) -> None:
        """Let the host send on, for a caller who takes what has come."""
        if channel.window < WINDOW_BYTES // 2 and not channel.closed:
            self.tell(channel, _ADJUST, uint32(WINDOW_BYTES - channel.window))
            channel.window = WINDOW_BYTES

    def end_input(self, channel: Channel) -> None:
        """Put the end of the command's stdin."""
        if not channel.eof_sent:
            channel.eof_sent = True
            self.tell(channel, _EOF)

    def leave(self, channel: Channel) -> None:
        """Put that the channel is closed."""
        self.tell(channel, _CLOSE)

    def ping(self) -> None:
        """Send what says nothing: where nobody acknowledges it, the kernel ends the link."""
        self.wire.put(bytes((_IGNORE,)) + string(b""))
        self.wire.flush_some()

    def _agree_again(self, packet: bytes) -> None:
        try:
            self._exchange.again(packet, time.monotonic() + _REKEY_S)
        except Exception as err:  # whatever comes of what the host sent
            raise paramiko.SSHException(f"no new keys: {failures.reason(err)}") from err

    def _handle(self, packet: bytes) -> None:
        kind, fields = packet[0], Reader(packet[1:])
        if kind in _SAYS_NOTHING:
            return
        if kind == _DISCONNECT:
            raise goodbye(packet)
        if kind == KEXINIT:
            self._agree_again(packet)
        elif kind == _GLOBAL_REQUEST:  # a keep-alive, for one
            fields.string()
            if fields.byte():
                self.wire.put(bytes((_REQUEST_FAILURE,)))
        elif kind == _OPEN:
            fields.string()
            number = fields.uint32()
            refusal = uint32(number) + uint32(_PROHIBITED) + string(b"") + string(b"")
            self.wire.put(bytes((_OPEN_FAILURE,)) + refusal)
        elif _OPENED <= kind <= _FAILURE:
            if fields.uint32() == self._channel.number:  # else of a command that was left
                _on_channel(self, self._channel, kind, fields)
        else:
            raise paramiko.SSHException(f"it sends message {kind}, which has no meaning here")
        self.wire.flush_some()


def _on_channel(link: BriefLink, channel: Channel, kind: int, fields: Reader) -> None:
    if kind == _DATA:
        _take_data(channel, channel.out, fields.string())
    elif kind == _EXTENDED:
        stream = channel.err if fields.uint32() == _STDERR else []
        _take_data(channel, stream, fields.string())
    elif kind == _OPENED:
        channel.theirs, channel.room, channel.most = (fields.uint32() for _ in range(3))
    elif kind == _OPEN_FAILURE:
        fields.uint32()
        channel.refusal = fields.text()
    elif kind == _ADJUST:
        channel.room += fields.uint32()
    elif kind in (_SUCCESS, _FAILURE):
        channel.accepted = kind == _SUCCESS
    elif kind == _REQUEST:
        name, wants_answer = fields.string(), fields.byte()
        if name == b"exit-status":
            channel.status = fields.uint32()
        if wants_answer:
            link.tell(channel, _FAILURE)
    else:
        channel.eof = True
        channel.closed = channel.closed or kind == _CLOSE


def _take_data(channel: Channel, stream: list[bytes], data: bytes) -> None:
    channel.window -= len(data)
    if channel.window < 0:
        raise FloodError(
            f"it sent {-channel.window} bytes that nobody had asked for yet, over a window of "
            f"{WINDOW_BYTES}"
        )
    stream.append(data)
