"""How a device's certificate is checked: by authorities, a CA's file, or its own fingerprint.

There is no way not to check it. One that is not trusted is told with its fingerprint and the
line that pins it.
"""

from __future__ import annotations

import contextlib
import hashlib
import socket
import ssl

from kvgate.errors import HostKeyError, LoginError
from kvgate.spec.inventory import Host, Tls


def context_for(host: Host) -> ssl.SSLContext:
    """Return the context of connections to `host`; raises LoginError for a CA file that is none."""
    tls = host.tls or None
    if tls is not None and tls.fingerprint is not None:
        return _unchecked()  # `check_pin` compares the certificate before anything is sent
    try:
        return ssl.create_default_context(cafile=tls.ca if tls else None)
    except (OSError, ssl.SSLError) as err:
        raise LoginError(
            host.name,
            f"CA file {tls.ca if tls else ''} can't be read: {err}",
            hint="tls: {ca: FILE} names a file of certificates in PEM form",
        ) from err


def _unchecked() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def check_pin(host: Host, link: ssl.SSLSocket) -> None:
    """Raise HostKeyError unless the certificate is the pinned one, where one is pinned."""
    pinned = host.tls.fingerprint if host.tls else None
    if pinned is None:
        return
    shown = hashlib.sha256(link.getpeercert(binary_form=True) or b"").hexdigest()
    if shown != pinned:
        raise HostKeyError(
            host.name,
            f"the certificate has changed: the inventory has {_written(pinned)}; the device "
            f"shows {_written(shown)}",
            hint="another machine may be answering: find out why before anything else; only if "
            f"the change is confirmed, write: tls: {{fingerprint: '{_written(shown)}'}}",
        )


def not_trusted(
    host: Host, address: tuple[str, int], why: ssl.SSLCertVerificationError, timeout_s: float
) -> HostKeyError:
    """Return the error for a certificate that is not trusted, with its fingerprint.

    A second connection, on which nothing is sent, is made to see it.
    """
    shown = ""
    with (
        contextlib.suppress(OSError),
        socket.create_connection(address, timeout=timeout_s) as stream,
        _unchecked().wrap_socket(stream, server_hostname=address[0]) as link,
    ):
        shown = hashlib.sha256(link.getpeercert(binary_form=True) or b"").hexdigest()
    if not shown:
        return HostKeyError(host.name, f"the certificate is not trusted: {why.verify_message}")
    return HostKeyError(
        host.name,
        f"the certificate is not trusted ({why.verify_message}): it is {_written(shown)}",
        hint="compare it with the device's own (its console, or its web page over a safe way), "
        f"then pin it in the inventory: tls: {{fingerprint: '{_written(shown)}'}}; or name the "
        "file of the CA that signed it: tls: {ca: FILE}",
    )


def _written(digits: str) -> str:
    return f"sha256:{digits}"


def pinned(certificate: bytes) -> Tls:
    """Return the entry that pins a certificate (DER)."""
    return Tls(fingerprint=f"sha256:{hashlib.sha256(certificate).hexdigest()}")
