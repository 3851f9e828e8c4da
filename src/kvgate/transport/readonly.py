"""What every way to a device that is no computer has in common: it is asked, and that is all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from kvgate.errors import CommandError
from kvgate.transport.base import OUTPUT_CAP_BYTES, HostProcess

MOST_BYTES = 4 * 2**20
"""The most that is taken of one answer of a device: its documents have some 100 KB at most."""


class ReadOnly:
    """The methods of a Transport (see `transport.base`) that a device has not."""

    name: str

    def start(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float,  # noqa: ARG002  as the protocol has it
        on_stdout: Callable[[bytes], None] | None = None,  # noqa: ARG002
        env: Mapping[str, str] | None = None,  # noqa: ARG002
        cap_bytes: int = OUTPUT_CAP_BYTES,  # noqa: ARG002
    ) -> HostProcess:
        """Raise CommandError: nothing is started on a device."""
        self._refuse(f"`{argv[0]}` is not started on a device")

    def write_file(self, path: str, data: bytes, *, mode: int = 0o600) -> None:  # noqa: ARG002
        """Raise CommandError: nothing is written to a device."""
        self._refuse(f"{path}: no file is written to a device")

    def read_file(self, path: str, *, cap_bytes: int = OUTPUT_CAP_BYTES) -> bytes:  # noqa: ARG002
        """Raise CommandError: a device has no files for us."""
        self._refuse(f"{path}: no file is read from a device")

    def _refuse(self, what: str) -> NoReturn:
        raise CommandError(self.name, what, hint="a device is only asked, by its adapter")
