"""Declared forms of answers: what they find, and that anything else is a ParseError."""

from __future__ import annotations

import decimal
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvgate.errors import ParseError, UnitError
from kvgate.model.quantity import Quantity
from kvgate.parse import extract, telling
from kvgate.spec.adapter import Form, Question

DOCUMENT = {
    "Members": [{"Id": "a", "n": 1}, {"Id": "b", "n": None}],
    "Oem": {"x.y": {"z": "deep"}},
    "list": [1, 2, 3],
}


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("Members[*].Id", ["a", "b"]),
        ("Members[1].Id", ["b"]),
        ("Members[7].Id", []),
        ("Members[*].n", [1]),
        ("Members[*].absent", []),
        ('Oem."x.y".z', ["deep"]),
        ("Oem[*].z", ["deep"]),
        ("list", [[1, 2, 3]]),
        ("list[*]", [1, 2, 3]),
        ("absent.far.away", []),
        ("", [DOCUMENT]),
    ],
)
def test_places_in_a_document(place: str, found: list[Any]) -> None:
    assert extract.select(DOCUMENT, place, "t") == found


@pytest.mark.parametrize("place", ["a..b", "a[", "a[x]", "a.", '"a', "a]", "[-1]"])
def test_what_is_no_place_is_refused(place: str) -> None:
    with pytest.raises(ParseError, match="is no place in a document"):
        extract.select(DOCUMENT, place, "t")


@pytest.mark.parametrize("place", ["list.a", "Members.Id", "Oem[0]", "Members[*].Id.x"])
def test_another_kind_on_the_way_is_refused(place: str) -> None:
    with pytest.raises(ParseError):
        extract.select(DOCUMENT, place, "t")


def form(**fields: Any) -> Form:
    return Form.model_validate(fields)


TABLE = b"""\
noise
  Port    Speed    Lossless priorities
------  -------  ---------------------
 Eth 0     100G                    3,4
  Eth4      40G                    N/A

Total: 2
"""


def test_a_table() -> None:
    rows = extract.rows(form(table={"columns": ["Port", "Speed"]}), TABLE, "t")
    assert [row["Port"] for row in rows] == ["Eth 0", "Eth4"]
    assert extract.scalar(rows[1], "Lossless priorities", "t") is None


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"Error: no such command\n", id="an-error"),
        pytest.param(TABLE.replace(b"Port  ", b"Prt   "), id="another-title"),
        pytest.param(TABLE.replace(b"  Eth4      40G", b"  Eth4  40000000000000G"), id="shifted"),
    ],
)
def test_what_is_no_such_table_is_refused(answer: bytes) -> None:
    with pytest.raises(ParseError):
        extract.rows(form(table={"columns": ["Port", "Speed"]}), answer, "t")


def test_lines_and_keys() -> None:
    lines = form(lines={"pattern": r"(?P<name>\w+) is (?P<state>up|down)"})
    rows = extract.rows(lines, b"eth0 is up\nwhatever\r\neth1 is down\n", "t")
    assert [dict(row) for row in rows] == [
        {"name": "eth0", "state": "up"},
        {"name": "eth1", "state": "down"},
    ]
    with pytest.raises(ParseError, match="shows no line such as"):
        extract.rows(lines, b"nothing of it\n", "t")
    (row,) = extract.rows(form(keys={}), b"Model : x\nbuilt: 12:30\nModel: y\n\n: z\n", "t")
    assert dict(row) == {"Model": "x", "built": "12:30"}


def test_an_endless_line_is_no_line_of_it() -> None:
    lines = form(lines={"pattern": r"(?P<all>.+)"})
    rows = extract.rows(lines, b"a" * 1_000_000 + b"\nok\n", "t")
    assert [row["all"] for row in rows] == ["ok"]


def test_a_parser_of_kvgates_own() -> None:
    (row, *_) = extract.rows(
        form(named="uname"), b"Linux n1 6.8.0-1 #1 SMP x86_64 GNU/Linux\n", "t"
    )
    assert isinstance(row, dict)


@pytest.mark.parametrize(
    ("value", "options", "quantity"),
    [
        (5, {"unit": ""}, "5"),
        (decimal.Decimal("24.5"), {"unit": "degC"}, "24.5 degC"),
        ("1,000,204", {"unit": "", "grouped": True}, "1000204"),
        ("100G", {"suffixes": {"G": "Gbit/s"}}, "100 Gbit/s"),
        ("7.68 TB", {"suffixes": {"TB": "TB", "TiB": "TiB"}}, "7.68 TB"),
        ("7.68 TiB", {"suffixes": {"TB": "TB", "TiB": "TiB"}}, "7.68 TiB"),
        ("2.0", {"unit": "x"}, "2.0 x"),
        ("-3", {"unit": "degC"}, "-3 degC"),
    ],
)
def test_numbers(value: Any, options: dict[str, Any], quantity: str) -> None:
    options = {"unit": "", "suffixes": None, "grouped": False, **options}
    found = extract.number(value, tool="t", **options)
    assert found == Quantity.parse(quantity)


