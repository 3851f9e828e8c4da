"""Parts out of measurements, drafts of bills of materials, and what changed between two."""

from __future__ import annotations

import datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.engine.bom import Reported, reported
from kvgate.engine.bom_diff import Unit, changes, units_of_bom
from kvgate.engine.bom_draft import text_of
from kvgate.judge.bom import Found, compare
from kvgate.model.quantity import Quantity
from kvgate.model.record import Measurement, Value
from kvgate.spec import yamlfile
from kvgate.spec.bom import Bom
from kvgate.spec.inventory import Inventory
from kvgate.spec.load_bom import bom_of

NOW = datetime.datetime(2026, 11, 30, tzinfo=datetime.UTC)
SITE = Inventory.model_validate(
    {"inventory": "x", "hosts": {"a": {"roles": ["serving"], "transport": "local"}}}
)


def told(host: str, name: str, item: str, value: Value | None = None, ref: str = "e") -> Any:
    return Measurement(
        name=name,
        value=value,
        host=host,
        item=item,
        phase="inspection",
        taken_at=NOW,
        problem="" if value is not None else "not permitted",
        evidence=(ref,),
    )


def test_parts_are_put_together_from_their_measurements() -> None:
    found = reported(
        [
            told("a", "part.count", "drive", Quantity.of(1, "")),
            told("a", "part.place", "drive/S1", "11, 0000:61:00.0, nvme0", "f"),
            told("a", "part.serial", "drive/S1", "S1"),
            told("a", "part.model", "drive/S1", "M1"),
            told("a", "part.fault", "drive/S1", "dead"),
            told("a", "part.count", "psu"),
            told("a", "cpu.model", "", "EPYC"),
        ],
        SITE,
    )
    assert found.found == (
        Found(
            host="a",
            kind="drive",
            serial="S1",
            model="M1",
            places=("11", "0000:61:00.0", "nvme0"),
            fault="dead",
        ),
    )
    assert found.told == {("a", "drive"): "", ("a", "psu"): "not permitted"}
    assert found.cited(["a"]) == ("e", "f")


def test_one_who_can_tell_is_enough() -> None:
    """A host that can't tell of its power supplies, and its BMC that can."""
    both = [told("a", "part.count", "psu"), told("a", "part.count", "psu", Quantity.of(2, ""))]
    for order in (both, both[::-1]):
        assert reported(order, SITE).told == {("a", "psu"): ""}


def test_devices_tell_by_their_own_measures() -> None:
    found = reported(
        [
            told("fx", "array.serial", "", "AR1"),
            told("fx", "array.model", "", "FX100"),
            told("fx", "array.drive.serial", "1.2", "AD1"),
            told("fx", "array.drive.model", "1.2", "M7"),
            told("fx", "array.drive.state", "1.2", "Failed"),
            told("fx", "array.drive.serial", "1.3", "AD2"),
            told("fx", "array.drive.state", "1.3", "Online"),
        ],
        SITE,
    )
    shown = {(p.kind, p.serial, p.model, p.places, p.fault) for p in found.found}
    assert shown == {
        ("array", "AR1", "FX100", (), ""),
        ("drive", "AD1", "M7", ("1.2",), "its state is 'Failed'"),
        ("drive", "AD2", "", ("1.3",), ""),
    }


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
serials = st.one_of(words, st.from_regex(r"[A-Z0-9]{1,8}", fullmatch=True))
parts = st.builds(
    Found,
    host=st.sampled_from(["a", "b"]),
    kind=st.sampled_from(["drive", "gpu"]),
    serial=serials,
    model=words,
    part_number=words,
    places=st.lists(words.filter(bool), max_size=2).map(tuple),
    fault=words,
)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(parts, max_size=5, unique_by=lambda part: " ".join(part.serial.upper().split())),
    words,
)
def test_a_draft_of_whatever_hosts_say_is_sound(found: list[Found], why: str) -> None:
    """What a host says can't break out of a text or a comment of the draft."""
    text = text_of("x", Reported(tuple(found), {("a", "psu"): why}, {}))
    if text:
        bom = bom_of(yamlfile.parse(text.encode(), "draft")).value
        assert sum(each.count for each in bom.ordered()) == len(found)


