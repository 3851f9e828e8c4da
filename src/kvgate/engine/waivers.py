"""Waivers as files: drafted from a finding, approved by signatures, read back and checked.

``gates/waivers/W-0007.yaml`` is the text that people agree on, ``W-0007.buyer.yaml`` the buyer's
approval of exactly that text. A file is never changed once somebody has signed it.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from kvgate.errors import KvgateError, SpecError, StoreError, UsageError
from kvgate.judge.waived import Granted
from kvgate.model.disposed import Signed
from kvgate.spec import yamlfile
from kvgate.spec.control import Control
from kvgate.spec.load import nearest, validate
from kvgate.spec.waiver import (
    APPROVERS,
    Approval,
    Waiver,
    approval_of,
    load_waiver,
    parsed,
    told,
)
from kvgate.store import disk, signature
from kvgate.store.canonical import compact

FOLDER = "waivers"
"""The folder of waivers: below gates/ of a workspace, and in a run that was disposed of."""

APPROVAL_FORMAT = "kvgate-approval/1"
_MOST = 9999


@dataclasses.dataclass(frozen=True, slots=True)
class Held:
    """One waiver as it lies in a folder: its text, and the approvals beside it by file name."""

    waiver: Waiver
    content: bytes
    approvals: Mapping[str, tuple[Approval, bytes]]

    @property
    def sha256(self) -> str:
        """Return the digest of the waiver's file."""
        return hashlib.sha256(self.content).hexdigest()

    def files(self) -> dict[str, bytes]:
        """Return file name → bytes of all that belongs to it."""
        own = {f"{self.waiver.waiver}.yaml": self.content}
        return own | {name: content for name, (_, content) in self.approvals.items()}


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """The waivers of a folder, and why some files there have no effect."""

    held: tuple[Held, ...]
    problems: tuple[str, ...]


def folder_of(root: Path) -> Path:
    """Return a workspace's folder of waivers."""
    return root / "gates" / FOLDER


def read(folder: Path) -> Found:
    """Return what lies in `folder`; a file that is not sound is named, and has no effect."""
    held, problems = [], []
    for path in sorted(folder.glob("W-*.yaml")):
        if path.name.count(".") != 1:
            continue
        try:
            held.append(_held(path))
        except KvgateError as err:
            problems.append(f"{err.message}; it has no effect")
    known = {each.waiver.waiver for each in held}
    for path in sorted(folder.glob("W-*.*.yaml")):
        if path.name.partition(".")[0] not in known:
            problems.append(f"{path.name}: approves a waiver that is not there, or is not sound")
    return Found(tuple(held), tuple(problems))


def _held(path: Path) -> Held:
    loaded = load_waiver(path, name=path.name)
    approvals = {}
    for beside in sorted(path.parent.glob(f"{path.stem}.*.yaml")):
        file = yamlfile.read(beside, name=beside.name)
        approval = approval_of(file)
        if beside.name != approval_name(approval):
            raise file.error((), f"is what {approval_name(approval)} should hold")
        approvals[beside.name] = (approval, file.content)
    return Held(loaded.value, loaded.files[0].content, approvals)


def approval_name(approval: Approval) -> str:
    """Return the name of an approval's file."""
    return f"{approval.waiver}.{approval.role}.yaml"


def granted(held: Held, control: Control | None) -> Granted:
    """Return the waiver with its approvals checked against the parties of the run's plan."""
    signed = tuple(_checked(held.waiver, each, control) for each, _ in held.approvals.values())
    return Granted(waiver=held.waiver, sha256=held.sha256, signed=signed)


def _checked(waiver: Waiver, approval: Approval, control: Control | None) -> Signed:
    at = parsed(approval.at)
    return Signed(
        role=approval.role,
        principal=approval.principal,
        at=at,
        problem=_problem(waiver, approval, control, at),
    )


def _problem(
    waiver: Waiver, approval: Approval, control: Control | None, at: datetime.datetime
) -> str:
    """Return why an approval doesn't count; "" where it does."""
    if control is None:
        return "the run's plan names no parties (control:), so that nobody is authorised"
    allowed = [each.principal for _, each in control.signatories(approval.role)]
    if approval.principal not in allowed:
        return f"'{approval.principal}' is no signatory of the {approval.role}"
    outcome = signature.check(
        statement(waiver, approval.role, approval.principal, at),
        approval.signature,
        allowed_signers=control.allowed_signers(),
        principal=approval.principal,
        at=at,
    )
    return "" if outcome.good else outcome.text


def statement(waiver: Waiver, role: str, principal: str, at: datetime.datetime) -> bytes:
    """Return the bytes that an approval signs: the waiver's whole content, who, as what, when."""
    return compact(
        {
            "format": APPROVAL_FORMAT,
            "waiver": waiver.model_dump(mode="json"),
            "role": role,
            "principal": principal,
            "at": told(at),
        }
    )


def approve(
    folder: Path, name: str, *, role: str, key: Path, control: Control, at: datetime.datetime
) -> Path:
    """Sign waiver `name` for `role` by `key`, write the approval beside it and return its path.

    Raises UsageError where the key is none of that role's, StoreError where no signature was made
    or one is there already.
    """
    path = folder / f"{name}.yaml"
    if not path.is_file():
        known = [each.stem for each in folder.glob("W-????.yaml")]
        raise UsageError(f"'{name}' is no waiver in {folder}{nearest(name, known)}")
    waiver = load_waiver(path, name=path.name).value
    principal = _principal(control, role, key)
    made = {
        "waiver": name,
        "role": role,
        "principal": principal,
        "at": told(at),
        "signature": signature.sign(statement(waiver, role, principal, at), key=key),
    }
    target = folder / f"{name}.{role}.yaml"
    if target.exists():
        raise StoreError(
            f"{target}: the {role} has approved it already",
            hint="to approve another text, draft another waiver",
        )
    disk.replace(target, _yaml(made))
    return target


def _principal(control: Control, role: str, key: Path) -> str:
    if role not in APPROVERS:
        raise UsageError(f"a waiver is approved by {' and '.join(APPROVERS)}, not by '{role}'")
    blob = signature.public_blob(key)
    if blob is None:
        raise UsageError(f"{key}: neither it nor {key}.pub tells the public key")
    for _, each in control.signatories(role):
        if base64.b64decode(each.key.split()[1]) == blob:
            return each.principal
    named = ", ".join(each.principal for _, each in control.signatories(role)) or "nobody"
    raise UsageError(
        f"{key} ({signature.fingerprint(blob)}) is no key of the {role}; its signatories: {named}",
        hint="the plan's control: names parties, signatories and keys",
    )


def draft(folder: Path, fields: Mapping[str, Any]) -> Path:
    """Write a new waiver of `fields` (all but its id) and return its path; raises SpecError."""
    number = 1 + max((int(each.stem[2:]) for each in folder.glob("W-????.yaml")), default=0)
    if number > _MOST:
        raise StoreError(f"{folder}: holds W-{_MOST} already: no number is left")
    name = f"W-{number:04}"
    whole = {"waiver": name} | {key: value for key, value in fields.items() if value is not None}
    content = _yaml(whole)
    validate(Waiver, yamlfile.parse(content, f"{name}.yaml"))
    disk.make_folder(folder)
    path = folder / f"{name}.yaml"
    if path.exists():
        raise SpecError(f"{path}: is there already; try again")
    disk.replace(path, content)
    return path


def _yaml(value: Mapping[str, Any]) -> bytes:
    text: str = yaml.safe_dump(
        dict(value), sort_keys=False, allow_unicode=True, default_flow_style=False, width=96
    )
    return text.encode()
