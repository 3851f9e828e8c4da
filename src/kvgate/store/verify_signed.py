"""Checks who signed a run: statements against its layers, signatures by ssh-keygen."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvgate.errors import DamagedRunError, StoreError
from kvgate.spec.plan import REHEARSED
from kvgate.store import sums
from kvgate.store.layout import Listing, beginning, belongs_to_run, is_sums_name
from kvgate.store.registered import Registered
from kvgate.store.signature import LONGEST_BYTES, check
from kvgate.store.statement import (
    LONGEST_STATEMENT_BYTES,
    RESULTS,
    SIGNATURES,
    Statement,
    is_head_name,
    is_statement_name,
    read_statement,
)
from kvgate.store.story import Story
from kvgate.store.timestamp import LONGEST_BYTES as LONGEST_STAMP_BYTES
from kvgate.store.timestamp import check_stamp
from kvgate.store.verification import Layer, Problem

FINDINGS = "findings.json"
SKEW = datetime.timedelta(minutes=10)
"""So far may a signer's clock be behind that of the controller."""


@dataclasses.dataclass(frozen=True, slots=True)
class Sealed:
    """A run as its seals and its journal tell it: what signatures are held against."""

    run: Path
    found: Listing
    manifest: Mapping[str, Any]
    layers: tuple[Layer, ...]
    story: Story
    registered: Registered | None


@dataclasses.dataclass(frozen=True, slots=True)
class Checked:
    """What a step found: lines to print, problems, and the statements whose signatures count."""

    told: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    signed: tuple[Statement, ...] = ()
    nothing: bool = False  # there was nothing to check: that proves nothing
    lacking: tuple[str, ...] = ()  # what nobody signed and `--require head` asks for


def no_acceptance(manifest: Mapping[str, Any], story: Story) -> tuple[str, ...]:
    """Return every reason why this run can never be signed as an acceptance."""
    reasons = []
    if manifest.get("profile") in REHEARSED:
        reasons.append(
            f"its profile is {manifest['profile']}: its limits only show that the way works"
        )
    if manifest.get("recorded"):
        reasons.append("its hosts, or some of them, are recordings")
    reasons += [f"{gate} was forced open: {why}" for gate, why in sorted(story.forced.items())]
    return tuple(reasons)


def too_early(claimed: datetime.datetime, story: Story) -> str:
    """Return why nobody can have signed the results at the time `claimed`, "" where he can.

    Else whoever has a key that is no longer valid could claim a time when it was.
    """
    if story.ended is None or claimed >= story.ended[1] - SKEW:
        return ""
    ended = f"{story.ended[1]:%FT%TZ}"
    return f"it claims {claimed:%FT%TZ}, before the last gate ended ({ended} by the journal)"


def check_signature(
    registered: Registered, folder: Path, name: str
) -> tuple[Statement | None, str, Problem | None]:
    """Check ``<name>.json`` and ``<name>.sig`` of `folder`; return statement, a line, the problem.

    1. The statement has its form, and its signer is registered for that role and party.
    2. The signature is by a key of that person, good at the claimed time.
    3. A time stamp beside it (``<name>.tsr``) is one of this signature, by the authority given.
    """
    shown = f"{folder.name}/{name}"
    try:
        data = beginning(folder / f"{name}.json", LONGEST_STATEMENT_BYTES)
        statement = read_statement(data)
        armour = beginning(folder / f"{name}.sig", LONGEST_BYTES).decode("latin-1")
    except DamagedRunError as err:
        return None, "", Problem(f"{shown}.json", "altered", err.message)
    who = registered.people.get(statement.principal)  # 1
    if who is None or (who.role, who.party, who.name) != (
        statement.role,
        statement.party,
        statement.name,
    ):
        detail = f"the plan doesn't register {statement.signer} as {statement.role}"
        return None, "", Problem(f"{shown}.json", "unproven", detail)
    outcome = check(  # 2
        data,
        armour,
        allowed_signers=registered.allowed,
        principal=statement.principal,
        at=statement.at,
    )
    if not outcome.good:
        return None, "", Problem(f"{shown}.sig", "unproven", outcome.text)
    line = (
        f"{statement.role}: {statement.signer}, key {outcome.fingerprint}, at "
        f"{statement.claimed_at} by the signer's clock; the key was valid at that claimed time"
    )
    stamped, wrong = _stamped(registered, folder, name, armour)
    return statement, f"{line}{stamped}", wrong


