"""Folders that several processes made for one purpose have one name in a recording."""

from __future__ import annotations

import datetime

from kvgate.engine.record_folders import as_one
from kvgate.model.record import Evidence
from kvgate.workloads import base

NOW = datetime.datetime(2026, 5, 12, 12, tzinfo=datetime.UTC)
STEM = "/srv/scratch/kvgate-fio-"
TOKEN = b"0123456789abcdef" * 2


def piece(command: tuple[str, ...], stdout: bytes = b"", stderr: bytes = b"") -> Evidence:
    return Evidence(
        host="h1",
        command=command,
        exit_status=0,
        stdout=stdout,
        stderr=stderr,
        started_at=NOW,
        ended_at=NOW,
    )


def made(name: str, stem: str = STEM) -> Evidence:
    argv = ("sh", "-c", base._GUARD, "kvgate-guard", stem, base._KEEPER)
    return piece(argv, TOKEN + f" {stem}{name}\n".encode())


def test_each_purpose_has_the_name_of_its_last_folder() -> None:
    used = piece(("cat", f"{STEM}aaaaaaaa/x.fio"), f"filename={STEM}aaaaaaaa/data\n".encode())
    other = made("cccccccc", "/srv/scratch/kvgate-kv-")
    asked = [
        ("G2/fio-files", made("aaaaaaaa")),
        ("G2/fio/job=a", used),
        ("G2/fio-files", made("bbbbbbbb")),
        ("G2/verify-files", made("dddddddd")),
        ("G3/kv-folder", other),
    ]
    found = as_one(asked)
    assert [scope for scope, _ in found] == [scope for scope, _ in asked]
    assert found[0][1].stdout == made("bbbbbbbb").stdout
    assert found[1][1].command == ("cat", f"{STEM}bbbbbbbb/x.fio")
    assert found[1][1].stdout == f"filename={STEM}bbbbbbbb/data\n".encode()
    assert found[2:] == asked[2:], "another purpose, in another scope, keeps its own"


def test_a_folder_that_is_not_as_a_guard_makes_it_renames_nothing() -> None:
    for odd in (b"", b"not made: no room\n", TOKEN + b" /etc\n", TOKEN + b" /srv/../etc/passwd\n"):
        asked = [("s", piece(made("aaaaaaaa").command, odd)), ("s", made("bbbbbbbb"))]
        assert as_one(asked) == asked
