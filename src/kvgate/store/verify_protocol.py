"""Checks what was signed before a run began: the approved protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvgate.errors import DamagedRunError
from kvgate.store.canonical import parse
from kvgate.store.layout import read_bytes
from kvgate.store.statement import APPROVALS, PROTOCOL, Statement
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
