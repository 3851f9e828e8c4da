"""A scratch folder does not outlive a kvgate that was killed, and nobody else's is removed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from kvgate.workloads.base import MARKER

LOCAL = '{"roles": ["serving"], "transport": "local", "name": "here", "scratch": "%s"}'
HOLDER = """
import sys, hashlib, time
from kvgate.spec.inventory import Host
from kvgate.transport.{module} import {kind}
from kvgate.witness import Witness
from kvgate.workloads.base import scratch_folder
host = Host.model_validate_json(sys.argv[1])
transport = {kind}(host)
witness = Witness(host, transport, lambda e: hashlib.sha256(e.stdout).hexdigest())
with scratch_folder(witness, "held", needs_bytes=1) as folder:
    print(folder.path, flush=True)
    time.sleep(120)
"""


def hold(host_json: str, module: str, kind: str) -> subprocess.Popen[str]:
    """Start a process that holds a scratch folder until it is killed."""
    code = HOLDER.format(module=module, kind=kind)
    return subprocess.Popen(
        [sys.executable, "-c", code, host_json], text=True, stdout=subprocess.PIPE
    )


def emptied(folder: Path, *, within_s: float = 30) -> bool:
    """Tell whether the folder is empty within the time."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if not any(folder.iterdir()):
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize("way", ["local", "ssh"])
def test_a_killed_kvgate_leaves_no_scratch_folder(
    tmp_path: Path, way: str, request: pytest.FixtureRequest
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    if way == "ssh":
        host = request.getfixturevalue("ssh_host").model_copy(update={"scratch": str(scratch)})
        holder = hold(host.model_dump_json(exclude_defaults=True), "ssh", "SshTransport")
    else:
        entry = LOCAL % scratch
        holder = hold(entry, "local", "LocalTransport")
    assert holder.stdout is not None
    path = Path(holder.stdout.readline().strip())
    (path / "data").write_bytes(b"x" * 4096)
    holder.kill()
    holder.communicate(timeout=20)
    assert emptied(scratch)


def test_a_folder_whose_marker_is_not_ours_stays(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    entry = (
        f'{{"roles": ["serving"], "transport": "local", "name": "here", "scratch": "{scratch}"}}'
    )
    holder = hold(entry, "local", "LocalTransport")
    assert holder.stdout is not None
    path = Path(holder.stdout.readline().strip())
    (path / MARKER).write_text("somebody else's")
    holder.kill()
    holder.communicate(timeout=20)
    assert not emptied(scratch, within_s=6)
    assert path.is_dir()


def test_killed_the_moment_the_folder_is_there(tmp_path: Path) -> None:
    """Nothing is made that is not guarded: not even a folder whose name nobody was told yet."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    holder = hold(LOCAL % scratch, "local", "LocalTransport")
    end = time.monotonic() + 60
    while not any(scratch.iterdir()) and time.monotonic() < end:
        pass
    assert any(scratch.iterdir())
    holder.kill()
    holder.communicate(timeout=20)
    assert emptied(scratch)
