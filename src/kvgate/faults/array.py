"""Faults inside an array: proven, and their repair, by the array's own answers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from kvgate.faults.base import Injection
from kvgate.faults.command import Doing, Proofs, injected
from kvgate.faults.paths import all_back
from kvgate.telemetry.paths import PathWatch
from kvgate.telemetry.paths_seen import Moment


@contextlib.contextmanager
def broken_inside(doing: Doing, before: Moment, watch: PathWatch) -> Iterator[Injection]:
    """Hold a fault inside the array for the block (see `command.injected`).

    It is proven by the template's ``prove``, and repaired once ``proved_back`` holds (a rebuild
    may take its time) and every path is as it was `before`: a takeover or a loss of power takes
    paths along.
    """

    def told() -> None:
        """Return: ``prove`` has exited 0 by then."""

    def back() -> None:
        all_back(doing, before, watch)

    with injected(doing, Proofs(there=told, back=back)) as injection:
        yield injection
