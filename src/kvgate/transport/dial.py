"""Opening an SSH connection: socket, handshake, host key, login, all before one deadline."""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import io
import ipaddress
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import paramiko

from kvgate.errors import HostKeyError, HostUnreachableError, LoginError
from kvgate.spec.inventory import Host
from kvgate.transport import alarm, failures, hostkeys, secret
from kvgate.transport.link import Link

KEEP_ALIVE_S = 15
_MARGIN_S = 1.0
SILENCE_MS = 45_000
"""How long the host's kernel may acknowledge nothing before the link counts as lost."""

Tunnel = Callable[[str, int, float], paramiko.Channel]
"""Opens a channel through a jump host: (address, port, timeout in seconds)."""

_Address = tuple[socket.AddressFamily, tuple[Any, ...]]
_RSA = ("rsa-sha2-512", "rsa-sha2-256", "ssh-rsa")
_loaded: dict[bytes, paramiko.PKey] = {}  # by SHA-256 of text and passphrase: many hosts, one key
_KEY_CLASSES = (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey)


class Deadline:
    """The time that is left for all of a connection's steps."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.until = time.monotonic() + seconds

    def left(self) -> float:
        """Return the seconds that are left, at least a moment."""
        return max(0.05, self.until - time.monotonic())

    def over(self) -> bool:
        """Tell whether no time is left."""
        return time.monotonic() >= self.until


def dial(host: Host, tunnel: Tunnel | None) -> paramiko.Transport:
    """Return a connection to `host` that is checked and logged in, `tunnel`led where given.

    1. look up and connect  2. shake hands  3. check the host's key  4. log in.
    `Host.connect_timeout` covers all four. Raises HostUnreachableError, HostKeyError, LoginError.
    """
    deadline = Deadline(host.connect_timeout.to("s"))
    stream: socket.socket | paramiko.Channel
    if tunnel is None:
        stream = connect(host, deadline)  # 1
    else:
        stream = tunnel(host.address or "", host.port, deadline.left())
    try:
        link = Link(stream)
    except (paramiko.SSHException, OSError) as err:
        stream.close()
        raise HostUnreachableError(host.name, f"{failures.where(host)}: {err}") from err
    try:
        # By our own clock: paramiko itself waits by that of the wall.
        with alarm.after(deadline.left() + _MARGIN_S, link.close):
            _shake_hands(host, link, deadline)  # 2
            check_key(host, link.get_remote_server_key())  # 3
            _log_in(host, link, deadline)  # 4
    except BaseException:
        link.close()
        raise
    link.set_keepalive(KEEP_ALIVE_S)
    return link


def connect(host: Host, deadline: Deadline) -> socket.socket:
    """Return a TCP connection to `host`; raises HostUnreachableError."""
    try:
        stream = _connect_any(_look_up(host, deadline), deadline)
    except OSError as err:
        cause = (
            f"no answer within {deadline.seconds:g} s"
            if isinstance(err, TimeoutError)
            else err.strerror or str(err)
        )
        raise HostUnreachableError(
            host.name,
            f"{failures.where(host)}: {cause}",
            hint="see that the host is up, sshd runs there, and address and port are right",
        ) from err
    # Before paramiko speaks: Nagle and delayed ACK make 70 ms of a 4 ms handshake.
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE_MS)
    # Between commands nobody listens on a brief link: the kernel asks whether the host is there.
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEP_ALIVE_S)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEP_ALIVE_S)
    return stream


def _look_up(host: Host, deadline: Deadline) -> list[_Address]:
    """Return the addresses of `host`; a resolver that does not answer costs no more than the rest.

    getaddrinfo knows no time limit: it has a thread of its own, which is left behind then. An
    address in numbers needs none.
    """
    with contextlib.suppress(ValueError):
        numbers = ipaddress.ip_address(host.address or "")
        if numbers.version == 4:
            return [(socket.AF_INET, (str(numbers), host.port))]
    found: queue.SimpleQueue[list[_Address] | OSError] = queue.SimpleQueue()

    def ask() -> None:
        try:
            told = socket.getaddrinfo(host.address, host.port, type=socket.SOCK_STREAM)
            found.put([(family, address) for family, _, _, _, address in told])
        except OSError as err:
            found.put(err)
        except UnicodeError as err:
            found.put(OSError(f"'{host.address}' is no name of a host: {err}"))

    threading.Thread(target=ask, name=f"look up {host.address}", daemon=True).start()
    try:
        answer = found.get(timeout=deadline.left())
    except queue.Empty:
        raise HostUnreachableError(
            host.name,
            f"{failures.where(host)}: the name was not resolved within {deadline.seconds:g} s",
            hint="see /etc/resolv.conf on this machine, or give the address as numbers",
        ) from None
    if isinstance(answer, OSError):
        raise answer
    return answer


def _connect_any(addresses: list[_Address], deadline: Deadline) -> socket.socket:
    """Return a connection to the first address that answers, each given its share of the time."""
    failure: OSError = OSError("the name has no address")
    for number, (family, address) in enumerate(addresses):
        stream = socket.socket(family, socket.SOCK_STREAM)
        stream.settimeout(deadline.left() / (len(addresses) - number))
        try:
            stream.connect(address)
        except OSError as err:
            stream.close()
            failure = err
        else:
            return stream
    raise failure


def _shake_hands(host: Host, link: paramiko.Transport, deadline: Deadline) -> None:
    """Agree on keys, with the host-key types that we know of this host offered first.

    Whatever its thread came to raise over what the host sent, paramiko raises here.
    """
    options = link.get_security_options()
    first = known_kinds(host)
    options.key_types = sorted(options.key_types, key=lambda kind: kind not in first)
    link.banner_timeout = link.handshake_timeout = link.auth_timeout = deadline.left()
    try:
        link.start_client(timeout=deadline.left())
    except Exception as err:
        if not deadline.over():
            raise failures.no_handshake(host, err) from err
    if not link.initial_kex_done:  # start_client returns silently when its time is over
        raise failures.late_handshake(host, deadline.seconds)


def _algorithms(keytype: str) -> Sequence[str]:
    return _RSA if keytype == "ssh-rsa" else (keytype,)


def known_kinds(host: Host) -> tuple[str, ...]:
    """Return the algorithms of the keys that we know of `host`; raises HostKeyError."""
    trusted = (key for key in known_keys(host) if not key.revoked)
    return tuple(kind for key in trusted for kind in _algorithms(key.keytype))


def _known_hosts(host: Host) -> str:
    return os.path.expanduser(host.known_hosts or "~/.ssh/known_hosts")  # noqa: PTH111  as in hostkeys


def known_keys(host: Host) -> tuple[hostkeys.KnownKey, ...]:
    """Return what known_hosts holds for `host`; raises HostKeyError where it can't be read."""
    path = _known_hosts(host)
    try:
        known = hostkeys.known_hosts(path)
    except FileNotFoundError:
        return ()
    except OSError as err:
        raise HostKeyError(host.name, f"{path}: {err.strerror}") from err
    return known.of(hostkeys.host_name(host.address or "", host.port))


