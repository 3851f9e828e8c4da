"""Faults inside an array: proven, and their repair, by the array's own answers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from kvgate.faults.base import Injection
from kvgate.faults.command import Doing, Proofs, injected
from kvgate.faults.paths import Loss, all_back, seen_gone
from kvgate.telemetry.paths import PathWatch
from kvgate.telemetry.paths_seen import Moment


@contextlib.contextmanager
def broken_inside(doing: Doing, before: Moment, watch: PathWatch) -> Iterator[Injection]:
    """Hold a fault inside the array for the block (see `command.injected`).

    It is proven by the template's ``prove``, a loss of power by that of all paths, and repaired
    once ``proved_back`` holds (a rebuild may take its time) and every path is as it was `before`:
    a takeover or a loss of power takes paths along.
    """
    since = watch.now_s()

    def there() -> None:
        if doing.template.kind == "power_loss":  # else `prove` has exited 0 by then
            seen_gone(doing, Loss(before=before, taken=frozenset(before.paths)), watch, since)

    def back() -> None:
        all_back(doing, before, watch)

    with injected(doing, Proofs(there=there, back=back)) as injection:
        yield injection
