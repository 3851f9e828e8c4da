"""The mark that ties a test to the criteria it measures for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., Any])
MARK = "settles"


def settles(*criteria: str) -> Callable[[Test], Test]:
    """Mark a test as the one that measures for `criteria` (ids such as ``G2.3``)."""
    if not criteria:
        raise TypeError("settles() names at least one criterion")
    mark = getattr(pytest.mark, MARK)(*criteria)

    def decorate(test: Test) -> Test:
        marked: Test = mark(test)
        return marked

    return decorate


def criteria_of(item: pytest.Item) -> tuple[str, ...]:
    """Return the criteria that `item` settles, nearest mark first."""
    return tuple(str(arg) for mark in item.iter_markers(MARK) for arg in mark.args)
