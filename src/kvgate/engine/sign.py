"""Signing for a party: criteria before a run, its journal meanwhile, its results, the archive.

Nothing is stored that would not verify: each signature is checked before it is written.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kvgate.engine.control import APPROVED, criteria_files, criteria_table
from kvgate.engine.decision import decision as decide
from kvgate.engine.decision import proposed
from kvgate.engine.finish import half_finished
from kvgate.engine.stamp import ask_stamp
from kvgate.engine.workspace import Setup, Workspace
from kvgate.errors import StoreError
from kvgate.spec.control import Control, Party, Signatory
from kvgate.store import disk
from kvgate.store.canonical import parse
from kvgate.store.check_lines import LineCheck
from kvgate.store.layout import JOURNAL, is_sealed, refuse_links
from kvgate.store.ledger import GENESIS
from kvgate.store.registered import CONTROL_INPUT
from kvgate.store.seal import seal
from kvgate.store.signature import check, public_blob, sign
from kvgate.store.statement import (
    ARCHIVE,
    HEAD,
    PROTOCOL,
    RESULTS,
    SIGNATURES,
    Statement,
    now_text,
)
from kvgate.store.sums import hash_file
from kvgate.store.verify import inspect
from kvgate.store.verify_signed import no_acceptance, too_early


@dataclasses.dataclass(frozen=True, slots=True)
class Signer:
    """Who signs: as which role, by which key file, and which person where the key doesn't tell."""

    role: str
    key: Path
    principal: str = ""
    tsa: str = ""  # URL of a time stamp authority (RFC 3161); "": the time is only claimed


@dataclasses.dataclass(frozen=True, slots=True)
class Signed:
    """A signature that was made: its statement, and the file it stands in."""

    statement: Statement
    path: Path
    layer: str = ""  # SHA-256 of the seal layer that covers it


def sign_results(
    run: Path, signer: Signer, *, decision: str = "", conditions: Sequence[str] = ()
) -> Signed:
    """Sign the sealed layers of `run`, seal the signature in a layer of its own, and return it.

    `decision` is of `DECISIONS`; left out it is what is proposed, where that is an acceptance; the
    conditions of its waivers stand in the statement before `conditions`. Raises UsageError for
    what can't be decided so, StoreError where the run is not sealed and whole, or the key is not
    a registered one.
    """
    state, story = inspect(run)
    if not state.ok or half_finished(run):
        told = f": {state.problems[0]}" if state.problems else ""
        raise StoreError(
            f"{run.name}: is not sealed and whole, so there is nothing to sign{told}",
            hint="`kvgate verify` names every problem; `kvgate seal` seals what was added",
        )
    if early := too_early(datetime.datetime.now(datetime.UTC), story):
        raise StoreError(
            f"{run.name}: signed now, {early}",
            hint="this machine's clock is behind, or the controller's was ahead: set it right",
        )
    manifest = parse((run / "manifest.json").read_bytes())
    disposed = proposed(run)
    barred = no_acceptance(manifest, story)
    decided, under = decide(run.name, decision, disposed, barred, conditions)
    of = {
        "acceptance": not barred,
        "why_not": list(barred),
        "verdict": str(disposed.verdict),
        "decision": decided,
        "conditions": list(under),
        "layers": {layer.name: layer.digest for layer in state.layers},
    }
    control = control_of(run)
    statement, armour = _signed(control, signer, RESULTS, str(manifest["run"]), of)
    stamp = ask_stamp(signer.tsa, armour.encode("ascii")) if signer.tsa else b""
    path = _free(run / SIGNATURES, f"{RESULTS}-{signer.role}")
    _write(path, statement, armour, stamp)
    return Signed(statement, path, seal(run))


def sign_head(run: Path, signer: Signer) -> Signed:
    """Sign the journal's head of `run` as it is now, while the run goes on; return the signature.

    So that what is there can't be written anew without the signer, also where no controller key
    does that unattended. Raises StoreError for a sealed run, or a journal that is damaged.
    """
    if is_sealed(run):
        raise StoreError(
            f"{run.name}: is sealed, so that its journal ends; nothing can be put before it",
            hint=f"sign what came out of it: kvgate sign {run.name} --role {signer.role} --key KEY",
        )
    refuse_links(run)
    manifest = parse((run / "manifest.json").read_bytes())
    lines = LineCheck(run / JOURNAL, JOURNAL, GENESIS, "seq")
    if not all([line.good for line in lines]) or not lines.count:  # all are walked
        raise StoreError(
            f"{run.name}: its journal is damaged: {'; '.join(map(str, lines.problems))}",
            hint=f"`kvgate verify {run.name}` names every problem; don't sign it",
        )
    of = {"at": "by hand", "head": lines.head, "seq": lines.count}
    statement, armour = _signed(control_of(run), signer, HEAD, str(manifest["run"]), of)
    stamp = ask_stamp(signer.tsa, armour.encode("ascii")) if signer.tsa else b""
    path = _free(run / SIGNATURES, f"{HEAD}-{signer.role}")
    _write(path, statement, armour, stamp)
    return Signed(statement, path)


