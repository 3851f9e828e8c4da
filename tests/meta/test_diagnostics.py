"""G1's long diagnostics by whole runs: shipped suite and criteria, tools that are scripts."""

import os
import signal
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.whole

ROOT = Path(__file__).resolve().parents[2]
IDS = {"rvs": "G1.101", "agfhc": "G1.102", "memory": "G1.103", "nvme_self_test": "G1.104"}
NVME = (ROOT / "tests/unit/workloads/fake_nvme.sh").read_text()
DRIVES = ("nvme0n1", "nvme1n1")
ASKED = {
    "rvs": [{"level": 1, "duration": "1 s"}, {"level": 4, "duration": "1 s"}],
    "agfhc": [{"recipe": "all_lvl1", "duration": "1 s"}],
    "memory": [{"size": "16 MiB", "duration": "1 s"}],
    "nvme_self_test": [{"kind": "short", "duration": "1 s"}],
}
SYSFS = """\
nvme0n1/size:15002931888
nvme0n1/hidden:0
nvme0n1/removable:0
nvme0n1/device/serial:SN0
nvme0n1/device/model:M
nvme1n1/size:15002931888
nvme1n1/hidden:0
nvme1n1/removable:0
nvme1n1/device/serial:SN1
nvme1n1/device/model:M
"""
TOOLS = {
    # Which block devices there are is the host's to say; all other scripts are run for real.
    "sh": 'case $2 in *"cd /sys/block"*) cat "$site/sysfs" ;; *) exec /bin/sh "$@" ;; esac',
    "rvs": """
        echo "[RESULT] [1] [gst-fp16] gst 1234 GFLOPS 172400 Target: 172333 met: TRUE"
        [ ! -e "$site/hold-rvs-$2" ] || exec sleep 600.4321""",
    "agfhc": "echo 'Program exited with code AGFHC_SUCCESS [0]'",
    "stressapptest": "echo 'Status: PASS - please verify no corrected errors'",
    "nvme": f'folder=$site/$(basename "$2")\npolls=1\n{NVME}',
}


