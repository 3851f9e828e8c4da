"""A controller that is killed while a diagnostic runs leaves nothing of it, and goes on."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

PROGRAM = """\
import sys
from pathlib import Path
from kvgate.model.quantity import Quantity
from kvgate.spec.diagnostics import RvsLevel
from kvgate.spec.inventory import Host
from kvgate.store.run import RunWriter
from kvgate.transport.local import LocalTransport
from kvgate.witness import Witness
from kvgate.workloads import diagnostics

path = Path(sys.argv[1])
host = Host.model_validate({"roles": ["serving"], "transport": "local"})
host = host.model_copy(update={"name": "here"})
level = diagnostics.rvs(RvsLevel(level=4, duration=Quantity.of(60, "s")))
with (RunWriter.open(path) if path.exists() else RunWriter.create(path, {"run": "r"}, {})) as run:
    if "G1/rvs" not in run.finished_blocks():
        run.begin_block("G1/rvs")
        found = diagnostics.run(Witness(host, LocalTransport("here"), run.evidence), level)
        print({each.name: each.value for each in found.readings}["diagnostic.passed"])
        run.end_block("G1/rvs")
"""
RVS = """\
#!/bin/sh
site=${0%/bin/rvs}
echo "$*" >>"$site/ran"
echo "$$" >"$site/rvs.pid"
[ ! -e "$site/hold" ] || exec sleep 600.8642
echo 'gst GFLOPS 172400 Target: 172333 met: TRUE'
"""


def until(what: Callable[[], object]) -> None:
    end = time.monotonic() + 120
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


def runs(pid: int) -> bool:
    """Tell whether the process is still there, and not only its exit status."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return told.rpartition(")")[2].split()[0] not in "ZX"


def controller(site: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(site / "run")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PATH": f"{site / 'bin'}:{os.environ['PATH']}"},
    )


def test_rvs_ends_with_a_controller_that_is_killed_and_runs_again_when_it_goes_on(
    tmp_path: Path,
) -> None:
    tool, told = tmp_path / "bin/rvs", tmp_path / "rvs.pid"
    tool.parent.mkdir()
    tool.write_text(RVS)
    tool.chmod(0o755)
    (tmp_path / "hold").touch()
    with controller(tmp_path) as first:
        until(lambda: told.exists() and told.read_text().strip())
        rvs = int(told.read_text())
        assert runs(rvs)
        first.send_signal(signal.SIGKILL)
        first.wait(60)
    until(lambda: not runs(rvs))  # its leash ends it
    journal = (tmp_path / "run/journal.jsonl").read_text()
    assert '"block_end"' not in journal

    (tmp_path / "hold").unlink()
    with controller(tmp_path) as second:
        out, _ = second.communicate(timeout=120)
    assert (second.returncode, out) == (0, "True\n")
    assert (tmp_path / "ran").read_text() == "-r 4\n-r 4\n"
    journal = (tmp_path / "run/journal.jsonl").read_text()
    assert journal.count('"kind":"block_discarded"') == 1  # what was torn counts for nothing
    assert journal.count('"kind":"block_end"') == 1
    with controller(tmp_path) as third:
        out, _ = third.communicate(timeout=120)
    assert (third.returncode, out) == (0, "")  # what is finished is not run again