@pytest.mark.parametrize(
    ("value", "options"),
    [
        ("1,0", {"unit": "", "grouped": True}),
        ("1,000", {"unit": ""}),
        ("100T", {"suffixes": {"G": "Gbit/s"}}),
        ("100", {"suffixes": {"G": "Gbit/s"}}),
        ("many", {"unit": ""}),
        ("0x10", {"unit": ""}),
        ("1e9999", {"unit": ""}),
        ("NaN", {"unit": "B"}),
    ],
)
def test_what_is_no_number_is_refused(value: str, options: dict[str, Any]) -> None:
    options = {"unit": "", "suffixes": None, "grouped": False, **options}
    with pytest.raises((ParseError, UnitError)):
        extract.number(value, tool="t", **options)


# what rows tell


def question(**fields: Any) -> Question:
    return Question.model_validate(
        {"question": "q", "path": "/q", "form": {"document": {"rows": "items[*]"}}, **fields}
    )


DRIVES = question(
    item="{slot}",
    values=[
        {"measure": "array.drive.state", "field": "state", "known": {"ok": "ok", "bad": "failed"}},
        {"measure": "array.drive.wear", "field": "wear", "unit": "%"},
    ],
    summaries=[
        {"measure": "array.drives", "how": "count"},
        {"measure": "array.drive.faulty", "how": "faulty", "field": "state", "good": ["ok"]},
        {"measure": "array.drive.worst_wear", "how": "most", "field": "wear", "unit": "%"},
        {"measure": "array.drive.models", "how": "distinct", "field": "model"},
    ],
)


def told(items: Any) -> dict[tuple[str, str], str]:
    answer = json.dumps({"items": items}).encode()
    readings = telling.told(DRIVES, extract.rows(DRIVES.form, answer, "t"), "t")
    return {
        (each.name, each.item): str(each.value) if each.value is not None else f"!{each.problem}"
        for each in readings
    }


def drive(slot: str, **fields: Any) -> dict[str, Any]:
    return {"slot": slot, "state": "ok", "wear": 0, "model": "M1", **fields}


def test_summaries() -> None:
    found = told([drive("1"), drive("2", state="bad", wear=3, model="M2"), drive("3")])
    assert found["array.drives", ""] == "3"
    assert found["array.drive.faulty", ""] == "2 (bad)"
    assert found["array.drive.worst_wear", ""] == "3 %"
    assert found["array.drive.models", ""] == "M1, M2"
    assert found["array.drive.state", "2"] == "failed"


def test_nothing_proves_nothing() -> None:
    found = told([])
    assert found["array.drives", ""] == "0"
    for name in ("array.drive.faulty", "array.drive.worst_wear", "array.drive.models"):
        assert found[name, ""].startswith("!t: tells of nothing")


def test_one_that_is_silent_spoils_no_other_and_is_told() -> None:
    found = told([drive("1", state=None, wear="lots"), drive("2")])
    assert found["array.drive.state", "1"] == "!t: tells no state"
    assert found["array.drive.wear", "1"] == "!t: 'lots' is no number"
    assert found["array.drive.state", "2"] == "ok"
    assert found["array.drive.faulty", ""] == "!t: 1: tells no state"
    assert found["array.drive.worst_wear", ""].startswith("!")


def test_many_faulty_ones_are_counted() -> None:
    found = told([drive(str(n), state="bad") for n in range(30)])
    assert found["array.drive.faulty", ""].endswith(f" and {30 - telling.MOST_NAMED} more")


def test_a_row_without_a_name_is_told() -> None:
    found = told([{"state": "ok", "wear": 1, "model": "M"}])
    assert found["array.drive.state", ""] == "!t: a row has no {slot}, which names it"


def test_values_in_a_template_are_no_templates() -> None:
    row = {"a": "{b}", "b": "x"}
    assert extract.text_of(row, "{a} {b}", "t") == "{b} x"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["slot", "state", "wear", "model", "items"]), inner)
    ),
    max_leaves=20,
)


@given(JSON | st.fixed_dictionaries({"items": st.lists(JSON, max_size=5)}))
def test_any_document_gives_readings_or_a_parse_error(document: Any) -> None:
    answer = json.dumps(document).encode()
    try:
        rows = extract.rows(DRIVES.form, answer, "t")
        readings = telling.told(DRIVES, rows, "t")
    except ParseError:
        return
    assert {each.name for each in readings if not each.item} >= {"array.drives"}


@given(st.binary(max_size=400) | st.text(max_size=400).map(str.encode))
def test_any_bytes_give_rows_or_a_parse_error(answer: bytes) -> None:
    forms = (
        form(document={"rows": "items[*]"}),
        form(table={"columns": ["a"]}),
        form(lines={"pattern": r"(?P<a>\w+)\s*(?P<b>.*)"}),
        form(keys={"separator": "="}),
    )
    for each in forms:
        try:
            extract.rows(each, answer, "t")
        except ParseError:
            continue
