"""Which tools' answers kvgate reads: what the modules of this package declare in `TOOLS`."""

from __future__ import annotations

import difflib
import functools
import importlib
import pkgutil
from collections.abc import Callable, Mapping

from kvgate import parse as package
from kvgate.errors import KvgateError, UsageError

Reader = Callable[[bytes, int | None], object]
"""A tool's parser: (answer, exit code or None where it is not known) → dataclass(es)."""


@functools.cache
def _readers() -> Mapping[str, Reader]:
    """Return tool → parser, sorted by tool; two modules may not declare the same tool."""
    found: dict[str, Reader] = {}
    for module in pkgutil.iter_modules(package.__path__):
        loaded = importlib.import_module(f"{package.__name__}.{module.name}")
        for tool, reader in getattr(loaded, "TOOLS", {}).items():
            if tool in found:
                raise KvgateError(f"parse/{module.name}.py: another module reads '{tool}' already")
            found[tool] = reader
    return dict(sorted(found.items()))


def tools() -> tuple[str, ...]:
    """Return the names of all tools whose answers can be read, sorted."""
    return tuple(_readers())


def unknown(tool: str, known: tuple[str, ...]) -> UsageError:
    """Return the error for a tool that is not in `known`; it names those that come near."""
    near = difflib.get_close_matches(tool.replace("-", "_").replace(" ", "_"), known)
    told = f"did you mean {' or '.join(near)}?" if near else "see `kvgate parse --list`"
    return UsageError(f"kvgate reads no answers of {tool!r}", hint=told)


def parse(tool: str, answer: bytes, exit_code: int | None = None) -> object:
    """Return what `tool` answered: a dataclass, or a tuple of them.

    `exit_code` is the command's status, None where it is not known. Raises ParseError where the
    answer is not what the tool's parser knows, UsageError where there is no such tool.
    """
    reader = _readers().get(tool)
    if reader is None:
        raise unknown(tool, tools())
    return reader(answer, exit_code)
