"""A supplier's list: read rightly, or refused with the cell; nothing of it is ever executed."""

from __future__ import annotations

import contextlib
import io
import sys
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.errors import KvgateError, SpecError, UsageError
from kvgate.spec import yamlfile
from kvgate.spec.importing import bom_cells
from kvgate.spec.importing.bom import ImportedBom, import_bom, options_of

HEAD = "P/N,QTY,S/N\n"


def read(
    content: bytes | str,
    *,
    mapping: Sequence[str] = (),
    kind: Sequence[str] = ("drive",),
    ignore: Sequence[str] = (),
    sheet: str | None = None,
) -> ImportedBom:
    data = content.encode() if isinstance(content, str) else content
    options = options_of(mapping, kind, ignore, sheet)
    return import_bom(data, "list.csv", name="x", options=options)


def lines(found: ImportedBom) -> Any:
    return yamlfile.parse(found.text.encode(), "b").value["lines"]


def xlsx(*rows: Sequence[object], title: str = "List", more: Sequence[str] = ()) -> bytes:
    book = openpyxl.Workbook()
    book.active.title = title
    for row in rows:
        book.active.append(list(row))
    for name in more:
        book.create_sheet(name)
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


CHINESE = "料号,描述,类别,数量,序列号\nP1,企业级固态硬盘,硬盘,2,S1、S2\nP2,网卡,网卡,1,Ｎ１\n"


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("utf-8", "read as UTF-8"),
        ("utf-8-sig", "read as UTF-8 with a byte order mark"),
        ("utf-16", "read as UTF-16"),
        ("gb18030", "read as GB18030"),
    ],
)
def test_encodings_are_detected_and_said(encoding: str, said: str) -> None:
    found = read(CHINESE.encode(encoding), kind=())
    assert lines(found) == [
        {
            "kind": "drive",
            "quantity": 2,
            "part_number": "P1",
            "description": "企业级固态硬盘",
            "serials": ["S1", "S2"],
        },
        {
            "kind": "nic",
            "quantity": 1,
            "part_number": "P2",
            "description": "网卡",
            "serials": ["N1"],
        },
    ]
    assert found.remarks[0] == said
    assert found.remarks[1] == (
        "list.csv: row 3, column E: full-width or invisible characters: read as N1"
    )
    assert (found.lines, found.serials) == (2, 3)


def test_a_file_of_two_encodings_is_refused_with_the_cell() -> None:
    mixed = "料号,数量,序列号\nP1,1,S1\n".encode() + "硬盘,1,S2\n".encode("gb18030")
    with pytest.raises(SpecError, match="row 3, column A: is not UTF-8, and row 1 is: the file is"):
        read(mixed)
    with pytest.raises(SpecError, match="row 2: has the mark of UTF-8"):
        read(b"\xef\xbb\xbf" + HEAD.encode() + "硬盘,1,S2\n".encode("gb18030"))
    with pytest.raises(SpecError, match="row 2: is neither UTF-8 nor GB18030"):
        read(HEAD.encode() + b"P1\xff\xff,1,S1\n")


