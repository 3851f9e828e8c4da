"""Where the recorded answers are."""

from collections.abc import Callable
from pathlib import Path

import pytest

RECORDED = Path(__file__).parents[2] / "recorded"


@pytest.fixture
def recorded() -> Callable[[str], bytes]:
    return lambda name: (RECORDED / name).read_bytes()
