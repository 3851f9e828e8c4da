"""Faults that take paths away: proven, and their repair, by what the initiator sees of paths."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

from kvgate.errors import HarnessError, NotRunError
from kvgate.faults import guard
from kvgate.faults.base import Injection
from kvgate.faults.command import Doing, Proofs, injected
from kvgate.spec.faults import FaultTemplate, PathTaken
from kvgate.telemetry.paths import PathWatch, away
from kvgate.telemetry.paths_seen import LIVE, Moment, PathId
from kvgate.witness import Witness

_MAY_TAKE_ALL = ("both_paths", "target_restart")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A fault's paths: those there were before, and those of them that it takes away."""

    before: Moment
    taken: frozenset[PathId]


def lost_by(template: FaultTemplate, before: Moment, where: str) -> Loss:
    """Return which of the paths seen `before` the fault of `template` takes away.

    Raises NotRunError where paths are not as they must be to tell anything by: none, one that is
    not live, one that the fault names and that is not there, and none left where one must be.
    """
    taken = frozenset(
        path for path in before.paths if any(_is(each, path) for each in template.takes)
    )
    reasons = [
        f"{where}: {path} is {state.told} before the fault"
        for path, state in sorted(before.paths.items())
        if state.state != LIVE
    ]
    for each in template.takes:
        if not any(_is(each, path) for path in before.paths):
            known = ", ".join(map(str, sorted(before.paths))) or "none"
            reasons.append(f"{where}: no path goes to {each.address}; there are: {known}")
    left = before.best - taken
    if template.takes_paths and template.kind not in _MAY_TAKE_ALL and not left:
        reasons.append(f"{where}: no live, optimized path would be left")
    if template.kind == "both_paths" and (rest := set(before.paths) - taken):
        names = ", ".join(map(str, sorted(rest)))
        reasons.append(f"{where}: not all paths are taken away: {names}")
    if reasons:
        raise NotRunError(tuple(reasons), hint="nothing was broken; see 'takes' in the inventory")
    return Loss(before=before, taken=taken)


def _is(named: PathTaken, path: PathId) -> bool:
    return (
        path.address == named.address
        and (named.port is None or path.port == str(named.port))
        and (named.transport is None or path.transport == named.transport)
    )


@contextlib.contextmanager
def paths_lost(
    doing: Doing, loss: Loss, watch: PathWatch, initiator: Witness
) -> Iterator[Injection]:
    """Hold paths lost for the block (see `command.injected`).

    Proven once every path that it takes was seen gone, not live or in a worse ANA state; repaired
    once every path is as it was, at the same address. What does not come back by itself is
    connected again on the `initiator`, where the template says how.
    """
    since = watch.now_s()

    def there() -> None:
        seen_gone(doing, loss, watch, since)

    def again() -> None:
        _connected(doing, loss, watch, initiator)

    def back() -> None:
        all_back(doing, loss.before, watch)

    with injected(doing, Proofs(there=there, back=back, before_back=again)) as injection:
        yield injection


def seen_gone(doing: Doing, loss: Loss, watch: PathWatch, since: float) -> None:
    """Return once each path that the fault takes was seen to be away; raises HarnessError."""
    gone: set[PathId] = set()

    def all_gone(seen: Moment) -> bool:
        gone.update(away(seen, loss.before) & loss.taken)
        return gone == loss.taken

    if any([all_gone(each) for each in watch.since(since)]):
        return
    if watch.wait(all_gone, doing.proven_s) is None:
        names = ", ".join(map(str, sorted(loss.taken - gone)))
        raise HarnessError(
            f"{doing.where}: {names} stayed as it was for {doing.proven_s:g} s: "
            "the fault is not proven",
            hint="the command exited 0: see what it does, and the keep-alive time-out",
        )


def _connected(doing: Doing, loss: Loss, watch: PathWatch, initiator: Witness) -> None:
    """Connect again what is gone for good, where the template says how."""
    words = doing.template.reconnect
    if not words or set(loss.before.paths) <= set(watch.latest().paths):
        return
    guard.run(initiator, words, within_s=doing.template.within.to("s")).expect_ok()


def all_back(doing: Doing, before: Moment, watch: PathWatch) -> None:
    """Return once every path is as it was `before`; raises HarnessError where one is not."""
    within_s = doing.template.back_within.to("s")
    if watch.wait(lambda seen: not away(seen, before), within_s) is not None:
        return
    now = watch.latest()
    told = [
        f"{path} {'is ' + now.paths[path].told if path in now.paths else 'is gone'}"
        for path in sorted(away(now, before))
    ]
    new = [f"{path} is new" for path in sorted(set(now.paths) - set(before.paths))]
    raise HarnessError(
        f"{doing.where}: {within_s:g} s after its undo: {'; '.join([*told, *new])}",
        hint="see the kernel log of the initiator, and the array's ports",
    )
