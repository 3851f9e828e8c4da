"""The control section of a plan: project, document, parties, and who may sign by which key."""

from __future__ import annotations

import base64
import binascii
import datetime
import re
import zoneinfo
from collections.abc import Iterator
from typing import Annotated, Literal

import pydantic

from kvgate.spec.base import Strict, Text

Role = Literal["buyer", "supplier", "supervisor", "integrator", "witness"]
"""What a party is to the acceptance: 甲方, 乙方, 监理, who builds it, who only watches."""

ROLES: tuple[Role, ...] = ("buyer", "supplier", "supervisor", "integrator", "witness")

CONTROLLER = "controller"
"""The role of the machine that runs kvgate: it only countersigns journals."""

_KEY = re.compile(
    r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)|sk-ssh-ed25519@openssh\.com"
    r"|sk-ecdsa-sha2-nistp256@openssh\.com) ([A-Za-z0-9+/]+={0,2})(?: [ -~]*)?"
)
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\dZ)?")


def _public_key(line: str) -> str:
    found = _KEY.fullmatch(line.strip())
    if found is None:
        raise ValueError("is not a line of an SSH public key file such as 'ssh-ed25519 AAAA… name'")
    try:
        blob = base64.b64decode(found[2], validate=True)
    except binascii.Error as err:
        raise ValueError(f"the key is not Base64: {err}") from err
    kind = found[1].encode()
    if blob[:4] != len(kind).to_bytes(4, "big") or blob[4 : 4 + len(kind)] != kind:
        raise ValueError(f"the key is cut off, or no {found[1]}")
    return f"{found[1]} {found[2]}"


def _moment(text: str) -> str:
    if not _MOMENT.fullmatch(text):
        raise ValueError(f"'{text}' is neither a day '2026-05-12' nor '2026-05-12T08:00:00Z'")
    datetime.datetime.fromisoformat(text)  # ValueError: no such day
    return text


def _zone(name: str) -> str:
    if name == "UTC":
        return name  # also where no time zones are installed
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as err:
        raise ValueError(f"'{name}' is no time zone such as 'Asia/Shanghai' or 'UTC'") from err
    return name


def _seen(text: str) -> str:
    if not text.isprintable():
        raise ValueError(
            f"{text!a} holds characters that nobody sees: a line break, a mark of direction"
        )
    return text


Line = Annotated[Text, pydantic.AfterValidator(_seen)]
"""What stands beside a signature: one line, which reads as it is written."""

PublicKey = Annotated[str, pydantic.AfterValidator(_public_key)]
"""``ssh-ed25519 AAAA…``, as in a .pub file; a comment behind it is dropped."""

Moment = Annotated[str, pydantic.AfterValidator(_moment)]
"""A day (its beginning, UTC) or a UTC time to the second."""

Principal = Annotated[str, pydantic.StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@+-]*$")]
"""The name a key signs by, best an e-mail address: no spaces, commas, quotes or wildcards."""


class Key(Strict):
    """A public key, the name it signs by, and from when to when it is good for that."""

    principal: Principal
    key: PublicKey
    valid_after: Moment | None = None
    valid_before: Moment | None = None

    @pydantic.model_validator(mode="after")
    def _in_order(self) -> Key:
        if self.valid_after and self.valid_before and self.valid_after >= self.valid_before:
            raise ValueError(f"valid_before {self.valid_before} is not after {self.valid_after}")
        return self

    def allowed(self) -> str:
        """Return its line of an ``allowed_signers`` file (ssh-keygen(1)), times in UTC."""
        options = ['namespaces="kvgate"']
        for option, moment in (
            ("valid-after", self.valid_after),
            ("valid-before", self.valid_before),
        ):
            if moment:
                digits = re.sub(r"\D", "", moment)
                options.append(f'{option}="{digits}Z"')
        return f"{self.principal} {','.join(options)} {self.key}\n"


class Signatory(Key):
    """A person who may sign for a party."""

    name: Line
    role: Line | None = None  # the person's office: "head of test"


class Party(Strict):
    """A company or person with a part in the acceptance, and who signs for it."""

    role: Role
    name: Line
    signatories: list[Signatory] = pydantic.Field(default_factory=list)


class Document(Strict):
    """What the report is called in the parties' document control."""

    number: Line
    revision: Line
    language: Literal["en", "zh"] = "en"
    time_zone: Annotated[str, pydantic.AfterValidator(_zone)] = "UTC"  # nights begin by it


class Control(Strict):
    """Who accepts what from whom, under which contract; a plan's ``control:``."""

    project: Line
    contract: Line | None = None
    purchase_order: Line | None = None
    site: Line | None = None
    document: Document
    parties: Annotated[list[Party], pydantic.Field(min_length=1)]
    controller_key: Key | None = None  # countersigns the journal; registered by who signs the plan

    @pydantic.model_validator(mode="after")
    def _distinct(self) -> Control:
        principals: dict[str, str] = {}
        keys: dict[str, str] = {}
        for role, key in self.keys():
            if principals.setdefault(key.principal, role) != role:
                raise ValueError(
                    f"'{key.principal}' can't sign as {role} and as {principals[key.principal]}"
                )
            if keys.setdefault(key.key, key.principal) != key.principal:
                raise ValueError(
                    f"'{key.principal}' and '{keys[key.key]}' have the same key: a signature by it "
                    "would not tell who made it"
                )
        return self

    def keys(self) -> Iterator[tuple[str, Key]]:
        """Yield (role, key) of every signatory, and of the controller."""
        for party in self.parties:
            for signatory in party.signatories:
                yield party.role, signatory
        if self.controller_key:
            yield CONTROLLER, self.controller_key

    def signatories(self, role: str) -> tuple[tuple[Party, Signatory], ...]:
        """Return who may sign as `role`, each with the party signed for."""
        return tuple(
            (party, each)
            for party in self.parties
            if party.role == role
            for each in party.signatories
        )

    def allowed_signers(self) -> bytes:
        """Return the ``allowed_signers`` file of all keys: what `ssh-keygen -Y verify` takes."""
        return "".join(sorted(key.allowed() for _, key in self.keys())).encode("ascii")
