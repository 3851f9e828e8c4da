"""A wheel carries its workspace: installed alone, it lays one out and checks it."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

from kvgate.engine import content

pytestmark = pytest.mark.whole

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str | Path, cwd: Path, codes: tuple[int, ...] = (0,)) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYTEST"))}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
    )
    assert done.returncode in codes, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a wheel built from this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def kvgate(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the kvgate of a fresh environment that holds the wheel; its needs are ours."""
    home = tmp_path_factory.mktemp("venv")
    run(sys.executable, "-m", "venv", "--without-pip", home, cwd=home)
    pip = (sys.executable, "-m", "pip", "--python", home / "bin" / "python")
    run(*pip, "install", "-q", "--no-index", "--no-deps", wheel, cwd=home)
    packages = next(home.glob("lib/python*/site-packages"))
    (packages / "needs.pth").write_text(sysconfig.get_path("purelib") + "\n")
    where = "import kvgate, sys; sys.stdout.write(kvgate.__file__)"
    assert run(home / "bin/python", "-c", where, cwd=home).startswith(str(home))
    return home / "bin" / "kvgate"


def test_the_wheel_holds_the_shipped_content_and_nothing_of_this_machine(wheel: Path) -> None:
    inside = f"kvgate/{content.IN_WHEEL}/"
    with zipfile.ZipFile(wheel) as packed:
        held = {
            name.removeprefix(inside): packed.read(name)
            for name in packed.namelist()
            if name.startswith(inside)
        }
    assert held == {name: file.read_bytes() for name, file in content.files()}
    assert {name.partition("/")[0] for name in held} == set(content.FOLDERS)
    assert "inventory/recorded/mi308x-composed/hosts/node2.jsonl" in held
    assert not [name for name in held if "local" in name or "__pycache__" in name]


def test_init_lays_out_a_workspace_that_checks_and_runs_a_gate(
    kvgate: Path, tmp_path: Path
) -> None:
    told = run(kvgate, "init", "site", cwd=tmp_path)
    site = tmp_path / "site"
    assert "next: cd site" in told
    run(kvgate, "draft", cwd=site)
    assert "can be run on inventory 'this-machine'" in run(kvgate, "check", cwd=site)
    run(kvgate, "run", "--gate", "G1", cwd=site, codes=(0, 1, 2))
    made = next((site / "runs").glob("*/report/report.html"))
    assert "<html" in made.read_text("utf-8")
    run(kvgate, "verify", made.parents[1], cwd=tmp_path)


def test_the_report_of_a_run_outside_of_any_workspace_has_the_shipped_templates(
    kvgate: Path, tmp_path: Path
) -> None:
    golden = ROOT / "tests/golden/run-v1"
    copy = tmp_path / "run"
    run("cp", "-r", golden, copy, cwd=tmp_path)
    told = run(kvgate, "report", copy, "--format", "html", cwd=tmp_path)
    assert "report.html" in told


def test_the_version_is_that_of_pyproject(kvgate: Path, tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert run(kvgate, "--version", cwd=tmp_path) == f"kvgate {project['version']}\n"
    here = Path(sys.executable).parent / "kvgate"
    assert run(here, "--version", cwd=tmp_path) == f"kvgate {project['version']}\n"
