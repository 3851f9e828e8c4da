from __future__ import annotations

import base64
from typing import Any

import pydantic
import pytest

from kvgate.spec.control import Control


def key(number: int) -> str:
    kind = b"ssh-ed25519"
    blob = len(kind).to_bytes(4, "big") + kind + (32).to_bytes(4, "big") + bytes([number]) * 32
    return f"ssh-ed25519 {base64.b64encode(blob).decode()} somebody's laptop"


def person(number: int, **more: Any) -> dict[str, Any]:
    return {"principal": f"p{number}@example.com", "key": key(number), "name": f"P {number}"} | more


def control(*people: dict[str, Any], **more: Any) -> Control:
    roles = ("buyer", "supplier", "witness")
    parties = [
        {"role": roles[place], "name": roles[place].title(), "signatories": [each]}
        for place, each in enumerate(people)
    ]
    document = {"number": "KV-017", "revision": "B", "time_zone": "Asia/Shanghai"}
    whole = {"project": "KV tier", "document": document, "parties": parties, **more}
    return Control.model_validate(whole)


def test_allowed_signers_say_who_by_which_key_and_when_in_utc() -> None:
    made = control(
        person(2, valid_after="2026-05-12", valid_before="2027-01-01T08:30:00Z"),
        person(1),
        controller_key={"principal": "controller", "key": key(3)},
    )
    blob = [key(number).split()[1] for number in (1, 2, 3)]
    assert made.allowed_signers().decode().splitlines() == [
        f'controller namespaces="kvgate" ssh-ed25519 {blob[2]}',
        f'p1@example.com namespaces="kvgate" ssh-ed25519 {blob[0]}',
        'p2@example.com namespaces="kvgate",valid-after="20260512Z",'
        f'valid-before="20270101083000Z" ssh-ed25519 {blob[1]}',
    ]
    ((party, who),) = made.signatories("supplier")
    assert (party.name, who.principal) == ("Supplier", "p1@example.com")
    assert made.signatories("supervisor") == ()


@pytest.mark.parametrize(
    ("people", "said"),
    [
        ([person(1, key="ssh-ed25519 AAAA")], "cut off"),
        ([person(1, key="ssh-dss AAAAB3NzaC1kc3M=")], "public key file"),
        ([person(1, key=key(1) + "\nssh-ed25519 AAAA")], "public key file"),
        ([person(1, principal="a b")], "pattern"),
        ([person(1, principal="*")], "pattern"),
        ([person(1, principal='x" namespaces="')], "pattern"),
        ([person(1, valid_after="12.5.2026")], "neither a day"),
        ([person(1, valid_after="2026-02-30")], "day"),
        ([person(1, valid_after="2026-05-12", valid_before="2026-05-12")], "is not after"),
        ([person(1), person(2, key=key(1))], "have the same key"),
        ([person(1), person(2, principal="p1@example.com")], "can't sign as"),
        ([person(1, role=7)], "string"),
        ([person(1, name="Li\nWei: accepted")], "characters that nobody sees"),
        ([person(1, name="Li \u202eieW")], "characters that nobody sees"),
        ([person(1, role="head\u2066")], "characters that nobody sees"),
        ([], "at least 1"),
    ],
)
def test_what_could_not_tell_who_signed_is_refused(people: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=said):
        control(*people)


def test_a_zone_that_there_is_not_is_refused() -> None:
    with pytest.raises(pydantic.ValidationError, match="no time zone"):
        control(person(1), document={"number": "1", "revision": "A", "time_zone": "Mars/Base"})
