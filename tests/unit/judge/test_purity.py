"""The judge is pure: same run, same findings, wherever, whenever and by whatever Python."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvgate.judge.drift import mann_kendall_s

ROOT = Path(__file__).resolve().parents[3]
SRC = ROOT / "src"
GOLDEN = ROOT / "tests" / "golden" / "run-v1"
PURE = ("judge", "model")
OURS = ("kvgate.judge", "kvgate.spec", "kvgate.model", "kvgate.errors")
IMPURE_MODULES = frozenset(
    {
        *("time", "locale", "random", "secrets", "uuid", "os", "io", "pathlib", "socket", "sys"),
        *("subprocess", "threading", "asyncio", "tempfile", "platform", "getpass", "zoneinfo"),
    }
)
IMPURE_NAMES = frozenset(
    {"hash", "id", "open", "input", "print", "globals", "vars", "exec", "eval"}
)
IMPURE_ATTRIBUTES = frozenset({"now", "utcnow", "today", "fromtimestamp", "getcontext", "environ"})

JUDGE = """\
import decimal, locale, random, sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from kvgate.engine.judging import judge_stored
from kvgate.store.findings import findings_bytes
try:
    locale.setlocale(locale.LC_ALL, "")
except locale.Error:
    pass
decimal.getcontext().prec = 3
decimal.getcontext().rounding = decimal.ROUND_UP
def refuse(*_):
    raise SystemExit("the judge looked at a clock or a die")
time.time = time.time_ns = time.localtime = random.random = refuse
sys.stdout.buffer.write(findings_bytes(judge_stored(Path(sys.argv[2]))))
"""


def sources() -> Iterator[tuple[str, ast.Module]]:
    for package in PURE:
        for path in sorted((SRC / "kvgate" / package).glob("*.py")):
            yield f"{package}/{path.name}", ast.parse(path.read_bytes())


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def ours(file: str, name: str) -> bool:
    """Tell whether it may be imported; a reading masks secrets when it is made, not when judged."""
    if name.startswith("kvgate.untrusted."):
        return file == "model/record.py"
    return any(name == each or name.startswith(each + ".") for each in OURS)


def test_judge_and_model_import_only_the_standard_library_and_what_lies_below() -> None:
    strange = [
        f"{file}: {name}"
        for file, tree in sources()
        for name in imported(tree)
        if not ours(file, name) and name.partition(".")[0] not in sys.stdlib_module_names
    ]
    assert not strange


def test_judge_and_model_use_no_clock_no_locale_no_die_and_no_file() -> None:
    found = []
    for file, tree in sources():
        found += [
            f"{file}: {name}" for name in imported(tree) if name.partition(".")[0] in IMPURE_MODULES
        ]
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id in IMPURE_NAMES:
                found.append(f"{file}:{node.lineno}: {node.id}")
            elif isinstance(node, ast.Attribute) and node.attr in IMPURE_ATTRIBUTES:
                found.append(f"{file}:{node.lineno}: .{node.attr}")
    assert not [each for each in found if not allowed(each)]


def allowed(found: str) -> bool:
    """`Quantity.__hash__` is equal for equal quantities and decides nothing."""
    return found.startswith("model/quantity.py:") and found.endswith(": hash")


def test_only_whole_numbers_and_fractions_are_summed() -> None:
    """`sum` of floats differs between Pythons 3.11 and 3.12; these are of ints and fractions."""
    summing = {
        file
        for file, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "sum"
    }
    assert summing == {"judge/drift.py", "judge/steady.py"}
    assert isinstance(mann_kendall_s([0.1, 0.2, 0.1]), int)


def judge(python: str, *options: str, **environment: str) -> bytes:
    """Judge the golden run in a process of its own and return the findings' bytes."""
    plain = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [python, *options, "-c", JUDGE, str(SRC), str(GOLDEN)],
        env=plain | environment,
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")[-3000:]
    return done.stdout


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        ((), {"LC_ALL": "tr_TR.UTF-8", "TZ": "Pacific/Kiritimati", "PYTHONHASHSEED": "1"}),
        (("-O",), {"LC_ALL": "C", "TZ": "America/St_Johns", "PYTHONHASHSEED": "4294967295"}),
        (("-OO", "-X", "utf8=0"), {"LC_ALL": "POSIX", "TZ": "XXX-13:37", "LANGUAGE": "de"}),
        (("-X", "dev"), {"PYTHONIOENCODING": "latin-1", "LC_NUMERIC": "de_DE.UTF-8"}),
    ],
    ids=lambda each: " ".join(each.values() if isinstance(each, dict) else each) or "plain",
)
def test_circumstances_change_no_byte(
    options: tuple[str, ...], environment: dict[str, str]
) -> None:
    assert judge(sys.executable, *options, **environment) == (GOLDEN / "findings.json").read_bytes()


def other_pythons() -> tuple[dict[str, str], list[str]]:
    """Return version → interpreter that can judge, and why those left out can't.

    They are looked for in KVGATE_PYTHONS, where tools/pythons.sh makes them (`make test` calls
    it), in PATH and in pyenv's folder.
    """
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    candidates = [
        *filter(None, os.environ.get("KVGATE_PYTHONS", "").split(os.pathsep)),
        *map(str, sorted((ROOT / ".make" / "pythons").glob("*/bin/python"))),
        *(f"python3.{minor}" for minor in range(11, 16)),
        *map(str, sorted(pyenv.glob("versions/*/bin/python"))),
    ]
    found: dict[str, str] = {}
    lacking: list[str] = []
    ask = (
        "import sys; sys.stdout.write('%d.%d' % sys.version_info[:2])\n"
        "if sys.version_info >= (3, 11): import pydantic, yaml"
    )
    for python in candidates:
        try:
            done = subprocess.run([python, "-c", ask], capture_output=True, timeout=30)
        except OSError:
            continue
        version = done.stdout.decode("ascii", "replace")
        if version in ("", "{}.{}".format(*sys.version_info)) or version.startswith("2."):
            continue
        if int(version.partition(".")[2]) < 11:
            continue
        if done.returncode == 0:
            found.setdefault(version, python)
        else:
            lacking.append(f"{version} has no pydantic or PyYAML")
    return found, sorted(set(lacking))


def test_another_python_judges_to_the_same_bytes() -> None:
    found, lacking = other_pythons()
    if not found:
        why = ", ".join(lacking) or "none found"
        pytest.skip(f"needs another Python >= 3.11 that can judge: {why}; see tools/pythons.sh")
    expected = (GOLDEN / "findings.json").read_bytes()
    for version, python in found.items():
        assert judge(python) == expected, version
