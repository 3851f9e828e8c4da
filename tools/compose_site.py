"""Writes inventory/recorded/mi308x-composed anew: a whole site that never existed, with faults.

`.venv/bin/python tools/compose_site.py [DIR]`. From composed answers it makes recordings, runs the
shipped G1 on them in a workspace of its own, and keeps of each host what was asked, as `kvgate
record` does. The same sources make the same bytes. To be called after every change of what G1 asks.
"""

from __future__ import annotations

import copy
import datetime
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from composing import defects, devices, site
from composing.site import NOW, Answers, Node
from kvgate.transport.base import CommandResult
from kvgate.transport.recording import Answered, Recording, of_bytes, to_bytes

ROOT = Path(__file__).resolve().parents[1]
HOME = "inventory/recorded/mi308x-composed"
EXAMPLE = ROOT / "inventory/examples/mi308x-fx100.yaml"
SOURCE = "composed by tools/compose_site.py, see SOURCES.md"
MOST_ASKED = 16  # so often one command is answered while it is found out how often G1 asks it
SHIPPED = ("gates", "suites", "inventory", "templates")
HEAD = """\
# A site that never existed, composed to show what a full G1 finds: tools/compose_site.py wrote it,
# from inventory/examples/mi308x-fx100.yaml, a second node and planted faults. SOURCES.md tells
# which facts are published, and where. kvgate run --gate G1 --inventory {home}/inventory.yaml
"""
PLAN = """\
# The plan of the composed site: G1 by the limits of an acceptance, which no recording ever is.
plan: composed
title: G1 on a composed MI308X site
profile: acceptance
seed: 20261130

gates:
  - {gate: G1, suite: suites/g1_arrival, give_up_after: 5 min}

workloads: {}

scope_out:
  - criteria: [G1.101, G1.102, G1.103, G1.104]
    reason: no recording shows hours of load; a site's own plan asks for diagnostics
"""
LEAF = {"leaf1": ("ens0f0np0", "ens2f0np0", "A1"), "leaf2": ("ens1f0np0", "ens3f0np0", "B1")}


def cabling() -> dict[str, dict[str, tuple[str, str]]]:
    """Return switch → port → who should be there, and by which port."""
    return {
        leaf: {
            "Ethernet0": ("node1", first),
            "Ethernet4": ("node1", second),
            "Ethernet8": ("node2", first),
            "Ethernet12": ("node2", second),
            "Ethernet16": ("client1", first),
            "Ethernet20": ("array1", last),
        }
        for leaf, (first, second, last) in LEAF.items()
    }


def _as_cabled() -> dict[str, dict[str, tuple[str, str]]]:
    """Return the same as it is: two cables of node2 are in each other's port of leaf2."""
    found = cabling()
    leaf = found["leaf2"]
    leaf["Ethernet8"], leaf["Ethernet12"] = leaf["Ethernet12"], leaf["Ethernet8"]
    return found


def _node(name: str, number: int, *, serving: bool) -> Node:
    seen = {
        port: (leaf, at)
        for leaf, ports in _as_cabled().items()
        for at, (host, port) in ports.items()
        if host == name
    }
    return Node(name=name, number=number, serving=serving, cabling=dict(sorted(seen.items())))


def composed() -> dict[str, Answers]:
    """Return host → everything that it answers."""
    nodes = [_node("client1", 3, serving=False)]
    nodes += [_node(f"node{n}", n, serving=True) for n in (1, 2)]
    found = {node.name: site.answers(node) for node in nodes}
    found["node2"] = defects.on_node(found["node2"], nodes[2])
    array = devices.array_state()
    defects.on_array(array)
    found["array1"] = devices.array_answers(array)
    for name, ports in _as_cabled().items():
        leaf = devices.switch_state(name, ports)
        if name == "leaf2":
            defects.on_leaf2(leaf)
        found[name] = devices.switch_answers(leaf)
    for number in (1, 2):
        bmc = devices.bmc_state(number)
        if number == 2:
            defects.on_bmc2(bmc)
        found[f"bmc{number}"] = devices.bmc_answers(bmc)
    return found


def inventory() -> dict[str, Any]:
    """Return the site: the example with a second node and its BMC, all of them recordings."""
    told: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text("utf-8"))
    hosts: dict[str, Any] = told["hosts"]
    for beyond in ("nvmeof", "fabric"):  # G2's, which no recording of this site tells
        del hosts["node1"]["declared"][beyond]
    hosts["node2"] = _second(hosts["node1"])
    hosts["bmc2"] = _second(hosts["bmc1"]) | {"of": "node2"}
    for nic in hosts["node2"]["declared"]["nics"]:
        leaf, port = nic["neighbour"].split()
        nic["neighbour"] = f"{leaf} Ethernet{int(port.removeprefix('Ethernet')) + 8}"
    for leaf in LEAF:
        ports = hosts[leaf]["declared"]["ports"]
        more = [
            {**port, "name": name, "neighbour": port["neighbour"].replace("node1", "node2")}
            for port, name in zip(
                copy.deepcopy(ports[:2]), ("Ethernet8", "Ethernet12"), strict=True
            )
        ]
        ports[2:2] = more
    kept = ("of", "adapter", "sudo", "tools", "baseline", "declared")
    order = ("client1", "node1", "node2", "bmc1", "bmc2", "array1", "leaf1", "leaf2")
    return {
        "inventory": "mi308x-composed",
        "title": "Composed: two MI308X nodes with BMCs, FX100 array, client, two switches",
        "composed": True,
        "baseline": "baseline.yaml",
        "bom": "bom.yaml",
        "hosts": {
            name: {
                "roles": hosts[name]["roles"],
                "transport": "recorded",
                "recording": f"hosts/{name}.jsonl",
                **{key: hosts[name][key] for key in kept if key in hosts[name]},
            }
            for name in order
        },
    }


