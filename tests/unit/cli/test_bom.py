"""The verbs of `kvgate bom`: what they print, write and end with."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvgate.cli import main

LIST = "Artikel,QTY,S/N\nP1,2,S1;S2\n"
IMPORT = ("--map", "part_number=Artikel", "--kind", "drive")


def test_a_list_is_printed_or_written_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "list.csv"
    source.write_text(LIST)
    assert main(["bom", "import", str(source), *IMPORT]) == 0
    printed = capsys.readouterr()
    assert "bom: list\nlines:\n" in printed.out
    assert "read as UTF-8" in printed.err
    out = tmp_path / "bom-a.yaml"
    assert main(["bom", "import", str(source), *IMPORT, "-o", str(out)]) == 0
    assert "1 lines, 2 serial numbers" in capsys.readouterr().out
    assert main(["bom", "import", str(source), *IMPORT, "-o", str(out)]) == 64
    assert "nothing was written" in capsys.readouterr().err


def test_a_refused_cell_ends_with_64_and_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "list.csv"
    source.write_text(LIST.replace("S1;S2", "1.2E+11"))
    assert main(["bom", "import", str(source), *IMPORT]) == 64
    assert "list.csv: row 2, column C: '1.2E+11'" in capsys.readouterr().err
    assert main(["bom", "import", str(tmp_path / "none.csv")]) == 64


def test_two_dates_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = "{kind: drive, model: M, quantity: 1, where: {host: a, slot: '1'}, serials: [%s]}"
    paths = []
    for name, serial in (("old", "S1"), ("new", "S2")):
        path = tmp_path / f"{name}.yaml"
        path.write_text(f"bom: x\nlines:\n  - {line % serial}\n")
        paths.append(str(path))
    assert main(["bom", "diff", paths[0], paths[0]]) == 0
    assert "the same parts" in capsys.readouterr().out
    assert main(["bom", "diff", *paths]) == 1
    assert capsys.readouterr().out == "replaced: drive in a 1: S1 → S2\n"
    assert main(["bom", "diff", paths[0], "no-such-run"]) == 64


def test_a_bill_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bom.yaml"
    path.write_text("bom: x\nlines:\n  - {kind: cable, description: 3 m, quantity: 4}\n")
    assert main(["bom", "check", str(path)]) == 0
    assert "1 lines, 4 parts, 0 of them by serial number; 4 are counted by people" in (
        capsys.readouterr().out
    )
    path.write_text("bom: x\nlines:\n  - {kind: cabel, description: 3 m, quantity: 4}\n")
    assert main(["bom", "check", str(path)]) == 1
    assert "bom.yaml:3" in capsys.readouterr().err
