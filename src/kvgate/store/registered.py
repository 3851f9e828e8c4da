"""Who may sign a run: the parties and keys frozen with it, or a file of keys given from outside."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvgate.errors import DamagedRunError, StoreError
from kvgate.store.canonical import parse, sha256
from kvgate.store.layout import read_bytes

CONTROL_INPUT = "control.json"
SIGNERS_INPUT = "allowed_signers"
"""Names in a run's inputs/: the plan's ``control:`` as JSON, and its keys for ssh-keygen."""


@dataclasses.dataclass(frozen=True, slots=True)
class Person:
    """A signatory as the plan registers him: what he is to the run, and for whom."""

    role: str
    party: str
    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Registered:
    """Who may sign: `people` by principal; `allowed` is the ``allowed_signers`` file.

    `basis` says where the keys come from: whoever reads a verification has to know.
    """

    people: Mapping[str, Person]
    allowed: bytes
    controller: str
    basis: str
    document: str
    authority: Path | None = None  # certificates (PEM) of whose time stamps are believed


def registered(
    run: Path, given: Path | None = None, authority: Path | None = None
) -> Registered | None:
    """Return who may sign the run in folder `run`, None where its plan names no parties.

    `given` is an ``allowed_signers`` file to use instead of the run's own, `authority` the
    certificates of a time stamp authority. Raises DamagedRunError.
    """
    control = run / "inputs" / CONTROL_INPUT
    if not control.is_file():
        return None
    frozen = read_bytes(run / "inputs" / SIGNERS_INPUT)
    try:
        allowed = frozen if given is None else given.read_bytes()
    except OSError as err:
        raise StoreError(f"{given}: can't be read: {err.strerror or err}") from err
    digest = sha256(allowed)
    basis = (
        f"the keys are those that the run's own plan names (inputs/{SIGNERS_INPUT}, SHA-256 "
        f"{digest}): compare them with the contract, or give yours with --allowed-signers"
        if given is None
        else f"the keys are those of {given}, SHA-256 {digest}"
    )
    try:
        found = _read(parse(read_bytes(control)), allowed, basis)
    except (ValueError, KeyError, TypeError, AttributeError) as err:
        raise DamagedRunError(f"inputs/{CONTROL_INPUT}: names no parties: {err!r}") from err
    return dataclasses.replace(found, authority=authority)


def _read(control: Any, allowed: bytes, basis: str) -> Registered:
    people = {
        str(each["principal"]): Person(str(party["role"]), str(party["name"]), str(each["name"]))
        for party in control["parties"]
        for each in party["signatories"]
    }
    key = control["controller_key"]
    document = control["document"]
    return Registered(
        people,
        allowed,
        "" if key is None else str(key["principal"]),
        basis,
        f"{document['number']}, revision {document['revision']}",
    )
