"""The rules of the house, as tests: linters, types, layers, sizes, and nothing of one machine."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
OURS = ("src", "suites", "tests", "tools")
MOST_LINES = 400
MOST_FUNCTION_LINES = 40


def python_files(*tops: str) -> Iterator[Path]:
    for top in tops:
        yield from sorted((ROOT / top).rglob("*.py"))


def run(*command: str | Path) -> None:
    done = subprocess.run(
        [str(word) for word in command], cwd=ROOT, capture_output=True, text=True, timeout=220
    )
    assert done.returncode == 0, f"\n{done.stdout[-6000:]}\n{done.stderr[-3000:]}"


def test_ruff_finds_nothing() -> None:
    run(BIN / "ruff", "check", *OURS)


def test_code_is_formatted() -> None:
    run(BIN / "ruff", "format", "--check", *OURS)


def test_types_hold_strictly_in_the_packages_and_suites() -> None:
    run(BIN / "mypy", "src", "suites", "--no-error-summary")


def test_layers_point_down() -> None:
    run(BIN / "lint-imports", "--no-cache")


def test_spelling() -> None:
    texts = [path for path in ROOT.glob("*.md")]
    run(BIN / "codespell", "src", "suites", "gates", "inventory", "templates", "tools", *texts)


@pytest.mark.parametrize("top", OURS)
def test_files_are_at_most_400_lines(top: str) -> None:
    long = {
        str(path.relative_to(ROOT)): count
        for path in python_files(top)
        if (count := len(path.read_text("utf-8").splitlines())) > MOST_LINES
    }
    assert not long


def test_functions_are_at_most_40_lines() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in python_files("src", "suites")
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > MOST_FUNCTION_LINES
    ]
    assert not long


def test_every_module_says_what_it_is_responsible_for() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in python_files("src", "suites")
        if not ast.get_docstring(ast.parse(path.read_bytes()))
    ]
    assert not silent


def test_no_machine_path_or_registry_host_is_committed() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, timeout=60
    )
    place = re.compile(
        rb"(?<![\w.])/(?:work|farm|root|home/\w+)/|//[a-z0-9.-]*(?:debian|pypi|pythonhosted|npmjs)[a-z]*\.org"
    )
    bad = []
    for name in filter(None, listed.stdout.decode().split("\0")):
        path = ROOT / name
        if path.is_file() and path != Path(__file__) and place.search(path.read_bytes()):
            bad.append(name)
    assert not bad


def test_only_transport_imports_paramiko() -> None:
    users = {
        path.relative_to(ROOT).as_posix()
        for path in python_files("src", "suites")
        if re.search(r"^\s*(import|from) paramiko", path.read_text("utf-8"), re.MULTILINE)
    }
    assert {user for user in users if not user.startswith("src/kvgate/transport/")} == set()


def test_suites_hold_no_result_asserts() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in python_files("suites")
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Assert)
    ]
    assert not found
