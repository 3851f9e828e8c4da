"""The way to a device's own command line by SSH: one exec request a command, and no shell of ours.

A device has no POSIX sh, so nothing is wrapped: a command is its words with blanks between. That
is safe as every word is of characters that no command line takes for more (`spec.words.WORD`);
anything else is refused here. A device that only has an interactive session can't be asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvgate.errors import CommandError
from kvgate.spec.inventory import Host
from kvgate.spec.words import WORD
from kvgate.transport.base import OUTPUT_CAP_BYTES, CommandResult
from kvgate.transport.leashed import Start, result_of
from kvgate.transport.pump import Pump
from kvgate.transport.readonly import MOST_BYTES, ReadOnly
from kvgate.transport.ssh import SshTransport


class _Wire(SshTransport):
    """The SSH connection of a console; its commands go out as they are."""

    def _wire(self, words: list[str]) -> bytes:
        return " ".join(words).encode("ascii")

    def asked(self, words: list[str], timeout_s: float, cap_bytes: int) -> Pump:
        """Send a command and take its answer; raises TransportError."""
        pump = Pump(self._line(words, timeout_s), timeout_s=timeout_s, cap_bytes=cap_bytes)
        pump.run()
        return pump


class ConsoleTransport(ReadOnly):
    """A Transport to the command line of one device; thread-safe."""

    def __init__(self, wire: _Wire) -> None:
        self.name = wire.name
        self._wire = wire

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,  # noqa: ARG002  there is none on a device
        cap_bytes: int = OUTPUT_CAP_BYTES,
    ) -> CommandResult:
        """Run a command there; at `timeout_s` its channel is closed. Raises TransportError.

        A device that tells no exit status leaves it None: its answer is then not taken as whole.
        """
        words = list(argv)
        for word in words:
            if stdin or not WORD.fullmatch(word):
                raise CommandError(self.name, f"'{word[:200]}' is no word for a device")
        self._wire.open()
        start = Start()
        pump = self._wire.asked(words, timeout_s, min(cap_bytes, MOST_BYTES))
        return result_of(self.name, tuple(words), start, pump)

    def close(self) -> None:
        """Close the connection."""
        self._wire.close()


def console_to(host: Host) -> ConsoleTransport:
    """Return the transport to the command line of device `host`; opens nothing."""
    return ConsoleTransport(_Wire(host))
