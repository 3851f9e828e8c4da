"""Secrets: what an inventory names by an environment variable or a file, read when it is needed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

from kvgate.errors import LoginError
from kvgate.spec.inventory import Host, Secret
from kvgate.untrusted import keep_secret


def place(secret: Secret) -> str:
    """Return where the secret is, for messages; never the secret."""
    return f"environment variable {secret.env}" if secret.env else f"file {secret.file}"


def resolve(host: str, what: str, secret: Secret) -> str:
    """Return the secret, masked from now on wherever it turns up.

    Raises LoginError that says where it was looked for, never what it is.
    """
    value = _read(host, what, secret)
    keep_secret(value)
    return value


def learn(hosts: Iterable[Host]) -> None:
    """Have every secret of `hosts` masked that can be read now, before any host is asked.

    What can't be read is in no memory of ours either; the login that needs it says so.
    """
    for host in hosts:
        for what, secret in _named(host):
            if secret is not None:
                with contextlib.suppress(LoginError):
                    resolve(host.name, what, secret)


def _named(host: Host) -> tuple[tuple[str, Secret | None], ...]:
    return (
        ("key", host.key),
        ("key_passphrase", host.key_passphrase),
        ("password", host.password),
    )


def _read(host: str, what: str, secret: Secret) -> str:
    if secret.env is not None:
        value = os.environ.get(secret.env)
        if not value:
            raise LoginError(
                host,
                f"{what} can't be read: environment variable {secret.env} is not set",
                hint=f"export {secret.env}, or name another place in the inventory",
            )
        return value
    path = os.path.expanduser(secret.file or "")  # noqa: PTH111  hosts are many, and Paths slow
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123  ditto
            return file.read()
    except (OSError, ValueError) as err:
        reason = err.strerror if isinstance(err, OSError) else "is not text"
        raise LoginError(
            host, f"{what} can't be read: {path}: {reason}", hint=f"correct {what} in the inventory"
        ) from err
