"""Which signatures a run has and lacks, as steps of its status."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Literal

from kvgate.engine.lineage import Lineage
from kvgate.spec.plan import REHEARSED
from kvgate.spec.waiver import APPROVERS
from kvgate.store.reader import RunReader
from kvgate.store.statement import PROTOCOL
from kvgate.store.verify_steps import Outcome, verify_steps

State = Literal["done", "missing", "barred"]
_APPROVALS = "approvals/"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing between a run and its signatures: its state, who does it, and how.

    ``barred`` is what nobody can mend in this run any more.
    """

    what: str
    state: State
    by: str = ""
    next: str = ""  # a command


def steps(found: Lineage) -> Iterator[Step]:
    """Yield what bars the run from acceptance, who approved its criteria, and who signed it."""
    run = found.runs[-1]
    bars = tuple(barred(run))
    if bars:
        yield Step(what=f"can never be signed as an acceptance: {'; '.join(bars)}", state="barred")
    control = found.setup.plan.value.control
    if control is None:
        yield Step(
            what="the run's plan names no parties (control:), so that nobody can sign it",
            state="barred",
        )
        return
    yield _approved(run)
    outcome = verify_steps(run.path) if run.sealed() else None
    if outcome is not None and not bars:
        yield from _countersigned(outcome)
    signed = {each.role: each for each in outcome.signed} if outcome else {}
    word = " --decision witnessed" if bars else ""
    for role in APPROVERS:
        people = ", ".join(each.name for _, each in control.signatories(role)) or "nobody named"
        if role in signed:
            each = signed[role]
            decided = str(each.of["decision"]).replace("_", " ")
            yield Step(
                what=f"the {role} signed the results: {each.signer}: {decided}, "
                f"claimed at {each.claimed_at}",
                state="done",
            )
        else:
            yield Step(
                what=f"the {role} has not signed the results",
                state="missing",
                by=people,
                next=f"kvgate sign {run.path.name} --role {role} --key KEY{word}",
            )


def barred(run: RunReader) -> Iterator[str]:
    """Yield every reason why `run` can never be an acceptance."""
    profile = run.manifest["profile"]
    if profile in REHEARSED:
        yield f"its profile is {profile}"
    if run.manifest.get("recorded") is True:
        yield "its hosts, or some of them, are recordings"
    for event in run.events("forced"):
        yield f"{event.fields['gate']} was forced open"


def _approved(run: RunReader) -> Step:
    """Return whether the parties had approved the criteria when the run began."""
    names = [str(name) for name in run.manifest["inputs"] if str(name).startswith(_APPROVALS)]
    if any(name.endswith(".sig") for name in names):
        return Step(what=f"the criteria were approved before the run ({PROTOCOL})", state="done")
    return Step(
        what="nobody approved the criteria before the run (kvgate sign --protocol); a run that "
        "has begun can't be mended in that",
        state="barred",
    )


def _countersigned(outcome: Outcome) -> Iterator[Step]:
    """Yield whether somebody vouched for the journal while the run went on."""
    for text in outcome.lacking:
        yield Step(what=f"{text}; a run that ended can't be mended in that", state="barred")
    if not outcome.lacking:
        yield Step(what="the journal's head was countersigned while the run went on", state="done")