REFUSED = [
    (HEAD + "P1,1,1.23457E+11\n", "row 2, column C: '1.23457E+11' is a number in scientific"),
    (HEAD + "1.2E+05,1,S1\n", "row 2, column A: '1.2E+05' is a number in scientific"),
    (HEAD + 'P1,1,"1,23457E+11"\n', "row 2, column C"),
    (HEAD + "P1,2,S1\n", "row 2, column B: quantity is 2, and 1 serial numbers follow"),
    (HEAD + "P1,1,S1\n,,S2\n", "row 2, column B: quantity is 1, and 2 serial numbers follow"),
    (HEAD + "P1,1,S1\nP2,1,s1\n", "row 3, column C: serial number s1 stands in list.csv: row 2"),
    (HEAD + 'P1,2,"S1;S1"\n', "row 2, column C: serial number S1 stands in"),
    (HEAD + "P1,zwei,S1\n", "row 2, column B: 'zwei' is no quantity"),
    (HEAD + "P1,0,\n", "row 2, column B: '0' is no quantity"),
    (HEAD + "P1,1.5,\n", "row 2, column B: '1.5' is no quantity"),
    (HEAD + 'P1,"1,000",\n', "row 2, column B: '1,000' is no quantity"),
    (HEAD + "P1,1.000,\n", "row 2, column B: '1.000' is no quantity"),
    (HEAD + "P1,1,\u0410BC\n", "row 2, column C: 'АBC' is no serial number: printable ASCII"),
    (HEAD + "P1,1," + "S" * 65 + "\n", "row 2, column C"),
    (HEAD + ",,S1\n", "row 2, column A: is no line, and goes on with none"),
    (HEAD + ",1,S1\n", "row 2, column A: has no part number"),
    (HEAD + "P1,1,S1,extra\n", "row 2, column D: stands beyond the columns of the heading"),
    (HEAD, "has no line below its heading"),
    ("P/N,QTY,S/N,Color\nP1,1,S1,red\n", "row 1, column D: column 'Color' is not known"),
    ("P/N,QTY,S/N,SN\nP1,1,S1,S1\n", "row 1, column D: a second column for 'serials'"),
    ("QTY,S/N\n1,S1\n", "row 1, column A: no column for part_number"),
    ("P/N,slot\nP1,3\n", "row 2, column B: a slot or port goes with a host"),
    ("P/N,host\nP1,../etc\n", "row 2, column B: '../etc' can't be a host's name"),
    ("P/N,type\nP1,gizmo\n", "row 2, column B: 'gizmo' is no kind of part"),
    ('P/N,QTY\nP1,"1\n', "is no sound CSV"),
    ("P/N,QTY\nP\x001,1\n", "list.csv"),
    ("nothing\nhere\n", "has headings that are known"),
    ("", "has headings that are known"),
]


@pytest.mark.parametrize(("text", "told"), REFUSED)
def test_what_is_not_sure_is_refused_with_the_cell(text: str, told: str) -> None:
    with pytest.raises(SpecError) as caught:
        read(text)
    assert "list.csv" in caught.value.message
    assert told in caught.value.message


def test_columns_are_mapped_or_left_out() -> None:
    text = "Artikel;Menge;Seriennummer;Preis\nP1;２;S1\n;;S2\n"
    mapping = ("part_number=Artikel", "quantity=MENGE", "serials=Seriennummer")
    found = read(text, mapping=mapping, ignore=["preis"])
    assert lines(found) == [
        {"kind": "drive", "quantity": 2, "part_number": "P1", "serials": ["S1", "S2"]}
    ]
    assert "list.csv: row 2, column B: full-width digits: read as 2" in found.remarks
    with pytest.raises(SpecError, match="no row of the first 30 has the headings 'Artikle'"):
        read(text, mapping=["part_number=Artikle"])