def _stamped(
    registered: Registered, folder: Path, name: str, armour: str
) -> tuple[str, Problem | None]:
    """Return what a time stamp beside the signature adds, where there is one, or its problem."""
    path = folder / f"{name}.tsr"
    if not path.is_file():
        return "", None
    answer = beginning(path, LONGEST_STAMP_BYTES)
    stamp = check_stamp(armour.encode("latin-1"), answer, registered.authority)
    if not stamp.good:
        return "", Problem(f"{folder.name}/{path.name}", "unproven", stamp.text)
    return f"; {stamp.text}", None


def check_results(sealed: Sealed) -> Checked:
    """Check every signature under the results: over these layers, by whom, deciding what."""
    names = [name for name in sealed.found.files if name.startswith(f"{SIGNATURES}/")]
    leaves = {name[len(SIGNATURES) + 1 :] for name in names}
    problems = [
        Problem(f"{SIGNATURES}/{leaf}", "added", "it is no statement, signature or time stamp")
        for leaf in sorted(leaves)
        if not is_statement_name(leaf)
    ]
    if all(is_head_name(leaf) for leaf in leaves):
        none = "nobody signed: whoever can rewrite the whole folder can seal it anew"
        return Checked((none,), nothing=True)
    if sealed.registered is None:
        detail = "the run's plan names no parties: nobody's key is known"
        return Checked(problems=(Problem(SIGNATURES, "unproven", detail),))
    told = [sealed.registered.basis]
    signed = []
    of_results = (x for x in leaves if is_statement_name(x) and not is_head_name(x))
    for stem in sorted({leaf.partition(".")[0] for leaf in of_results}):
        statement, line, wrong = check_signature(sealed.registered, sealed.run / SIGNATURES, stem)
        if wrong is None and statement is not None:
            wrong = _of_this_run(sealed, statement, f"{SIGNATURES}/{stem}.json")
        if wrong is not None or statement is None:
            problems += [wrong] if wrong else []
            continue
        signed.append(statement)
        told += [f"{line}; {_decided(statement)}", *_later(sealed, statement)]
    return Checked(tuple(told), tuple(problems), tuple(signed))


def _of_this_run(sealed: Sealed, statement: Statement, path: str) -> Problem | None:
    """Return what about a good signature does not fit the run as it stands, if anything."""
    run = sealed.manifest.get("run")
    if statement.run != run:
        return Problem(path, "unproven", f"it is under run '{statement.run}', and this is '{run}'")
    if early := too_early(statement.at, sealed.story):
        return Problem(path, "unproven", early)
    layers = statement.of.get("layers")
    if statement.purpose != RESULTS or not isinstance(layers, dict) or not layers:
        return Problem(path, "unproven", "it is not under the layers of a run's seal")
    there = {layer.name: layer.digest for layer in sealed.layers}
    for name, digest in sorted(layers.items()):
        if there.get(name) != digest:
            is_now = f"has {there[name]}" if name in there else "is missing"
            detail = (
                f"{statement.role} signed {name} with SHA-256 {digest}; it {is_now}: sealed anew"
            )
            return Problem(name, "altered", detail)
    if FINDINGS not in _covered(sealed, set(layers)):
        return Problem(path, "unproven", f"the signed layers don't cover {FINDINGS}")
    barred = no_acceptance(sealed.manifest, sealed.story)
    if statement.of.get("acceptance") is not False and barred:
        return Problem(path, "unproven", f"it says acceptance, which can't be: {barred[0]}")
    return None


def _covered(sealed: Sealed, layers: set[str]) -> set[str]:
    """Return every file that the layers called so cover."""
    files = sealed.found.files
    return {
        each
        for name, _, data in sums.layers(sealed.run, files)
        if name in layers
        for each in sums.read(data)
    }


def _decided(statement: Statement) -> str:
    of = statement.of
    bar = "" if of.get("acceptance") else ", as a record only, never an acceptance"
    conditions = of.get("conditions")
    conditions = conditions if isinstance(conditions, list) else []
    under = f", on condition: {'; '.join(map(str, conditions))}" if conditions else ""
    layers = ", ".join(sorted(of["layers"]))
    return f"{of.get('decision')} (verdict {of.get('verdict')}{bar}){under}, over {layers}"


def _later(sealed: Sealed, statement: Statement) -> list[str]:
    """Return a line for what came into the run after `statement` and is no signature."""
    layers = set(statement.of["layers"])
    rest = {layer.name for layer in sealed.layers} - layers
    try:
        later = _covered(sealed, rest) - _covered(sealed, layers)
    except StoreError:
        return []  # told by the step on the seal
    more = sorted(
        name
        for name in later
        if not (is_sums_name(name) or belongs_to_run(name) or name.startswith(f"{SIGNATURES}/"))
    )
    if not more:
        return []
    return [
        f"  came later, not signed by {statement.role}: {', '.join(more[:5])}"
        + (f" and {len(more) - 5} more" if len(more) > 5 else "")
    ]
