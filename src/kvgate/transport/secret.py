"""Secrets: what an inventory names by an environment variable or a file, read when it is needed."""

from __future__ import annotations

import os
from pathlib import Path

from kvgate.errors import LoginError
from kvgate.spec.inventory import Secret


def place(secret: Secret) -> str:
    """Return where the secret is, for messages; never the secret."""
    return f"environment variable {secret.env}" if secret.env else f"file {secret.file}"


def resolve(host: str, what: str, secret: Secret) -> str:
    """Return the secret; raises LoginError that says where it was looked for, never what it is."""
    if secret.env is not None:
        value = os.environ.get(secret.env)
        if not value:
            raise LoginError(
                host,
                f"{what}: environment variable {secret.env} is not set",
                hint=f"export {secret.env}, or name another place in the inventory",
            )
        return value
    path = Path(secret.file or "").expanduser()
    try:
        return path.read_text("utf-8")
    except (OSError, ValueError) as err:
        reason = err.strerror if isinstance(err, OSError) else "is not text"
        raise LoginError(
            host, f"{what}: {path}: {reason}", hint=f"correct {what} in the inventory"
        ) from err
