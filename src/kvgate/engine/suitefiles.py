"""Reads suites without running them: which test settles which criteria."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path

from kvgate.errors import SpecError


@dataclasses.dataclass(frozen=True, slots=True)
class SuiteTest:
    """One test function of a suite: where it stands, what it says it does, what it settles."""

    file: str
    line: int
    name: str
    summary: str
    settles: tuple[str, ...]


def tests_in(folder: Path, *, name: str) -> tuple[SuiteTest, ...]:
    """Return the tests below `folder`, in file order; raises SpecError if it can't be read."""
    if not folder.is_dir():
        raise SpecError(f"{name}: is no folder of tests")
    found: list[SuiteTest] = []
    for path in sorted(folder.rglob("test_*.py")):
        shown = f"{name}/{path.relative_to(folder)}"
        try:
            tree = ast.parse(path.read_bytes(), filename=str(path))
        except SyntaxError as err:
            raise SpecError(f"{shown}:{err.lineno}: {err.msg}") from err
        except (ValueError, RecursionError, MemoryError) as err:  # a NUL byte, or far too deep
            raise SpecError(f"{shown}: is no Python: {err}") from err
        found += [
            SuiteTest(
                shown,
                node.lineno,
                node.name,
                (ast.get_docstring(node) or "").partition("\n")[0],
                _settled(node, shown),
            )
            for node in tree.body
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        ]
    return tuple(found)


def _settled(function: ast.FunctionDef, shown: str) -> tuple[str, ...]:
    """Return the criteria named by ``@settles(...)``, which takes literal texts only."""
    found: list[str] = []
    for decorator in function.decorator_list:
        if not (
            isinstance(decorator, ast.Call)
            and isinstance(decorator.func, ast.Name)
            and decorator.func.id == "settles"
        ):
            continue
        for argument in decorator.args:
            if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                raise SpecError(
                    f"{shown}:{argument.lineno}: settles() takes criterion ids as texts"
                )
            found.append(argument.value)
    return tuple(found)
