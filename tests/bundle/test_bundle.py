"""The bundle installs where no network is, and refuses what was altered (`make test-bundle`).

Not part of `make test`: making a bundle needs the network, installing it must not.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
AS_ROOT = () if os.geteuid() == 0 else ("--user", "--map-root-user")
ALONE = ("unshare", *AS_ROOT, "--net", "--")
"""Begins a command in a network namespace of its own: no interface is up, no route is there."""


def run(*command: str | Path, cwd: Path, code: int = 0, alone: bool = True) -> str:
    home = {"PATH": os.environ["PATH"], "HOME": str(cwd), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [*(ALONE if alone else ()), *map(str, command)],
        cwd=cwd,
        env=home,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
    )
    assert done.returncode == code, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def bundle() -> Path:
    """Return the bundle, made from this checkout with the network there is."""
    subprocess.run([sys.executable, ROOT / "tools/bundle.py"], check=True, timeout=600)
    return max((ROOT / "dist").glob("kvgate-*-bundle.tar"), key=lambda path: path.stat().st_mtime)


@pytest.fixture
def unpacked(bundle: Path, tmp_path: Path) -> Path:
    """Return the bundle's folder, unpacked where nothing else is."""
    if subprocess.run([*ALONE, "true"], capture_output=True).returncode != 0:
        pytest.skip("needs a network namespace: unshare --user --net is not allowed here")
    with tarfile.open(bundle) as archive:
        archive.extractall(tmp_path, filter="data")
    return next(tmp_path.glob("kvgate-*"))


def test_the_namespace_has_no_way_out(tmp_path: Path) -> None:
    if subprocess.run([*ALONE, "true"], capture_output=True).returncode != 0:
        pytest.skip("needs a network namespace")
    ask = "import socket; socket.create_connection(('192.0.2.1', 443), 3)"
    assert "unreachable" in run(sys.executable, "-c", ask, cwd=tmp_path, code=1)


def test_it_installs_without_network_and_decides_a_gate(unpacked: Path, tmp_path: Path) -> None:
    told = run("sh", unpacked / "install.sh", tmp_path / "opt", cwd=tmp_path)
    assert "next:" in told
    kvgate = tmp_path / "opt/bin/kvgate"
    where = "import kvgate, pydantic, sys; sys.stdout.write(kvgate.__file__ + pydantic.__file__)"
    assert run(tmp_path / "opt/bin/python", "-c", where, cwd=tmp_path).count(str(tmp_path)) == 2
    run(kvgate, "init", "site", cwd=tmp_path)
    site = tmp_path / "site"
    run(kvgate, "draft", cwd=site)
    run(kvgate, "check", cwd=site)
    told = run("sh", "-c", f"{kvgate} run --gate G1 || [ $? -le 2 ]", cwd=site)
    assert "report:" in told
    made = next((site / "runs").glob("*/findings.json")).parent
    assert "every byte" in run(kvgate, "verify", made, cwd=site)
    run("sh", unpacked / "install.sh", tmp_path / "opt", cwd=tmp_path)  # again


def test_an_altered_or_added_wheel_is_refused(unpacked: Path, tmp_path: Path) -> None:
    wheel = next((unpacked / "wheels").glob("kvgate-*.whl"))
    added = wheel.with_name("evil-1-py3-none-any.whl")
    shutil.copy(wheel, added)
    assert "evil" in run("sh", unpacked / "install.sh", "opt", cwd=tmp_path, code=1)
    added.unlink()
    with wheel.open("r+b") as file:
        file.seek(1000)
        file.write(b"!")
    told = run("sh", unpacked / "install.sh", "opt", cwd=tmp_path, code=1)
    assert f"wheels/{wheel.name}: FAILED" in told
    assert not (tmp_path / "opt").exists()


def test_another_python_is_told_so(unpacked: Path, tmp_path: Path) -> None:
    (unpacked / "PYTHON").write_text("3.99 linux-x86_64\n")
    lines = (unpacked / "SHA256SUMS").read_text().splitlines(keepends=True)
    kept = [line for line in lines if not line.endswith("  PYTHON\n")]
    (unpacked / "SHA256SUMS").write_text("".join(kept))
    told = run("sh", unpacked / "install.sh", "opt", cwd=tmp_path, code=1)
    assert "for Python 3.99 on linux-x86_64" in told


def test_the_list_of_system_packages_is_that_of_setup(unpacked: Path) -> None:
    listed = (unpacked / "SYSTEM-PACKAGES").read_text()
    assert "fio fio\n" in listed
    assert "sshd openssh-server\n" in listed
    assert "lspci pciutils\n" in listed
