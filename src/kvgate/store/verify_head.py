"""Checks who vouched for the journal's head while a run went on: the controller, a second party.

The controller's signatures stand in the journal, as records. Those of people lie in signatures/
(``journal_head-supplier-1.json``): whoever signs is not the writer, who holds the run's lock.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence

from kvgate.errors import DamagedRunError
from kvgate.store.registered import Registered
from kvgate.store.signature import check
from kvgate.store.statement import HEAD, SIGNATURES, Statement, is_head_name, read_statement
from kvgate.store.story import Countersignature
from kvgate.store.verification import Problem
from kvgate.store.verify_signed import SKEW, Checked, Sealed, check_signature

LONGEST_GAP = datetime.timedelta(hours=26)
"""No longer stretch of a run is called countersigned every night: a day, with its clock change."""

_SOON = datetime.timedelta(hours=1)
"""So soon behind a gate's opening, or a run's last gate, a second party signs by hand."""

_REGISTERED_BY = ("buyer", "supplier")


@dataclasses.dataclass(frozen=True, slots=True)
class _Vouched:
    """A moment that somebody's good signature vouches for: all of the journal up to `seq`."""

    seq: int
    utc: datetime.datetime  # of that record, by the controller's clock
    by_hand: bool
    told: str


def check_head(sealed: Sealed, approvals: Checked, results: Checked) -> Checked:
    """Check every signature over the journal's head, and tell what they leave open.

    1. The controller's: its key is the plan's, and the parties' approvals registered that.
    2. Those of people: each is registered, its key good at the claimed time.
    3. Each is under the chain that the journal has at the record it names.
    4. What nobody vouched for: the opening of a gate, a day and a night, the close. Who signed the
       results within a day vouches for the close: a run is sealed before people can come by.
    """
    registered = sealed.registered
    marks, stems = sealed.story.countersigned, _stems(sealed)
    if registered is None or not (registered.controller or marks or stems):
        if marks or stems:
            detail = "it is countersigned, and the run's plan names no parties"
            return Checked(problems=(Problem("journal.jsonl", "unproven", detail),))
        none = "no controller key: the chain's beginning is vouched for by nobody until sealing"
        return Checked((none,), nothing=True, lacking=() if registered is None else (none,))
    told, lacking = _registration(registered, approvals)  # 1
    problems: list[Problem] = []
    good: list[_Vouched] = []
    for mark in marks:
        found = _by_controller(sealed, registered, mark)
        if isinstance(found, str):
            detail = f"countersignature in record seq {mark.seq}: {found}"
            problems.append(Problem("journal.jsonl", "unproven", detail))
        else:
            good.append(found)
    for stem in stems:  # 2
        by_hand = _by_hand(sealed, registered, stem)
        if isinstance(by_hand, Problem):
            problems.append(by_hand)
        else:
            good.append(by_hand)
    good.sort(key=lambda each: each.seq)
    lacking = (*lacking, *_open(sealed, good, results.signed))  # 4
    told = (*told, *(each.told for each in good), *lacking)
    return Checked(told, tuple(problems), nothing=not (marks or stems), lacking=lacking)


def _stems(sealed: Sealed) -> list[str]:
    prefix = f"{SIGNATURES}/"
    leaves = (n[len(prefix) :] for n in sealed.found.files if n.startswith(prefix))
    return sorted({leaf.partition(".")[0] for leaf in leaves if is_head_name(leaf)})


