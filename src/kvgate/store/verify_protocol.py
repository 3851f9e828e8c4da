"""Checks what was signed before a run's end: the approved protocol, and the journal's head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvgate.errors import DamagedRunError
from kvgate.store.canonical import parse
from kvgate.store.layout import read_bytes
from kvgate.store.registered import Registered
from kvgate.store.signature import check
from kvgate.store.statement import APPROVALS, HEAD, PROTOCOL, Statement, read_statement
from kvgate.store.story import Countersignature
from kvgate.store.verification import Problem
from kvgate.store.verify_signed import Checked, Sealed, check_signature

CRITERIA_INPUT = "criteria.json"
"""The name in a run's inputs/ of how each criterion was judged, as texts."""


def check_protocol(sealed: Sealed) -> Checked:
    """Check every pre-approval: by whom, before the run, and of the very criteria judged by."""
    prefix = f"{APPROVALS}/"
    stems = sorted(
        {n[len(prefix) :].rpartition(".")[0] for n in sealed.found.files if n.startswith(prefix)}
    )
    if not stems:
        return Checked(("nobody approved the criteria before the run",), nothing=True)
    if sealed.registered is None:
        detail = "the run's plan names no parties: nobody's key is known"
        return Checked(problems=(Problem(APPROVALS, "unproven", detail),))
    told: list[str] = []
    problems: list[Problem] = []
    signed: list[Statement] = []
    for stem in stems:
        statement, line, wrong = check_signature(sealed.registered, sealed.run / APPROVALS, stem)
        if statement is None or wrong is not None:
            problems += [wrong] if wrong else []
            continue
        different = _changed(sealed, statement, f"{prefix}{stem}.json")
        problems += different
        if not different:
            signed.append(statement)
        told.append(f"{line}; {'of other criteria' if different else 'of these criteria'}")
    return Checked(tuple(told), tuple(problems), tuple(signed))


def _changed(sealed: Sealed, statement: Statement, path: str) -> list[Problem]:
    """Return what was changed since `statement`: files by name, criteria one by one."""
    if statement.purpose != PROTOCOL:
        return [Problem(path, "unproven", "it approves no criteria")]
    created = str(sealed.manifest.get("created", ""))
    if statement.claimed_at[:19] > created[:19]:
        detail = f"it claims {statement.claimed_at}, after the run began ({created})"
        return [Problem(path, "unproven", detail)]
    approved, inputs = _table(statement.of.get("files")), _table(sealed.manifest.get("inputs"))
    by = f"{statement.role} approved it on {statement.claimed_at[:10]}"
    found = [
        Problem(
            f"inputs/{name}",
            "changed",
            f"{by} with SHA-256 {digest}; the run began with {inputs.get(name, 'none')}",
        )
        for name, digest in sorted(approved.items())
        if inputs.get(name) != digest
    ]
    found += _criteria(sealed, _table(statement.of.get("criteria")), by)
    if not found and statement.of.get("criteria_digest") != sealed.manifest.get("criteria_digest"):
        detail = "it is under files that the run did not have, or of fewer files than the run's"
        found.append(Problem(path, "changed", detail))
    return found


def _table(value: object) -> Mapping[str, Any]:
    """Return `value` where it is a table, else an empty one: what differs is told then."""
    return value if isinstance(value, dict) else {}


def _criteria(sealed: Sealed, approved: Mapping[str, Any], by: str) -> list[Problem]:
    """Return each criterion that is judged otherwise than it was approved."""
    path = f"inputs/{CRITERIA_INPUT}"
    try:
        judged = _table(parse(read_bytes(sealed.run / path)))
    except (DamagedRunError, ValueError) as err:
        return [Problem(path, "missing", f"how the criteria were judged can't be read: {err}")]
    return [
        Problem(
            path,
            "changed",
            f"{each}: {by} as '{approved.get(each, 'none')}'; judged as "
            f"'{judged.get(each, 'none')}'",
        )
        for each in sorted({*approved, *judged})
        if approved.get(each) != judged.get(each)
    ]


def check_countersigned(sealed: Sealed, approvals: Checked) -> Checked:
    """Check the controller's signatures over the journal's head: at gates, at night, at the end."""
    marks = sealed.story.countersigned
    registered = sealed.registered
    if not marks and (registered is None or not registered.controller):
        none = "no controller key: the chain's beginning is vouched for by nobody until sealing"
        return Checked((none,), nothing=True)
    if registered is None or not registered.controller:
        detail = "it is countersigned by a key that the run's plan doesn't name"
        return Checked(problems=(Problem("journal.jsonl", "unproven", detail),))
    roles = sorted({each.role for each in approvals.signed})
    told = [
        f"the controller's key was registered by the approval of {' and '.join(roles)}"
        if roles
        else "the controller's key stands in the plan; no party's approval registers it"
    ]
    problems = []
    good = []
    for mark in marks:
        wrong = _wrong(sealed, registered, mark)
        if wrong:
            detail = f"countersignature in record seq {mark.seq}: {wrong}"
            problems.append(Problem("journal.jsonl", "unproven", detail))
        else:
            good.append(mark)
    told += _vouched(sealed, good)
    return Checked(tuple(told), tuple(problems), nothing=not marks)


def _wrong(sealed: Sealed, registered: Registered, mark: Countersignature) -> str:
    """Return why a countersignature does not count, "" where it does."""
    try:
        statement = read_statement(mark.statement.encode("utf-8", "replace"))
    except DamagedRunError as err:
        return err.message
    of = statement.of
    if statement.purpose != HEAD or statement.run != sealed.manifest.get("run"):
        return f"it is under run '{statement.run}' for '{statement.purpose}'"
    if not mark.chain or of.get("head") != mark.chain:
        return f"it is under another chain, head {of.get('head')} at record {of.get('seq')}"
    if statement.principal != registered.controller:
        return f"it is by '{statement.principal}', not by '{registered.controller}'"
    data = mark.statement.encode()
    allowed, at = registered.allowed, statement.at
    outcome = check(
        data, mark.signature, allowed_signers=allowed, principal=statement.principal, at=at
    )
    return "" if outcome.good else outcome.text


def _vouched(sealed: Sealed, good: list[Countersignature]) -> list[str]:
    """Return what the countersignatures vouch for, and what they don't."""
    seqs = sorted(mark.seq for mark in good)
    if not seqs:
        return ["none: the chain's beginning is vouched for by nobody until sealing"]
    whens = [read_statement(mark.statement.encode()) for mark in good]
    told = [
        f"{each.of.get('at')}: record {each.of.get('seq')}, claimed {each.claimed_at}"
        for each in whens
    ]
    last = 0
    for gate, seq in sealed.story.opened:
        if not any(last < each <= seq for each in seqs):
            told.append(f"the opening of {gate} was not countersigned")
        last = seq
    return told