class Bed:
    """A site whose one host has the tools and drives, each a script that notes how it was run."""

    def __init__(self, site: Any) -> None:
        self.site = site
        self.root: Path = site.root
        gate = yaml.safe_load((ROOT / "gates/g1-arrival.yaml").read_text())
        gate["criteria"] = [each for each in gate["criteria"] if each["id"] in IDS.values()]
        (self.root / "gates/g1-arrival.yaml").write_text(yaml.safe_dump(gate))
        (self.root / "suites/g1").mkdir()
        suite = ROOT / "suites/g1_arrival/test_diagnostics.py"
        (self.root / "suites/g1/test_diagnostics.py").write_bytes(suite.read_bytes())
        (self.root / "sysfs").write_text(SYSFS)
        for name in DRIVES:
            (self.root / name).mkdir()
            (self.root / name / "log").write_text("")
        for tool, script in TOOLS.items():
            self.tool(tool, script)
        host = {
            "roles": ["serving"],
            "transport": "local",
            "tools": {tool: str(self.root / f"bin/{tool}") for tool in TOOLS},
            "declared": {"disks": [{"serial": s, "nvme": True} for s in ("SN0", "SN1")]},
        }
        text = yaml.safe_dump({"inventory": "small", "hosts": {"here": host}})
        (self.root / "inventory/local/this-machine.yaml").write_text(text)
        self.plan(ASKED)

    def tool(self, name: str, script: str) -> None:
        path = self.root / "bin" / name
        path.parent.mkdir(exist_ok=True)
        log = "" if name in ("sh", "nvme") else f'echo "$*" >>"$site/ran-{name}"\n'
        path.write_text(f"#!/bin/sh\nsite={self.root}\n{log}{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def plan(self, asked: dict[str, Any] | None, more: str = "") -> None:
        self.site.plan("G1", more=more)
        path = self.root / "gates/plans/rehearsal.yaml"
        workloads = yaml.safe_dump({"diagnostics": asked} if asked else {}, default_flow_style=True)
        text = path.read_text().replace("workloads: {}", f"workloads: {workloads.strip()}")
        path.write_text(text.replace("give_up_after: 60 s", "give_up_after: 2 h"))

    def ran(self, tool: str) -> list[str]:
        path = self.root / f"ran-{tool}"
        return path.read_text().splitlines() if path.exists() else []

    def commands(self, drive: str) -> list[str]:
        path = self.root / drive / "commands"
        return path.read_text().splitlines() if path.exists() else []

    def verdicts(self) -> dict[str, str]:
        found = self.site.findings()
        return {name: found[key]["verdict"] for name, key in IDS.items()}


@pytest.fixture
def bed(site: Any) -> Bed:
    return Bed(site)


def until(what: Callable[[], object]) -> None:
    """Wait until `what` holds."""
    end = time.monotonic() + 120
    while not what():
        assert time.monotonic() < end
        time.sleep(0.05)


def running(words: str) -> bool:
    """Tell whether a process runs whose command line is `words`."""
    wanted = words.replace(" ", "\0") + "\0"
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().decode("utf-8", "replace") == wanted:
                return True
        except OSError:  # it has ended meanwhile
            continue
    return False


def killed(started: Any) -> None:
    """Kill a `kvgate run` and the process of its tests with SIGKILL, both at once."""
    children = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
    for pid in [started.pid, *map(int, children)]:
        os.kill(pid, signal.SIGKILL)
    started.communicate(timeout=90)


def test_killed_and_interrupted_it_goes_on_and_repeats_nothing(bed: Bed) -> None:
    """Interrupted while a tool runs, and killed while drives test themselves."""
    (bed.root / "hold-rvs-4").touch()
    started = bed.site.start("run")
    until(lambda: running("sleep 600.4321"))
    started.send_signal(signal.SIGINT)
    started.communicate(timeout=220)
    assert started.returncode == 3
    assert not running("sleep 600.4321")
    run = bed.site.newest().name
    (bed.root / "hold-rvs-4").unlink()

    for drive in DRIVES:
        (bed.root / drive / "hang").touch()
    started = bed.site.start("run", "--resume", run)
    until(lambda: all(map(bed.commands, DRIVES)))
    killed(started)
    for drive in DRIVES:
        (bed.root / drive / "hang").unlink()

    done = bed.site.kvgate("run", "--resume", run)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(bed.site.runs()) == 1
    assert bed.ran("rvs") == ["-r 1", "-r 4", "-r 4"]
    assert bed.ran("agfhc") == ["-r all_lvl1"]
    assert bed.ran("stressapptest") == ["-W -s 1 -M 16"]
    for drive in DRIVES:
        assert bed.commands(drive) == [f"/dev/{drive} -s 0x1"]  # it was picked up
    assert set(bed.verdicts().values()) == {"pass"}
    finding = bed.site.findings()[IDS["nvme_self_test"]]
    assert {host["item"] for host in finding["hosts"]} == {"SN0", "SN1"}
    assert all(host["evidence"] for host in finding["hosts"])
    assert bed.site.kvgate("verify", run).returncode == 0


def test_what_fails_is_missing_or_not_asked_for_is_said(bed: Bed) -> None:
    bed.plan({name: asked for name, asked in ASKED.items() if name != "memory"})
    bed.tool("rvs", "echo 'gst GFLOPS 99000 Target: 172333 met: FALSE'")
    (bed.root / "bin/agfhc").unlink()
    (bed.root / "nvme1n1/result").write_text("7\n")
    assert bed.site.kvgate("run").returncode == 1
    assert bed.verdicts() == {
        "rvs": "fail",
        "agfhc": "not_run",
        "memory": "not_run",
        "nvme_self_test": "fail",
    }
    found = {name: bed.site.findings()[key] for name, key in IDS.items()}
    assert "agfhc' is not there" in found["agfhc"]["because"]
    assert "the plan asks for none (workloads.diagnostics.memory)" in found["memory"]["because"]
    places = {host["item"]: host["verdict"] for host in found["nvme_self_test"]["hosts"]}
    assert places == {"SN0": "pass", "SN1": "fail"}
    out = "inventory/recorded"
    assert bed.site.kvgate("record", bed.site.newest().name, "--out", out).returncode == 0
    (bed.root / "bin/rvs").unlink()  # a replay asks nobody
    replay = bed.site.kvgate("run", "--inventory", f"{out}/inventory.yaml")
    assert replay.returncode == 1, replay.stdout + replay.stderr
    again = {name: bed.site.findings()[key] for name, key in IDS.items()}
    assert {n: f["verdict"] for n, f in again.items()} == {
        n: f["verdict"] for n, f in found.items()
    }
    assert again["rvs"]["because"] == found["rvs"]["because"]


def test_the_plan_tells_how_long_it_takes(bed: Bed) -> None:
    bed.plan({"rvs": [{"level": 4, "duration": "1 h"}], "memory": ASKED["memory"]})
    told = bed.site.kvgate("plan").stdout
    assert "about 1 h 6 s" in " ".join(told.split())
    for line in ("rvs level-4: about 1 h", "memory 16-mib: about 1 s"):
        assert line in " ".join(told.split())