@pytest.mark.parametrize(
    ("mapping", "kind", "told"),
    [
        (["colour=A"], [], "is not FIELD=COLUMN"),
        (["part_number"], [], "is not FIELD=COLUMN"),
        (["model=A", "model=B"], [], "given twice"),
        ([], ["disc"], "'disc' is no kind"),
        ([], ["SSD=disc"], "'disc' is no kind"),
    ],
)
def test_wrong_options(mapping: list[str], kind: list[str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        options_of(mapping, kind, [], None)


def test_words_for_kinds_and_places() -> None:
    text = "Pos,P/N,Type,Host,Slot,S/N\n10,P1,NVMe disk,Node1,3,S1\n"
    found = read(text, kind=["NVMe disk=drive"])
    assert lines(found)[0] == {
        "kind": "drive",
        "quantity": 1,
        "position": "10",
        "part_number": "P1",
        "where": {"host": "node1", "slot": "3"},
        "serials": ["S1"],
    }


def test_what_looks_like_a_formula_or_a_path_is_a_text() -> None:
    evil = "=cmd|' /C calc'!A0"
    text = f'P/N,description,QTY,S/N\n"{evil}",../../etc/passwd,1,$(reboot)\n'
    found = lines(read(text))[0]
    assert found["part_number"] == evil
    assert found["description"] == "../../etc/passwd"
    assert found["serials"] == ["$(reboot)"]


def test_leading_zeros_that_seem_lost_are_said() -> None:
    found = read(HEAD + 'P1,3,"001234,001235,1236"\n')
    assert found.remarks[1:] == (
        "list.csv: row 2, column C: 1236 is shorter than others of this part: were leading zeros "
        "lost?",
    )
    assert lines(found)[0]["serials"] == ["001234", "001235", "1236"]


# XLSX

TITLES = ("P/N", "QTY", "S/N")


def test_a_sheet_below_titles_is_read_and_numbers_are_said() -> None:
    content = xlsx(["Packing list", None], [], TITLES, ["P1", 2, 123], [None, None, "0124"])
    found = read(content)
    assert lines(found)[0]["serials"] == ["123", "0124"]
    where = "list.csv: sheet 'List', row 4, column C"
    assert found.remarks == (
        "read sheet 'List'",
        f"{where}: 123 is stored as a number: leading zeros would be lost; compare it with the "
        "label",
        f"{where}: 123 is shorter than others of this part: were leading zeros lost?",
    )


@pytest.mark.parametrize(
    ("row", "column", "told"),
    [
        (["P1", 1, 123456789012345678], "C", "scientific notation|15 digits"),
        (["P1", 1, 1.23457e22], "C", "scientific notation"),
        (["P1", 1, 12.5], "C", "stored as a number"),
        (["P1", 1, "=A2"], "C", "holds the formula '=A2', and formulas are never evaluated"),
        (["=CONCATENATE(1,2)", 1, "S"], "A", "formula"),
        (["P1", "=1+1", "S"], "B", "formula"),
        (["P1", 1, True], "C", "stored as a truth"),
        (["P1", 1.5, "S"], "B", "is no quantity"),
    ],
)
def test_what_excel_has_lost_is_refused_with_the_cell(
    row: list[object], column: str, told: str
) -> None:
    with pytest.raises(SpecError, match=told) as caught:
        read(xlsx(TITLES, row))
    assert caught.value.message.startswith(f"list.csv: sheet 'List', row 2, column {column}: ")


def test_a_number_that_excel_only_shows_in_scientific_notation_is_whole() -> None:
    assert lines(read(xlsx(TITLES, ["P1", 1, 123457000000.0])))[0]["serials"] == ["123457000000"]


def _saved(change: Callable[[Any], None], *rows: list[object]) -> bytes:
    import openpyxl

    book = openpyxl.load_workbook(io.BytesIO(xlsx(TITLES, *rows)))
    change(book.active)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def test_a_number_whose_cell_is_formatted_scientific_has_lost_digits() -> None:
    def scientific(sheet: Any) -> None:
        sheet["C2"].number_format = "0.00E+00"

    with pytest.raises(SpecError, match="row 2, column C: 123457000000 is shown in scientific"):
        read(_saved(scientific, ["P1", 1, 123457000000]))


def test_a_line_that_shares_a_merged_cell_with_another_is_refused() -> None:
    rows = (["P1", 1, "S1"], ["P2", 1, None])
    with pytest.raises(SpecError, match="row 3, column C: is merged with a cell above"):
        read(_saved(lambda sheet: sheet.merge_cells("C2:C3"), *rows))


def test_merged_parts_go_on_with_serial_numbers() -> None:
    def merge(sheet: Any) -> None:
        sheet.merge_cells("A2:A3")
        sheet.merge_cells("B2:B3")

    found = read(_saved(merge, ["P1", 2, "S1"], [None, None, "S2"]))
    assert lines(found)[0]["serials"] == ["S1", "S2"]


def test_merged_cells_without_end_are_refused() -> None:
    with pytest.raises(SpecError, match="has more merged cells"):
        read(_saved(lambda sheet: sheet.merged_cells.add("A5:GR90000"), ["P1", 1, "S1"]))


def test_hidden_rows_are_read_and_said() -> None:
    def hide(sheet: Any) -> None:
        sheet.row_dimensions[3].hidden = True

    found = read(_saved(hide, ["P1", 1, "S1"], ["P2", 1, "S2"]))
    assert len(lines(found)) == 2
    assert "list.csv: sheet 'List': hidden rows, which are read as the others: 1" in found.remarks


def test_a_date_is_no_serial_number() -> None:
    import datetime

    with pytest.raises(SpecError, match="column C: '2026-02-03 00:00:00' is stored as a date"):
        read(xlsx(TITLES, ["P1", 1, datetime.datetime(2026, 2, 3)]))  # noqa: DTZ001  as Excel has it


def test_one_of_several_sheets_is_chosen() -> None:
    content = xlsx(TITLES, ["P1", 1, "S1"], more=["Other"])
    with pytest.raises(UsageError, match=r"has 2 sheets \('List', 'Other'\)"):
        read(content)
    with pytest.raises(UsageError, match="has no sheet 'Liste'"):
        read(content, sheet="Liste")
    assert read(content, sheet="List").lines == 1
    with pytest.raises(UsageError, match="is CSV and has no sheets"):
        read(HEAD + "P1,1,S1\n", sheet="List")


def test_what_is_no_sound_workbook_is_refused() -> None:
    with pytest.raises(SpecError, match="is no sound XLSX"):
        read(b"PK\x03\x04 nothing")
    with pytest.raises(SpecError, match="old Excel file"):
        read(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
    sound = xlsx(TITLES, ["P1", 1, "S1"])
    with pytest.raises(SpecError, match="is no sound XLSX"):
        read(sound[: len(sound) // 2])


def test_a_bomb_is_not_unpacked() -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", bytes(bom_cells.MOST_BYTES + 1))
    assert len(content.getvalue()) < 2**20
    with pytest.raises(SpecError, match="unpacks to more than"):
        read(content.getvalue())


def test_without_openpyxl_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(UsageError, match="needs the package openpyxl") as caught:
        read(xlsx(TITLES, ["P1", 1, "S1"]))
    assert "kvgate[xlsx]" in caught.value.hint


@pytest.mark.parametrize(("index", "letters"), [(0, "A"), (25, "Z"), (26, "AA"), (701, "ZZ")])
def test_columns_are_named_as_excel_does(index: int, letters: str) -> None:
    assert bom_cells.column(index) == letters


@settings(deadline=None, max_examples=50)
@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    with contextlib.suppress(KvgateError):
        read(content)


cells = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(cells, cells, cells), max_size=4))
def test_any_table_is_a_sound_bill_or_refused(rows: list[tuple[str, str, str]]) -> None:
    """What is made of a table is what `kvgate check` takes; serial numbers are printable ASCII."""
    table = "\n".join(",".join(f'"{c.replace(chr(34), "")}"' for c in row) for row in rows)
    try:
        found = read(HEAD + table + "\n")
    except KvgateError:
        return
    for line in lines(found):
        assert all(s.isascii() and s.isprintable() for s in line.get("serials", ()))


SERIALS = st.from_regex(r"[A-Z0-9]{4,12}", fullmatch=True).filter(lambda s: "E" not in s)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(SERIALS, min_size=1, max_size=6, unique=True), st.sampled_from(["utf-8", "gb18030"])
)
def test_serial_numbers_come_through_unchanged(serials: list[str], encoding: str) -> None:
    wide = "".join(chr(ord(c) + 0xFEE0) for c in serials[0])
    table = f"料号,数量,序列号\n硬盘,{len(serials)},{';'.join([wide, *serials[1:]])}\n"
    assert lines(read(table.encode(encoding)))[0]["serials"] == serials
