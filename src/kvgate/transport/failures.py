"""What is said of a host that no SSH connection leads to, whichever way it was tried."""

from __future__ import annotations

from collections.abc import Sequence

from kvgate.errors import HostUnreachableError, LoginError
from kvgate.spec.inventory import Host


def where(host: Host) -> str:
    """Return the address and port of `host` in words."""
    return f"{host.address} port {host.port}"


def reason(err: BaseException) -> str:
    """Return why `err` was raised, in short."""
    return (str(err) or type(err).__name__)[:300]


def no_handshake(host: Host, err: Exception) -> HostUnreachableError:
    """Return the error of a handshake that `err` ended."""
    return HostUnreachableError(
        host.name,
        f"{where(host)}: no SSH handshake: {reason(err)}",
        hint="see that this port is an sshd's, and its log",
    )


def late_handshake(host: Host, seconds: float) -> HostUnreachableError:
    """Return the error of a handshake that came to no end within `seconds`."""
    return HostUnreachableError(
        host.name,
        f"{where(host)}: no SSH handshake within {seconds:g} s",
        hint="something accepts connections there and does not answer as an sshd",
    )


def late_login(host: Host, seconds: float) -> HostUnreachableError:
    """Return the error of a login that was not answered within `seconds`."""
    return HostUnreachableError(
        host.name,
        f"{where(host)}: no answer to the login within {seconds:g} s",
        hint="see sshd's log there: what it asks (PAM, LDAP, DNS) may be hanging",
    )


def lost_in_login(host: Host, err: Exception) -> HostUnreachableError:
    """Return the error of a link that `err` ended in the login."""
    return HostUnreachableError(
        host.name, f"{where(host)}: the link was lost in the login: {reason(err)}"
    )


def refused(host: Host, user: str, offered: Sequence[str]) -> LoginError:
    """Return the error of a login that was refused whatever was offered."""
    return LoginError(
        host.name,
        f"user '{user}' was refused; offered: {'; '.join(offered)}",
        hint=f"see that the key stands in ~{user}/.ssh/authorized_keys there, or correct 'user' "
        "or 'key' in the inventory",
    )


def hangs(host: str, message: str) -> HostUnreachableError:
    """Return the error of a host that is connected and does not do what every sshd does."""
    return HostUnreachableError(
        host,
        f"the host is connected and {message}",
        hint="sshd or the kernel hangs there: look at its console, load and disks",
    )