def check_key(host: Host, key: paramiko.PKey) -> None:
    """Raise HostKeyError unless known_hosts holds exactly this key and does not revoke it."""
    known, blob = known_keys(host), key.asbytes()
    shown = f"{key.get_name()} {hostkeys.fingerprint(blob)}"
    if any(one.blob == blob and one.revoked for one in known):
        raise HostKeyError(host.name, f"the host shows a key that is revoked: {shown}")
    trusted = [one for one in known if not one.revoked]
    if any(one.blob == blob for one in trusted):
        return
    path = _known_hosts(host)
    line = hostkeys.entry(hostkeys.host_name(host.address or "", host.port), key.get_name(), blob)
    if trusted:
        former = ", ".join(f"{one.keytype} {hostkeys.fingerprint(one.blob)}" for one in trusted)
        raise HostKeyError(
            host.name,
            f"the host key has changed: {path} has {former}; the host shows {shown}",
            hint="another machine may be answering: find out why before anything else; only if "
            f"the change is confirmed, replace the old line in {path} by:\n    {line}",
        )
    raise HostKeyError(
        host.name,
        f"the host key is not known: {shown}; the line for known_hosts is:\n    {line}",
        hint=f"compare the fingerprint with the host's own (ssh-keygen -lf), then add the line "
        f"to {path}",
    )


