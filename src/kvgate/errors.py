"""The exception family: every error says where, what, and what to do next.

Libraries raise one of these (with ``from`` when they translate); only ``kvgate.cli`` catches
them, prints them and chooses the exit code.
"""

from __future__ import annotations

from kvgate.untrusted import mask, plain


class KvgateError(Exception):
    """Something kvgate can explain; ``hint`` is the reader's next step.

    Both may hold what a host said: secrets in them are masked, and control characters are shown.
    Subclasses set ``exit_code`` (design.md section 7): 3 the harness broke, 64 usage.
    """

    exit_code = 3

    def __init__(self, message: str, *, hint: str = "") -> None:
        self.message = mask(plain(message))
        self.hint = mask(plain(hint))
        super().__init__(self.message)

    def __str__(self) -> str:
        """Return the message and, when there is one, the hint on a line of its own."""
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


class UsageError(KvgateError):
    """The command line asks for something that can't be done."""

    exit_code = 64


class SpecError(KvgateError):
    """A file that people write (gate, plan, inventory, baseline) is refused."""

    exit_code = 64


class UnitError(KvgateError):
    """A text is not a quantity, or two quantities have no common dimension."""


class TransportError(KvgateError):
    """A host could not be asked; ``host`` is its name in the inventory."""

    def __init__(self, host: str, message: str, *, hint: str = "") -> None:
        super().__init__(f"{host}: {message}", hint=hint)
        self.host = host


class HostUnreachableError(TransportError):
    """No connection to the host: refused, timed out, no route, or the link was lost."""


class AskerLostError(HostUnreachableError):
    """The process of ours that asked the host has ended: nothing is known about the host."""


class HostKeyError(TransportError):
    """The host's key is not known or has changed; the message holds its fingerprint."""


class LoginError(TransportError):
    """The host refused the user or the key."""


class CommandError(TransportError):
    """A command on a host ended badly or not at all."""


class ParseError(KvgateError):
    """An answer is not what the parser knows; never replaced by a guess."""


class StoreError(KvgateError):
    """A run folder can't be written or read."""


class RunLockedError(StoreError):
    """Another process is writing this run."""


class HostsInUseError(StoreError):
    """Another controller holds hosts of this inventory: nothing was run."""

    exit_code = 2


class DamagedRunError(StoreError):
    """A run folder holds bytes that were altered, cut or are missing."""


class NotRunError(KvgateError):
    """Requirements of a test are not met; ``reasons`` lists every one, not just the first."""

    exit_code = 2

    def __init__(self, reasons: tuple[str, ...], *, hint: str = "") -> None:
        super().__init__("; ".join(reasons), hint=hint)
        self.reasons = reasons


class GateClosedError(KvgateError):
    """A gate may not open: a gate before it was not accepted on the same serial numbers."""

    exit_code = 2


class RepairError(KvgateError):
    """A fault could not prove its repair: stop the run, the bench is not as we found it."""


class HarnessError(KvgateError):
    """kvgate itself broke; what was being measured is inconclusive, never failed."""
