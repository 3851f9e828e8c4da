"""What faults by commands have in common: noted, guarded, done, proven, undone, proven back."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from kvgate.errors import HarnessError, KvgateError, RepairError
from kvgate.faults import guard, standing
from kvgate.faults.base import Injection, OnEvent
from kvgate.faults.guard import Guard
from kvgate.spec.faults import FaultTemplate
from kvgate.witness import Witness

Proof = Callable[[], None]
"""Returns once it is proven; raises HarnessError where it can't be."""

_HINT = "the bench is not as we found it: stop the run, and look at the paths and the array"
_GUARDED_S = 24 * 3600.0
_LEAST_PROVEN_S = 30.0
_AGAIN_S = 0.5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Proofs:
    """How a family of faults proves that one is there, and that all is as before."""

    there: Proof
    back: Proof
    before_back: Proof | None = None  # what the repair takes beside the undo


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Doing:
    """One fault to be done: its commands, the host they run on, and where it is noted."""

    template: FaultTemplate  # with its commands (`spec.faults.filled`)
    witness: Witness  # of the host that they run on
    folder: Path  # of faults that may still stand (`standing`)
    run: str
    hold_s: float
    on_event: OnEvent | None = None

    @property
    def proven_s(self) -> float:
        """Return within how many seconds it must be seen: as long as it lasts."""
        return max(self.hold_s, _LEAST_PROVEN_S)

    @property
    def where(self) -> str:
        """Return host and fault, as messages begin."""
        return f"{self.witness.host.name}: fault '{self.template.fault}'"

    def ask(self, which: str) -> None:
        """Run the template's command `which`; raises HarnessError where it ends otherwise."""
        words = getattr(self.template, which)
        if not words:
            return
        try:
            guard.run(self.witness, words, within_s=self.template.within.to("s")).expect_ok()
        except KvgateError as err:
            raise HarnessError(f"{self.where}: {which}: {err.message}", hint=err.hint) from err

    def until(self, which: str, within_s: float) -> None:
        """Run the command `which` until it exits 0; HarnessError with its last answer if never."""
        deadline = time.monotonic() + within_s
        while True:
            try:
                self.ask(which)
            except HarnessError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_AGAIN_S)
            else:
                return


@contextlib.contextmanager
def injected(doing: Doing, proofs: Proofs) -> Iterator[Injection]:
    """Hold a fault for the block, and prove that it was there and is repaired.

    1. note it where the next run looks, 2. arm a guard on its host (a device has none), 3. do it,
    4. prove it, 5. the block (a flapping one: done and undone for its turns before it), 6. undo
    it, 7. prove the repair, 8. let the guard stand down and remove the note. From 3 on, 6 and 7
    happen on every way out. Raises NotRunError where 2 fails, HarnessError where 4 does,
    RepairError where 6 or 7 does: then the note stays, and the guard goes on trying.
    """
    template = doing.template
    injection = Injection(
        fault=template.fault, host=doing.witness.host.name, on_event=doing.on_event
    )
    noted = standing.note(doing.folder, template, doing.witness.host, doing.run)  # 1
    with contextlib.ExitStack() as held:
        watch = _guard(doing, held, noted)  # 2
        injection.mark("begun")
        try:
            _flap(doing)
            doing.ask("do")  # 3
            doing.until("prove", doing.proven_s)
            proofs.there()  # 4
            injection.mark("proven")
            yield injection  # 5
        finally:
            _repair(doing, proofs, injection)  # 6, 7
            if watch is not None:
                watch.stand_down()  # 8
            standing.forget(noted)


def _guard(doing: Doing, held: contextlib.ExitStack, noted: Path) -> Guard | None:
    """Return a guard that is armed, or None for a device; nothing is noted where that fails."""
    template = doing.template
    if doing.witness.host.is_device:
        return None
    try:
        return held.enter_context(
            guard.armed(
                doing.witness,
                doing.witness.host.as_root(*(template.undo or ())),
                within_s=template.within.to("s"),
                deadline_s=_GUARDED_S,
            )
        )
    except BaseException:
        standing.forget(noted)
        raise


def _flap(doing: Doing) -> None:
    """Do and undo a flapping fault for all its turns but the last, which alone is proven."""
    between = doing.template.between.to("s")
    for _ in range(doing.template.times - 1):
        doing.ask("do")
        time.sleep(between)
        doing.ask("undo")
        time.sleep(between)


def _repair(doing: Doing, proofs: Proofs, injection: Injection) -> None:
    """Undo the fault and prove it; raises RepairError."""
    try:
        injection.mark("undone")
        doing.ask("undo")
        if proofs.before_back is not None:
            proofs.before_back()
        doing.until("proved_back", doing.template.back_within.to("s"))
        proofs.back()
    except KvgateError as err:
        raise RepairError(f"{err.message}: the repair is not proven", hint=_HINT) from err
    injection.mark("repaired")