def _log_in(host: Host, link: paramiko.Transport, deadline: Deadline) -> None:
    """Offer the declared key, then the agent's; raises LoginError that lists what was offered."""
    user = host.user or getpass.getuser()
    if host.password is not None:
        _log_in_by_password(host, link, user, deadline)
        return
    offered = []
    for name, key in own_keys(host):
        link.auth_timeout = deadline.left()
        try:
            more = link.auth_publickey(user, key)
        except paramiko.AuthenticationException as err:
            if deadline.over():
                raise failures.late_login(host, deadline.seconds) from err
            if not link.is_active() and "EOF" in str(err):
                raise failures.lost_in_login(host, err) from err
            offered.append(f"{name} ({err})")
        except Exception as err:
            raise failures.lost_in_login(host, err) from err
        else:
            if not more:
                return
            offered.append(f"{name} (accepted, but the host also wants: {', '.join(more)})")
        if not link.is_active():
            break
    raise failures.refused(host, user, offered)


def _log_in_by_password(
    host: Host, link: paramiko.Transport, user: str, deadline: Deadline
) -> None:
    """Log in to a device, which may know no keys; raises LoginError that says it was refused."""
    if host.password is None:
        raise LoginError(host.name, "the inventory declares no password")
    password = secret.resolve(host.name, "password", host.password).rstrip("\r\n")
    link.auth_timeout = deadline.left()
    try:
        more = link.auth_password(user, password, fallback=True)
    except paramiko.AuthenticationException as err:
        raise LoginError(
            host.name,
            f"user '{user}' was refused with the password from {secret.place(host.password)}",
            hint="correct 'user' or 'password' in the inventory; reading is all it needs",
        ) from err
    except Exception as err:
        raise failures.lost_in_login(host, err) from err
    if more:
        raise LoginError(host.name, f"the device also wants: {', '.join(more)}")


def own_keys(host: Host) -> Iterator[tuple[str, paramiko.PKey]]:
    """Yield the keys that the inventory allows, each with a name for messages."""
    if host.key is None and not host.agent:
        raise LoginError(
            host.name,
            "the inventory declares neither a key nor an agent",
            hint="give 'key: {file: …}' or 'agent: true'",
        )
    if host.key is not None:
        key = _load(host, secret.resolve(host.name, "key", host.key))
        yield f"{secret.place(host.key)}, {hostkeys.fingerprint(key.asbytes())}", key
    if host.agent:
        keys = paramiko.Agent().get_keys()
        if not keys and host.key is None:
            raise LoginError(
                host.name,
                "the SSH agent holds no key, or there is no agent",
                hint="start one and ssh-add the key; SSH_AUTH_SOCK must be set",
            )
        for one in keys:
            yield f"agent, {hostkeys.fingerprint(one.asbytes())}", one


def _load(host: Host, text: str) -> paramiko.PKey:
    """Return the private key in `text` (OpenSSH or PEM: Ed25519, ECDSA, RSA)."""
    passphrase = (
        secret.resolve(host.name, "key_passphrase", host.key_passphrase).rstrip("\r\n")
        if host.key_passphrase
        else None
    )
    origin = secret.place(host.key) if host.key else "key"
    read = hashlib.sha256(f"{passphrase}\0{text}".encode("utf-8", "surrogateescape")).digest()
    if read in _loaded:
        return _loaded[read]
    for kind in _KEY_CLASSES:
        try:
            _loaded[read] = kind.from_private_key(io.StringIO(text), password=passphrase)
            return _loaded[read]
        except paramiko.PasswordRequiredException as err:
            raise LoginError(
                host.name,
                f"the key from {origin} has a passphrase",
                hint="name where it is: 'key_passphrase: {env: …}' or '{file: …}'",
            ) from err
        except (paramiko.SSHException, ValueError, IndexError, UnicodeDecodeError):
            continue  # of another kind, or no key: told below when none fits
    raise LoginError(
        host.name,
        f"{origin} holds no private key that can be read"
        + (" with this passphrase" if passphrase else ""),
        hint="it must be an Ed25519, ECDSA or RSA key in OpenSSH or PEM form",
    )