def test_a_draft_is_what_its_hosts_have() -> None:
    found = (
        Found(host="a", kind="drive", serial="S1", model="M1", places=("11", "nvme0")),
        Found(host="a", kind="drive", serial="S2", model="M1", places=("12", "nvme1")),
        Found(host="a", kind="dimm", model="D64"),
        Found(host="a", kind="dimm", model="D64"),
    )
    known = {("a", "drive"): "", ("a", "dimm"): "", ("a", "psu"): "no\nroot"}
    text = text_of("x", Reported(found, known, {}), date="2026-11-30")
    assert "# a does not tell of parts of kind psu: no root\n" in text
    bom = bom_of(yamlfile.parse(text.encode(), "draft")).value
    compared = compare(bom, found, known, ["a"])
    assert {line.text for line in compared.lines} == {"as_ordered"}
    assert compared.surplus == {"a": ()}


def test_without_a_serial_number_there_is_nothing_to_draft() -> None:
    assert text_of("x", Reported((Found(host="a", kind="dimm"),), {}, {})) == ""


def unit(serial: str, host: str = "a", slot: str = "1", named: str = "M1") -> Unit:
    return Unit(kind="drive", serial=serial, named=named, host=host, slot=slot)


def test_changes_are_named() -> None:
    before = [unit("S1"), unit("S2", slot="2"), unit("S3", slot="3"), unit("S4", slot="4")]
    after = [
        unit("S1", host="b"),
        unit("S9", slot="2"),
        unit("S4", slot="4", named="M2"),
        unit("S8", slot="8"),
        unit("", slot=""),
    ]
    assert [f"{each.what}: {each.text}" for each in changes(before, after)] == [
        "added: drive S8 in a 8",
        "counted: drive M1 in a: 0 → 1",
        "moved: drive S1: a 1 → b 1",
        "removed: drive S3, was in a 3",
        "renamed: drive S4: 'M1' → 'M2'",
        "replaced: drive in a 2: S2 → S9",
    ]


def test_a_place_that_one_side_leaves_open_is_no_other() -> None:
    told = [unit("S1", slot="1"), unit("S2", slot="2")]
    assert changes([unit("S1", slot=""), unit("S2", host="", slot="")], told) == ()
    assert changes(told, [unit("S1", host="", slot="1"), unit("S2", slot="")]) == ()
    moved = changes([unit("S1", slot="")], [unit("S1", host="b", slot="1")])
    assert [each.what for each in moved] == ["moved"]


units = st.lists(
    st.builds(
        unit, st.sampled_from("ABC"), st.sampled_from("ab"), st.sampled_from("12"), st.just("M")
    ),
    max_size=3,
    unique_by=lambda each: each.serial,
)


@settings(deadline=None, max_examples=50)
@given(units, units)
def test_nothing_changed_only_where_nothing_did(before: list[Unit], after: list[Unit]) -> None:
    same = {(u.serial, u.place) for u in before} == {(u.serial, u.place) for u in after}
    assert (changes(before, after) == ()) is same


def test_two_that_tell_one_serial_number_are_two() -> None:
    twice = [unit("S1"), unit("S1", host="b")]
    assert changes([], twice) == changes([], twice[::-1])
    assert [each.text for each in changes([], twice)] == ["drive S1 in a 1", "drive S1 in b 1"]
    assert changes(twice, twice) == ()


def test_a_bill_counts_what_has_no_serial_number() -> None:
    line = {"kind": "dimm", "model": "D", "quantity": 3}
    bom = Bom.model_validate({"bom": "b", "lines": [line]})
    assert len(units_of_bom(bom)) == 3
