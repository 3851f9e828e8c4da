"""What a plan's ``control:`` puts into a run: parties, keys, and what was approved before it."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kvgate.engine.workspace import Setup, Workspace
from kvgate.errors import DamagedRunError, StoreError
from kvgate.spec.gate import Criterion
from kvgate.store.canonical import compact, laid_out, parse
from kvgate.store.registered import CONTROL_INPUT, SIGNERS_INPUT
from kvgate.store.statement import Statement, read_statement
from kvgate.store.verify_protocol import CRITERIA_INPUT

APPROVED = "gates/approvals"
"""The workspace's folder of signed pre-approvals; a run freezes those of its plan and inventory."""


def control_inputs(workspace: Workspace, setup: Setup) -> dict[str, bytes]:
    """Return what is frozen for those who sign; nothing where the plan has no ``control:``.

    Raises StoreError for an approval that can't be read, or claims a time to come.
    """
    if setup.plan.value.control is None:
        return {}
    return told_inputs(setup) | _approvals(workspace, setup)


def told_inputs(setup: Setup) -> dict[str, bytes]:
    """Return those of them that follow from plan and gates alone: parties, keys, criteria."""
    control = setup.plan.value.control
    if control is None:
        return {}
    return {
        CONTROL_INPUT: laid_out(control.model_dump()),
        SIGNERS_INPUT: control.allowed_signers(),
        CRITERIA_INPUT: laid_out(criteria_table(setup)),
    }


def criteria_table(setup: Setup) -> dict[str, str]:
    """Return criterion → how it is judged by this plan: measure, limit, a digest of all of it."""
    profile, out = setup.plan.value.profile, setup.plan.value.scoped_out()
    planned = [entry.gate for entry in setup.plan.value.gates]
    return {
        each.id: _judged(each, profile, out.get(each.id, ""))
        for gate in planned
        for each in setup.gates[gate].value.criteria
    }


def _judged(criterion: Criterion, profile: str, scoped_out: str) -> str:
    limit = criterion.limits.get(profile)
    how = f"scoped out: {scoped_out}" if scoped_out else str(limit or f"no limit for {profile}")
    whole = hashlib.sha256(compact(_plain(criterion.model_dump()))).hexdigest()
    return f"{criterion.measure}, {criterion.phase}: {how} (definition {whole[:16]})"


def _plain(value: Any) -> Any:
    """Return a model's dump as JSON; numbers of quantities, which are exact, as texts."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def changed_since(inputs: Mapping[str, bytes]) -> Iterator[str]:
    """Yield a sentence for each criterion that a run judges otherwise than it was approved.

    `inputs` are those of the run, by their names in inputs/.
    """
    judged = parse(inputs[CRITERIA_INPUT]) if CRITERIA_INPUT in inputs else {}
    for name in sorted(inputs):
        if not (name.startswith("approvals/") and name.endswith(".json")):
            continue
        statement = read_statement(inputs[name])
        approved = statement.of["criteria"]
        by = f"the {statement.role} approved on {statement.claimed_at[:10]}"
        for each in sorted({*approved, *judged}):
            if approved.get(each) != judged.get(each):
                yield (
                    f"{each} is not as {by}: '{approved.get(each, 'none')}'; "
                    f"it is judged as '{judged.get(each, 'none')}'"
                )


def criteria_files(setup: Setup) -> dict[str, str]:
    """Return name in inputs/ → SHA-256 of every file that the criteria stand in."""
    return {name: file.sha256 for name, file in setup.files()}


def approvals(folder: Path) -> list[tuple[Path, Statement]]:
    """Return the pre-approvals in `folder` with their files; raises StoreError."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append((path, read_statement(path.read_bytes())))
        except DamagedRunError as err:
            raise StoreError(f"{path}: {err.message}", hint="sign the protocol anew") from err
    return found


def _approvals(workspace: Workspace, setup: Setup) -> dict[str, bytes]:
    """Return the approvals to freeze: of each signer the one of these criteria, else the last."""
    wanted = {"plan": setup.plan.value.plan, "inventory": setup.inventory.value.inventory}
    digest = setup.criteria_digest()
    latest: dict[str, tuple[bool, str, Path]] = {}
    for path, statement in approvals(workspace.root / APPROVED):
        if any(statement.of.get(key) != value for key, value in wanted.items()):
            continue
        if statement.at > datetime.datetime.now(datetime.UTC):
            raise StoreError(
                f"{path}: claims to be signed at {statement.claimed_at}, which is to come",
                hint="set the clock of this machine, or of the signer's and sign again",
            )
        rank = (statement.of.get("criteria_digest") == digest, statement.claimed_at, path)
        latest[statement.principal] = max(rank, latest.get(statement.principal, rank))
    frozen: dict[str, bytes] = {}
    for number, (_, _, path) in enumerate(sorted(latest.values(), key=lambda each: each[2]), 1):
        stamped = (".tsr",) if path.with_suffix(".tsr").is_file() else ()
        for end in (".json", ".sig", *stamped):
            role = read_statement(path.read_bytes()).role
            name = f"approvals/protocol-{role}-{number}{end}"
            try:
                frozen[name] = path.with_suffix(end).read_bytes()
            except OSError as err:
                raise StoreError(f"{path.with_suffix(end)}: {err.strerror or err}") from err
    return frozen
