"""`kvgate scan`: text, JSON and page; what was left out makes it 2; wrong words are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvgate.cli import main
from kvgate.cli.scan import progress_text
from kvgate.report import scanned
from kvgate.workloads.scanner.engine import Progress


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    top = tmp_path / "<b>t"
    top.mkdir()
    (top / "a").write_bytes(b"1" * 4096 * 3 + bytes(8192))
    (top / "b").write_bytes(b"1" * 4096 * 3 + bytes(8192))
    return top


def test_text_and_page_tell_the_same(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "scan.html"
    assert main(["scan", str(tree), "--jobs", "1", "--out", str(page)]) == 0
    text = capsys.readouterr().out
    assert "4 KiB 10 8.19 kB exact 16.4 kB 5.000" in " ".join(text.split())
    assert "Whole files that are there again: 1, 20.5 kB" in text
    html = page.read_text("utf-8")
    assert "8.19 kB" in html
    assert "<b>t" not in html
    assert main(["scan", str(tree), "--out", str(page)]) == 64
    assert "is there; nothing was scanned" in capsys.readouterr().err


def test_json_is_the_document(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scan", str(tree), "--json", "--jobs", "1", "--blocks", "8 KiB,4KiB"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(each["size"], each["ratio"]) for each in found["levels"]] == [(4096, 5.0), (8192, 2.0)]
    assert found["kinds"][0]["files"] == 2


def test_what_is_wrong_or_left_out_makes_it_2(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "lie.safetensors").write_bytes(b"none")
    assert main(["scan", str(tree), "--jobs", "1"]) == 2  # all was read, but it is not what it says
    assert "1 problem:" in capsys.readouterr().out
    document = {"problems": {"count": 1}}
    from kvgate.cli import scan as verb
    from kvgate.errors import CommandError
    from kvgate.workloads.scan import Scanned

    assert verb._code([Scanned("a", document)]) == 2
    assert verb._code([Scanned("a", document), Scanned("b", None, CommandError("b", "no"))]) == 3


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--blocks", "4 km"], "--blocks: "),
        (["--blocks", "5000 B"], "multiples of 4 KiB"),
        (["--memory", "3 s"], "no number of bytes"),
        (["--memory", "1 MB"], "too few"),
        (["--jobs", "-1"], "--jobs"),
        (["--host", "a", "--dask", "b"], "not both"),
        (["--dask", "somewhere"], "is no cluster"),
    ],
)
def test_wrong_words_are_refused(
    tree: Path, words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["scan", str(tree), *words]) == 64
    assert why in capsys.readouterr().err


def test_progress_tells_rate_and_what_is_left() -> None:
    assert progress_text(Progress(12_000, 0, 0, 1.0)) == "12,000 files listed"
    told = progress_text(Progress(5, 10**9, 4 * 10**9, 2.0))
    assert told == "1.00 of 4.00 GB, 0.50 GB/s, 6 s left"


def test_sizes_are_decimal() -> None:
    sizes = [scanned.size(each) for each in (0, 999, 1000, 123_456, 999_600_000, 10**13)]
    assert sizes == ["0 B", "999 B", "1 kB", "123 kB", "1,000 MB", "10 TB"]
