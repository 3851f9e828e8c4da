"""What a fault is, and the faults there are: adding one costs one file in this folder."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import importlib
import pkgutil
from collections.abc import Callable
from typing import Protocol

from kvgate.errors import UsageError
from kvgate.transport.base import CommandResult
from kvgate.witness import Witness


class Engine(Protocol):
    """A serving engine as a fault sees it (`serving.arms.RunningEngine` is one)."""

    pid: int
    address: str
    port: int

    def ended(self, within_s: float) -> CommandResult:
        """Return how its process ended; raises CommandError if it still runs."""
        ...

    def restart(self, *, within_s: float) -> None:
        """Start it again at the same address."""
        ...

    def answers(self, *, timeout_s: float = 10) -> bool:
        """Tell whether it answers a request."""
        ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a fault may break; a fault takes what it needs and refuses a target without it."""

    engine: Engine | None = None


@dataclasses.dataclass(slots=True, kw_only=True)
class Injection:
    """One fault under way: when it began, was proven, its undo began, and its repair was proven."""

    fault: str
    host: str
    on_event: Callable[[str, Injection], None] | None = None
    begun: datetime.datetime | None = None
    proven: datetime.datetime | None = None
    undone: datetime.datetime | None = None
    repaired: datetime.datetime | None = None

    def mark(self, moment: str) -> None:
        """Note that `begun`, `proven`, `undone` or `repaired` is now, and tell the listener."""
        setattr(self, moment, datetime.datetime.now(datetime.UTC))
        if self.on_event is not None:
            self.on_event("fault_begin" if moment == "begun" else f"fault_{moment}", self)


OnEvent = Callable[[str, Injection], None]
"""Told ``fault_begin``, ``_proven``, ``_undone``, ``_repaired`` (journal kinds) as they happen."""

Inject = Callable[
    [Witness, Target, float, OnEvent | None], contextlib.AbstractContextManager[Injection]
]
"""Takes host, target, seconds within which it must be back, and listener; breaks for the block.

The context manager raises RepairError where it can't prove the repair, HarnessError where it
can't prove that the fault happened.
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault by its name in plans, and how it is done."""

    name: str
    text: str
    inject: Inject


def all_faults() -> dict[str, Fault]:
    """Return every fault by name: the ``FAULTS`` of each module in this folder."""
    found: dict[str, Fault] = {}
    package = importlib.import_module("kvgate.faults")
    for module in pkgutil.iter_modules(package.__path__, "kvgate.faults."):
        for fault in getattr(importlib.import_module(module.name), "FAULTS", ()):
            found[fault.name] = fault
    return found


def fault_named(name: str) -> Fault:
    """Return a fault; raises UsageError for a name that is none."""
    faults = all_faults()
    if name not in faults:
        raise UsageError(f"'{name}' is not a fault", hint=f"one of: {', '.join(sorted(faults))}")
    return faults[name]