def _registration(
    registered: Registered, approvals: Checked
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what is to tell of the controller's key, and what about it is open."""
    if not registered.controller:
        return (), ()
    roles = {each.role for each in approvals.signed}
    if roles >= set(_REGISTERED_BY):
        names = " and ".join(sorted(roles))
        return (f"the controller's key was registered by the approval of {names}",), ()
    if roles:
        only = f"the controller's key was registered by the approval of {' and '.join(roles)} alone"
        return (), (only,)
    return (), ("the controller's key stands in the plan; no party's approval registers it",)


def _by_controller(
    sealed: Sealed, registered: Registered, mark: Countersignature
) -> _Vouched | str:
    """Return what a countersignature in the journal vouches for, or why it does not count."""
    try:
        statement = read_statement(mark.statement.encode("utf-8", "replace"))
    except DamagedRunError as err:
        return err.message
    if wrong := _wrong(sealed, statement, mark.chain):
        return wrong
    if not registered.controller:
        return "the run's plan names no controller key"
    if statement.principal != registered.controller:
        return f"it is by '{statement.principal}', not by '{registered.controller}'"
    allowed, at, who = registered.allowed, statement.at, statement.principal
    data = mark.statement.encode()
    outcome = check(data, mark.signature, allowed_signers=allowed, principal=who, at=at)
    if not outcome.good:
        return outcome.text
    of = statement.of
    told = f"{of.get('at')}: record {of.get('seq')}, claimed {statement.claimed_at}"
    return _Vouched(mark.seq, mark.utc, by_hand=False, told=told)


def _by_hand(sealed: Sealed, registered: Registered, stem: str) -> _Vouched | Problem:
    """Return what somebody's own signature over the head vouches for, or why it does not count."""
    statement, line, problem = check_signature(registered, sealed.run / SIGNATURES, stem)
    path = f"{SIGNATURES}/{stem}.json"
    if statement is None or problem is not None:
        return problem or Problem(path, "unproven", "it can't be read")
    seq = statement.of.get("seq")
    chain, utc = sealed.story.at.get(seq if type(seq) is int else 0, ("", None))
    wrong = _wrong(sealed, statement, chain)
    if not wrong and utc is not None and statement.at < utc - SKEW:
        wrong = f"it claims {statement.claimed_at}, before record {seq} was there ({utc:%FT%TZ})"
    if wrong or utc is None or type(seq) is not int:
        return Problem(path, "unproven", wrong or "it names no record of the journal")
    return _Vouched(seq, utc, by_hand=True, told=f"record {seq}: {line}")


def _wrong(sealed: Sealed, statement: Statement, chain: str) -> str:
    """Return why `statement` is not one over this journal, "" where it is."""
    of = statement.of
    if statement.purpose != HEAD or statement.run != sealed.manifest.get("run"):
        return f"it is under run '{statement.run}' for '{statement.purpose}'"
    if not chain or of.get("head") != chain:
        return f"it is under another chain, head {of.get('head')} at record {of.get('seq')}"
    return ""


def _open(sealed: Sealed, good: Sequence[_Vouched], signed: Sequence[Statement]) -> tuple[str, ...]:
    """Return what nobody vouched for: gates' openings, days, the close."""
    if not good:
        none = "no countersignature: the chain's beginning is vouched for by nobody until sealing"
        return (none,)
    story, lacking, last = sealed.story, [], 0
    for gate, seq, utc in story.opened:
        marked = any(last < each.seq <= seq and not each.by_hand for each in good)
        if not marked and not _soon(good, seq, utc):
            lacking.append(f"the opening of {gate} was not countersigned")
        last = seq
    seqs = [story.opened[0][2]] if story.opened else []
    moments = [*seqs, *(each.utc for each in good), *([story.ended[1]] if story.ended else [])]
    for place, after in enumerate(moments[1:]):
        before = moments[place]
        if after - before > LONGEST_GAP:
            hours = (after - before).total_seconds() / 3600
            lacking.append(
                f"{hours:.0f} h from {before:%FT%TZ} on went by without a countersignature"
            )
    soon = any(story.ended and each.at - story.ended[1] <= LONGEST_GAP for each in signed)
    if story.ended and good[-1].seq < story.ended[0] and not soon:
        lacking.append("the close of the run was not countersigned")
    return tuple(lacking)


def _soon(good: Sequence[_Vouched], seq: int, utc: datetime.datetime) -> bool:
    return any(each.by_hand and each.seq >= seq and each.utc - utc <= _SOON for each in good)