def sign_protocol(workspace: Workspace, setup: Setup, signer: Signer) -> Signed:
    """Sign the criteria of a plan before its run; return the approval, in gates/approvals/.

    Runs of this plan and inventory freeze it from then on, and mark what was changed since.
    """
    plan = setup.plan.value
    if plan.control is None:
        raise _no_parties(setup.plan.files[0].name)
    of = {
        "plan": plan.plan,
        "profile": plan.profile,
        "inventory": setup.inventory.value.inventory,
        "criteria_digest": setup.criteria_digest(),
        "files": criteria_files(setup),
        "criteria": criteria_table(setup),
    }
    statement, armour = _signed(plan.control, signer, PROTOCOL, "", of)
    stamp = ask_stamp(signer.tsa, armour.encode("ascii")) if signer.tsa else b""
    path = _free(workspace.root / APPROVED, f"{plan.plan}-{signer.role}")
    _write(path, statement, armour, stamp)
    return Signed(statement, path)


def sign_archive(run: Path, archive: Path, signer: Signer) -> Signed:
    """Sign the digest of `archive`, an export of `run`; statement and signature lie beside it."""
    manifest = parse((run / "manifest.json").read_bytes())
    of = {
        "file": archive.name,
        "bytes": archive.stat().st_size,
        "sha256": hash_file(archive),
    }
    statement, armour = _signed(control_of(run), signer, ARCHIVE, str(manifest["run"]), of)
    path = archive.with_name(f"{archive.name}.{signer.role}.json")
    _write(path, statement, armour)
    return Signed(statement, path)


def control_of(run: Path) -> Control:
    """Return the parties and keys that the run's plan named; raises StoreError: it named none."""
    path = run / "inputs" / CONTROL_INPUT
    if not path.is_file():
        raise _no_parties(f"{run.name}: the run's plan")
    return Control.model_validate(parse(path.read_bytes()))


def _no_parties(what: str) -> StoreError:
    return StoreError(
        f"{what} names no parties (control:), so nobody's signature would be known",
        hint="docs/sign-off.md shows the section; a run has it from its beginning or not at all",
    )


def _signed(
    control: Control, signer: Signer, purpose: str, run: str, of: Mapping[str, Any]
) -> tuple[Statement, str]:
    party, person = _person(control, signer)
    statement = Statement(
        purpose=purpose,
        run=run,
        role=signer.role,
        party=party.name,
        name=person.name,
        principal=person.principal,
        claimed_at=now_text(),
        document=f"{control.document.number}, revision {control.document.revision}",
        of=of,
    )
    data = statement.content()
    armour = sign(data, key=signer.key)
    allowed, at = control.allowed_signers(), statement.at
    made = check(data, armour, allowed_signers=allowed, principal=person.principal, at=at)
    if not made.good:
        raise StoreError(
            f"{signer.key}: {made.text}; nothing was signed",
            hint="the plan's control: names who may sign by which key, and from when to when",
        )
    return statement, armour


def _person(control: Control, signer: Signer) -> tuple[Party, Signatory]:
    """Return the signatory that is meant: the one named, else the owner of the key."""
    known = control.signatories(signer.role)
    blob = public_blob(signer.key)
    found = [each for each in known if each[1].principal == signer.principal] or [
        each for each in known if not signer.principal and _blob(each[1]) == blob
    ]
    if len({each[1].principal for each in found}) == 1:
        return found[0]
    names = ", ".join(each[1].principal for each in known) or "nobody"
    what = f"'{signer.principal}'" if signer.principal else f"the key {signer.key}"
    raise StoreError(
        f"{what} is not registered as {signer.role}",
        hint=f"the plan registers as {signer.role}: {names}; name one with --principal",
    )


def _blob(person: Signatory) -> bytes | None:
    return base64.b64decode(person.key.split()[1])


def _free(folder: Path, stem: str) -> Path:
    number = 1
    while (path := folder / f"{stem}-{number}.json").exists():
        number += 1
    return path


def _write(path: Path, statement: Statement, armour: str, stamp: bytes = b"") -> None:
    disk.make_folder(path.parent)
    if stamp:
        disk.replace(path.with_suffix(".tsr"), stamp)
    disk.replace(path.with_suffix(".sig"), armour.encode("ascii"))
    disk.replace(path, statement.content())