def _second(value: Any) -> Any:
    """Return what is told of node1 as it is of node2, with serial numbers of its own."""
    if isinstance(value, dict):
        return {key: _second(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_second(each) for each in value]
    if not isinstance(value, str):
        return value
    if value.startswith("EX") and value[2:5].isalpha() and value[5:6] == "1":
        return f"{value[:5]}2{value[6:]}"
    return value.replace("02:00:00:00:01:", "02:00:00:00:02:").replace("node1", "node2")


def bom(inventory_told: dict[str, Any]) -> dict[str, Any]:
    """Return what was ordered: the example's bill, and the same once more for node2."""
    path = ROOT / "inventory" / yaml.safe_load(EXAMPLE.read_text("utf-8"))["bom"]
    told: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    first = [line for line in told["lines"] if line.get("where", {}).get("host") == "node1"]
    return {
        **told,
        "bom": inventory_told["inventory"],
        "title": "What was ordered for the composed site",
        "lines": [*first, *_second(first), *(x for x in told["lines"] if x not in first)],
    }


def baseline() -> dict[str, Any]:
    """Return the shipped baselines that the site cites; the VBIOS is agreed on exactly."""
    told: dict[str, Any] = yaml.safe_load((ROOT / "inventory/baseline.yaml").read_text("utf-8"))
    kept = {name: told["baselines"][name] for name in ("serving-mi308x", "client", "bmc")}
    for row in kept["serving-mi308x"]["models"]:
        if row["kind"] == "gpu":
            row["settings"]["gpu.vbios"] = {"equals": site.VBIOS}
    each = {"kind": "gpu", "model": site.GPU, "settings": {"part.firmware": {"equals": site.VBIOS}}}
    kept["serving-mi308x"]["models"].append(each)
    return {"baselines": kept}


def recording(host: str, answers: Answers, times: int) -> bytes:
    """Return a recording in which each answer is there so many `times`, also by sudo."""
    given = []
    for argv, told in answers.items():
        status, out, err = (0, told, b"") if isinstance(told, bytes) else told
        given += [(words, status, out, err) for words in (argv, ("sudo", "-n", *argv))]
    answered = tuple(
        Answered(
            result=CommandResult(
                host=host,
                argv=words,
                exit_status=status,
                stdout=out,
                stderr=err,
                started_at=NOW + time * datetime.timedelta(microseconds=1),
                elapsed_s=site.ELAPSED_S,
            )
        )
        for words, status, out, err in given
        for time in range(times)
    )
    return to_bytes(Recording(host=host, source=SOURCE, answers=answered))


def write(folder: Path) -> None:
    """Write inventory, bill of materials, baseline, plan and sources into `folder`."""
    site_told = inventory()
    for name, value in (
        ("inventory", site_told),
        ("bom", bom(site_told)),
        ("baseline", baseline()),
    ):
        text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100)
        (folder / f"{name}.yaml").write_text(HEAD.format(home=HOME) + text, "utf-8")
    (folder / "plan.yaml").write_text(PLAN, "utf-8")
    told = (ROOT / "tools/composing/SOURCES.md").read_text("utf-8")
    rows = [
        f"| {each.host} | {each.what} | {', '.join(each.fails)} | {', '.join(each.undecided)} |\n"
        for each in defects.DEFECTS
    ]
    (folder / "SOURCES.md").write_text(told + "".join(rows), "utf-8")


def compose(out: Path) -> None:
    """Write the whole composed site into `out`; what it holds of an earlier one is replaced."""
    with tempfile.TemporaryDirectory(prefix="kvgate-composing-") as folder:
        root = Path(folder)
        for name in SHIPPED:
            ignore = shutil.ignore_patterns("local", "__pycache__", "recorded", "runs")
            shutil.copytree(ROOT / name, root / name, ignore=ignore)
        (root / "runs").mkdir()
        home = root / HOME
        (home / "hosts").mkdir(parents=True)
        write(home)
        for host, answers in composed().items():
            (home / f"hosts/{host}.jsonl").write_bytes(recording(host, answers, MOST_ASKED))
        _kvgate(root, "run", "--gate", "G1", "--inventory", f"{HOME}/inventory.yaml", may_fail=True)
        run = next(each.parent for each in (root / "runs").glob("*/findings.json"))
        _kvgate(root, "record", run.name, "--out", "made")
        (out / "hosts").mkdir(parents=True, exist_ok=True)
        write(out)
        for path in sorted((root / "made/hosts").glob("*.jsonl")):
            made = of_bytes(path.read_bytes(), path.name)
            made = Recording(host=made.host, source=SOURCE, answers=made.answers)
            (out / "hosts" / path.name).write_bytes(to_bytes(made))


def _kvgate(root: Path, *arguments: str, may_fail: bool = False) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kvgate", *arguments],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode not in ((0, 1, 2) if may_fail else (0,)):
        sys.exit(f"kvgate {arguments[0]} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def main() -> int:
    """Compose the site in its place, or in the folder named."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / HOME
    compose(out)
    files = [each for each in out.rglob("*") if each.is_file()]
    print(f"{out}: {len(files)} files, {sum(each.stat().st_size for each in files):,} B")
    return 0


if __name__ == "__main__":
    sys.exit(main())
