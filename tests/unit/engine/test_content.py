"""What `kvgate init` lays out, and that it never overwrites."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvgate.cli import main
from kvgate.engine import content
from kvgate.engine.workspace import Workspace
from kvgate.errors import StoreError, UsageError

ROOT = Path(__file__).resolve().parents[3]


def tree(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }


def test_a_checkout_ships_what_git_knows_of_it_and_nothing_local() -> None:
    names = [name for name, _ in content.files()]
    assert names == sorted(names, key=lambda name: name.split("/"))
    assert {"gates/g1-arrival.yaml", "gates/plans/rehearsal.yaml", "runs/README.md"} <= set(names)
    assert {"inventory/baseline.yaml", "templates/report/style.css"} <= set(names)
    assert not [name for name in names if "/local/" in name or "__pycache__" in name]
    assert [name for name in names if name.startswith("runs/")] == ["runs/README.md"]


def test_a_second_init_changes_nothing(tmp_path: Path) -> None:
    first = content.lay_out(tmp_path / "site")
    before = tree(tmp_path)
    second = content.lay_out(tmp_path / "site")
    assert first.written == second.same
    assert not second.written
    assert not second.kept
    assert tree(tmp_path) == before
    assert Workspace.find(tmp_path / "site" / "gates" / "plans").root == tmp_path / "site"


def test_files_that_are_there_are_kept_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gates").mkdir()
    (tmp_path / "gates/g1-arrival.yaml").write_text("mine")
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory/baseline.yaml").symlink_to(elsewhere)  # leads to nothing
    assert main(["init", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "gates/g1-arrival.yaml: was there with other content; left as it is" in told
    assert "inventory/baseline.yaml: was there" in told
    assert (tmp_path / "gates/g1-arrival.yaml").read_text() == "mine"
    assert not elsewhere.exists()
    assert "kvgate draft" in told


def test_a_file_is_no_folder_for_a_workspace(tmp_path: Path) -> None:
    (tmp_path / "site").write_text("")
    with pytest.raises(UsageError, match="is a file"):
        content.lay_out(tmp_path / "site")
    with pytest.raises(StoreError, match="can't be written"):
        content.lay_out(tmp_path / "site" / "below")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StoreError, match="can't be written"):
            content.lay_out(tmp_path / "site")
    finally:
        tmp_path.chmod(0o700)


def test_templates_are_the_workspaces_own_else_the_shipped_ones(tmp_path: Path) -> None:
    content.lay_out(tmp_path)
    workspace = Workspace.find(tmp_path)
    assert workspace.templates == tmp_path / "templates"
    for path in sorted((tmp_path / "templates").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (tmp_path / "templates").rmdir()
    assert workspace.templates == ROOT / "templates"
