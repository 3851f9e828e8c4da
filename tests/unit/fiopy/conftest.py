"""What fiopy's tests share: recorded outputs, a fio that is here, a folder for its files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

RECORDED = Path(__file__).parents[2] / "recorded" / "fio"


@pytest.fixture(scope="session")
def recorded() -> Callable[[str], bytes]:
    """Return the bytes of a recorded output by its file name."""
    return lambda name: (RECORDED / name).read_bytes()


@pytest.fixture(scope="session")
def fio() -> str:
    """Return the path of fio; make test installs it, so its absence is an error, not a skip."""
    path = shutil.which("fio")
    assert path, "fio is not installed: run `make test`, or install the package 'fio'"
    return path
