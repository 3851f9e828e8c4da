"""What a signer may decide about a run: no more than its findings, answers and waivers carry."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

from kvgate.engine import disposing, waivers
from kvgate.errors import UsageError
from kvgate.model.disposed import Disposed
from kvgate.model.verdict import Disposition
from kvgate.store.statement import DECISIONS


def proposed(run: Path) -> Disposed:
    """Return what is proposed about `run` now, by the waivers that were frozen in it.

    A retest counts together with what it repeats.
    """
    held = waivers.read(run / waivers.FOLDER).held
    return disposing.propose(run, held, datetime.datetime.now(datetime.UTC))


def decision(
    run: str, wanted: str, disposed: Disposed, barred: Sequence[str], conditions: Sequence[str]
) -> tuple[str, tuple[str, ...]]:
    """Return what the signer decides and under which conditions, those of the waivers first.

    Left out, it is what is proposed, where that is an acceptance. Raises UsageError for what
    nobody can decide.
    """
    if barred and wanted != "witnessed":
        raise UsageError(
            f"{run}: can't be signed as an acceptance: {'; '.join(barred)}",
            hint="--decision witnessed signs it as a record, which accepts nothing",
        )
    agreed = tuple(
        f"{each.criterion}: {each.what}; {each.waiver}, {each.owner}, until {each.until}"
        for gate in disposed.gates
        for each in gate.conditions
    )
    best = disposed.disposition
    own = Disposition.ACCEPTED_WITH_CONDITIONS if conditions else best
    decided = wanted or ("" if best is Disposition.REJECTED else str(own))
    _refuse(run, decided, disposed, conditions)
    return decided, (*agreed, *conditions) if decided == "accepted_with_conditions" else ()


def _refuse(run: str, decided: str, disposed: Disposed, conditions: Sequence[str]) -> None:
    """Raise UsageError for a decision that goes beyond what is proposed, or doesn't fit."""
    best = disposed.disposition
    told = f"{run}: its verdict is {disposed.verdict}, and what is proposed is {best}"
    if decided not in DECISIONS:
        raise UsageError(
            f"{told}: say what you decide with --decision",
            hint=f"rejected or witnessed; `kvgate status {run}` says what an acceptance needs; "
            f"waivers count once `kvgate dispose {run}` has frozen them",
        )
    if decided.startswith("accepted") and best is Disposition.REJECTED:
        raise UsageError(
            f"{told}: it can't be accepted",
            hint=f"`kvgate status {run}` says what blocks: mend and retest, or agree on waivers "
            f"and freeze them by `kvgate dispose {run}`",
        )
    if decided == "accepted" and best is not Disposition.ACCEPTED:
        raise UsageError(
            f"{told}: it can't be accepted without conditions",
            hint="--decision accepted_with_conditions",
        )
    only_by_hand = best is Disposition.ACCEPTED
    if conditions and decided != "accepted_with_conditions":
        raise UsageError("--condition goes with --decision accepted_with_conditions")
    if decided == "accepted_with_conditions" and only_by_hand and not conditions:
        raise UsageError(
            "nothing is open: conditions of your own are named with --condition",
            hint="--condition 'what, by whom, until when', once for each",
        )
