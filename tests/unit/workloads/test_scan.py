"""Scans by processes, on a host as one file, and by Dask workers that are killed: one result."""

from __future__ import annotations

import ast
import dataclasses
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvgate.errors import NotRunError, ParseError, UsageError
from kvgate.workloads import scan
from kvgate.workloads.scanner import pool
from kvgate.workloads.scanner.engine import Asked, Progress

Fill = Callable[[Path, int, int], Path]
HOW = ("elapsed_s", "through_cache_bytes")


def content(document: dict[str, Any], *without: str) -> dict[str, Any]:
    return {name: each for name, each in document.items() if name not in (*HOW, *without)}


def unheard(_: Progress) -> None:
    """Take progress without saying it."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory, fill: Fill) -> Path:
    return fill(tmp_path_factory.mktemp("scan") / "t", 40, 50_000)


@pytest.fixture(scope="module")
def here(tree: Path) -> dict[str, Any]:
    heard: list[Progress] = []
    found = scan.scan(Asked([str(tree)], jobs=2), heard.append)
    last = heard[-1]
    assert (last.files, last.bytes, last.total) == (40, found["logical_bytes"], last.bytes)
    assert last.left_s() == 0
    return found


def test_on_a_host_it_is_one_file_and_gives_the_same(bench: Any, tree: Path, here: Any) -> None:
    assert scan.program() == scan.program()
    found = scan.scan_on(bench.witness, Asked([str(tree)], jobs=1), unheard)
    assert found["levels"][:4] == here["levels"][:4]
    libraries = ("tools", "levels", "compression")  # the host's Python has its own
    assert content(found, *libraries) == content(here, *libraries)
    assert list(bench.scratch.iterdir()) == []


def test_a_host_that_can_not_says_why(bench: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        scan.scan_on(bench.witness, Asked([str(tmp_path / "none")]), unheard)
    host = bench.witness.host.model_copy(update={"scratch": None})
    bare = dataclasses.replace(bench.witness, host=host)
    with pytest.raises(NotRunError, match="no scratch folder"):
        scan.scan_on(bare, Asked([str(tmp_path)]), unheard)


def test_an_answer_that_is_no_result_is_refused() -> None:
    for answer in (None, [], {}, {"scan_format": 99}):
        with pytest.raises(ParseError, match="node1: the scanner's answer"):
            scan.checked("node1", answer)


def test_without_any_library_the_counts_are_the_same(tmp_path: Path, tree: Path, here: Any) -> None:
    program = tmp_path / "scan.pyz"
    program.write_bytes(scan.program())
    asked = json.dumps({"paths": [str(tree)], "chunked": False, "jobs": 1, "samples": 16})
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(program), asked], capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])["result"]
    assert found["tools"]["hash"] == "blake2b"
    assert not found["tools"]["numpy"]
    assert [each["codec"] for each in found["compression"]] == ["zlib-1"]
    assert found["levels"] == here["levels"][:-1]
    for name in ("folders", "kinds", "same_files", "logical_bytes"):
        assert found[name] == here[name]


def killing(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Kill workers as they are born, so many of them."""
    really = pool.Processes._added
    left = [times]

    def added(self: pool.Processes, worker: Any) -> Any:
        if left[0]:
            left[0] -= 1
            worker.kill()
        return really(self, worker)

    monkeypatch.setattr(pool.Processes, "_added", added)


def test_a_worker_that_is_killed_is_replaced(
    tree: Path, here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    killing(monkeypatch, 1)
    assert content(scan.scan(Asked([str(tree)], jobs=1), unheard)) == content(
        here,
    )


def test_pieces_that_no_worker_brings_back_are_named(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killing(monkeypatch, 2)
    found = scan.scan(Asked([str(tree)], jobs=1), unheard)
    assert found["left_out_bytes"] == found["listed"]["bytes"] > 0
    assert found["problems"]["count"] == 40
    assert "its worker ended 2 times (signal 9)" in found["problems"]["first"][0]["what"]


@pytest.mark.whole
def test_killed_with_kill_9_it_goes_on(tmp_path: Path, fill: Fill) -> None:
    tree = fill(tmp_path / "t", 5, 130_000_000)
    once = content(scan.scan(Asked([str(tree)], jobs=1), unheard))
    state = tmp_path / "state"
    asked = json.dumps({"paths": [str(tree)], "jobs": 1, "state": str(state)})
    program = (
        "import sys, kvgate.workloads.scanner.engine as e, kvgate.workloads.scanner.main as m\n"
    )
    program += "e._SAVE_S = 0.0; e._SAVE_SHARE = 0; e._TELL_S = 0.0; sys.exit(m.main())"
    script = tmp_path / "go.py"
    script.write_text(program)
    killed = subprocess.Popen([sys.executable, str(script), asked], stdout=subprocess.PIPE)
    assert killed.stdout is not None
    for line in killed.stdout:
        if json.loads(line).get("progress", [0, 0])[1]:
            break
    killed.kill()
    killed.wait()
    killed.stdout.close()
    heard: list[Progress] = []
    found = scan.scan(Asked([str(tree)], jobs=1, state=str(state)), heard.append)
    assert content(found) == once
    assert heard[-1].total < found["logical_bytes"]  # not all was read again


def test_what_travels_is_old_python_and_imports_nothing_else(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(scan.program())) as program:
        sources = {each: program.read(each).decode() for each in program.namelist()}
    imported = set()
    for name, source in sources.items():
        for node in ast.walk(ast.parse(source, name, feature_version=(3, 8))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                ours = node.module.startswith("kvgate.workloads.scanner")
                imported |= set() if ours else {node.module.split(".")[0]}
    assert imported <= sys.stdlib_module_names
