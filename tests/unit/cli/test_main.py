"""The border of the command line: exit codes, help, and text that can't steer a terminal."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvgate.cli import main
from kvgate.cli.parser import build_parser
from kvgate.untrusted import plain

VERBS = (
    "check", "plan", "run", "rehearse", "draft", "hosts", "judge", "report", "seal", "verify",
)  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        build_parser().parse_args([verb, "--help"])
    assert caught.value.code == 0
    assert f"example: kvgate {verb}" in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["rn"], ["run", "--gaet", "G1"], ["judge"]])
def test_usage_errors_exit_64_and_say_where_help_is(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 64
    assert "--help" in capsys.readouterr().err


def test_our_errors_exit_by_their_own_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["judge", "no-such-run"]) == 64
    assert "is no run" in capsys.readouterr().err


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom kvgate.cli.parser import build_parser\nbuild_parser().format_help()\n"
        "heavy = {'paramiko', 'pydantic', 'numpy', 'pytest', 'rich', 'jinja2', 'aiohttp', 'yaml'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.strip() == "[]"


def test_check_and_plan_import_no_probe() -> None:
    code = "import sys, kvgate.cli.prepare, kvgate.engine.check; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert "kvgate.engine.estimate" in done.stdout
    assert "kvgate.probes" not in done.stdout


@given(st.text())
def test_no_control_character_reaches_the_terminal(text: str) -> None:
    assert all(c.isprintable() or c == "\n" for c in plain(text))
