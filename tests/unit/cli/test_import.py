"""The verb import: prints or writes an inventory, never over a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvgate.cli import main
from kvgate.cli.parser import IMPORTS
from kvgate.spec.importing import FORMS

INI = "[gpu]\nn[01:02]\n[web]\nw1\n"


def test_the_command_line_knows_the_formats_that_are_read() -> None:
    assert tuple(FORMS) == IMPORTS


def test_an_inventory_is_printed_or_written_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hosts.ini").write_text(INI)
    words = ["import", str(tmp_path / "hosts.ini"), "--format", "ansible-ini", "--role"]
    assert main([*words, "gpu=serving"]) == 0
    printed = capsys.readouterr()
    assert "inventory: hosts\n" in printed.out
    assert "left out: w1" in printed.err
    out = tmp_path / "site-a.yaml"
    assert main([*words, "gpu=serving", "--out", str(out)]) == 0
    assert "2 hosts" in capsys.readouterr().out
    assert out.read_text() == printed.out.replace("inventory: hosts", "inventory: site-a")
    before = out.read_bytes()
    assert main([*words, "gpu=client", "--out", str(out)]) == 64
    assert "nothing was written" in capsys.readouterr().err
    assert out.read_bytes() == before


def test_what_is_refused_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "hosts.ini").write_text("[serving]\na ansible_password=geheim\n")
    out = tmp_path / "site.yaml"
    words = ["import", str(tmp_path / "hosts.ini"), "--format", "ansible-ini", "--out", str(out)]
    assert main(words) == 64
    told = capsys.readouterr()
    assert "hosts.ini:2: 'ansible_password' is a secret" in told.err
    assert "geheim" not in told.out + told.err
    assert not out.exists()
