from __future__ import annotations

from pathlib import Path

import pytest

from kvgate.errors import UsageError
from kvgate.lab.places import DEFAULT, places


def test_the_cache_folder_is_the_users_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("KVGATE_LAB", raising=False)
    assert places().state == tmp_path / "kvgate/lab/labs" / DEFAULT
    monkeypatch.setenv("KVGATE_LAB", "mine")
    assert places().name == "mine"
    assert places("other").name == "other"
    assert places("other").image == places("mine").image
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # the specification: to be ignored
    assert places().cache == Path.home() / ".cache/kvgate/lab"


@pytest.mark.parametrize("name", ["..", "a/b", "A", "-x", "a" * 33, "a b"])
def test_a_name_that_could_leave_the_folder_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="no name of a lab"):
        places(name)
