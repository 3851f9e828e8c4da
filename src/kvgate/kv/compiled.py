"""Plain Python functions compiled by Numba, where it is installed; else they run as they are.

Import this only where something is computed: Numba takes half a second to import.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

try:
    import numba
except ImportError:
    numba = None

F = TypeVar("F", bound=Callable[..., Any])

SLOW = (
    "Numba isn't installed: the same is computed some hundred times slower; "
    "pip install 'kvgate[assess]'"
)
"""What to tell a user whose assessment takes long."""


def available() -> bool:
    """Tell whether functions are compiled."""
    return numba is not None


def jit(function: F) -> F:
    """Return `function` compiled at its first call, without the GIL; or itself without Numba.

    What was compiled is kept beside the source, or in the user's cache folder, where one of them
    can be written.
    """
    if numba is None:
        return function
    try:
        return cast("F", numba.njit(nogil=True, cache=True)(function))
    except RuntimeError:  # no folder to keep it in: compiled anew in each process
        return cast("F", numba.njit(nogil=True)(function))
