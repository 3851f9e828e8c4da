"""A delivery with every fault planted, on composed recorded hosts, judged by the shipped G1."""

from __future__ import annotations

import datetime
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from composing import parts as composed_parts
from kvgate.transport.base import CommandResult
from kvgate.transport.recording import Answered, Recording, to_bytes

pytestmark = pytest.mark.whole

ROOT = Path(__file__).resolve().parents[2]
NOW = datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.UTC)
HOSTS = ("node1", "node2")
PARTS = ("G1.121", "G1.122", "G1.123", "G1.145")


def own(host: str) -> dict[str, Any]:
    """Return what `composed_parts.answers` takes so that each host has serials of its own."""
    found = {k: (f"{host}-{v[0]}", *v[1:]) for k, v in composed_parts.DRIVES.items()}
    gpus = {at: f"{host}-{serial}" for at, serial in composed_parts.GPUS.items()}
    return {
        "found": found,
        "gpus": gpus,
        "dimms": [f"{host}-{each}" for each in composed_parts.DIMMS],
    }


def recording(host: str, answers: Mapping[tuple[str, ...], bytes]) -> bytes:
    said = {("cat", "/etc/machine-id"): b"%032x\n" % (16 + HOSTS.index(host)), **answers}
    return to_bytes(
        Recording(
            host=host,
            source="composed for a test",
            answers=tuple(
                Answered(
                    result=CommandResult(
                        host=host,
                        argv=argv,
                        exit_status=0,
                        stdout=told,
                        stderr=b"",
                        started_at=NOW,
                        elapsed_s=0.01,
                    )
                )
                for argv, told in said.items()
                for _ in range(6)  # who it is, and its parts, each by several probes
            ),
        )
    )


class Delivery:
    """A workspace with the shipped G1, two composed hosts and what was ordered for them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("gates", "suites/g1_arrival", "templates", "inventory"):
            ignore = shutil.ignore_patterns("local", "__pycache__", "recorded")
            shutil.copytree(ROOT / name, root / name, ignore=ignore)
        (root / "runs").mkdir()
        self.lines: list[dict[str, Any]] = []
        self.hosts = {host: own(host) for host in HOSTS}
        for host in HOSTS:
            self.order(host)

    def order(self, host: str) -> None:
        """Order for `host` what `own` says it has."""
        mine = own(host)
        where = {"host": host}
        drives = [
            {"serial": serial, "slot": place} for serial, _, place, _ in mine["found"].values()
        ]
        same = {"quantity": 2, "where": where}
        self.lines += [
            {"kind": "drive", "model": "EX-7T68", "units": drives, **same},
            {"kind": "gpu", "model": "MI308X", "serials": list(mine["gpus"].values()), **same},
            {"kind": "dimm", "model": "D64", "serials": mine["dimms"], **same},
            {"kind": "drive", "model": "SATA-DOM", "quantity": 1, "where": where},
        ]

    def run(self, *, baseline: str = "") -> dict[str, Any]:
        """Run G1's criteria on parts, and return criterion → finding."""
        self._write(baseline)
        out = [
            each["id"]
            for each in yaml.safe_load((self.root / "gates/g1-arrival.yaml").read_text())[
                "criteria"
            ]
            if each["id"] not in PARTS
        ]
        plan = {
            "plan": "parts",
            "title": "parts",
            "profile": "acceptance",
            "seed": 1,
            "gates": [{"gate": "G1", "suite": "suites/g1_arrival", "give_up_after": "120 s"}],
            "workloads": {},
            "scope_out": [{"criteria": out, "reason": "not about parts"}],
        }
        (self.root / "gates/plans/parts.yaml").write_text(yaml.safe_dump(plan))
        for path in (self.root / "suites/g1_arrival").glob("test_*.py"):
            if path.name != "test_parts.py":
                path.unlink()
        done = self.kvgate("run", "--plan", "gates/plans/parts.yaml", "--inventory", self.inventory)
        runs = list((self.root / "runs").glob("*/findings.json"))
        assert runs, done.stdout + done.stderr
        found = json.loads(runs[-1].read_bytes())
        return {f["criterion"]: f for gate in found["gates"] for f in gate["findings"]}

    def _write(self, baseline: str) -> None:
        (self.root / "inventory/hosts").mkdir()
        site: dict[str, Any] = {"inventory": "parts", "bom": "bom.yaml", "hosts": {}}
        for host, told in self.hosts.items():
            answers = composed_parts.answers(**told)
            (self.root / f"inventory/hosts/{host}.jsonl").write_bytes(recording(host, answers))
            entry = {
                "roles": ["serving"],
                "transport": "recorded",
                "declared": composed_parts.DECLARED,
            }
            site["hosts"][host] = {**entry, "recording": f"hosts/{host}.jsonl", "baseline": "b"}
        rows = (
            baseline or "{kind: drive, model: EX-7T68, settings: {part.firmware: {equals: FW01}}}"
        )
        text = f"baselines:\n  b:\n    title: b\n    settings: {{}}\n    models: [{rows}]\n"
        (self.root / "inventory/b.yaml").write_text(text)
        site["baseline"] = "b.yaml"
        (self.root / self.inventory).write_text(yaml.safe_dump(site))
        bom = {"bom": "parts", "lines": self.lines}
        (self.root / "inventory/bom.yaml").write_text(yaml.safe_dump(bom))

    inventory = "inventory/site.yaml"

    def kvgate(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a kvgate verb in the workspace to its end."""
        return subprocess.run(
            [sys.executable, "-m", "kvgate", *words],
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=200,
            stdin=subprocess.DEVNULL,
        )


@pytest.fixture
def delivery(tmp_path: Path) -> Delivery:
    """Return a delivery in which all is as ordered."""
    return Delivery(tmp_path)


def said(finding: Mapping[str, Any]) -> dict[str, str]:
    """Return item → measured text (or the reason for none) of what does not hold."""
    return {
        each["item"] or each["host"]: each["measured"] or each["because"]
        for each in finding["hosts"]
        if each["verdict"] != "pass"
    }


def newer(delivery: Delivery, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let node2's second drive tell another firmware."""
    answers = composed_parts.answers
    theirs = delivery.hosts["node2"]["found"]

    def changed(**given: Any) -> Any:
        made = answers(**given)
        if given["found"] is theirs:
            told = made[composed_parts.parts_read.NVME]
            made |= {
                composed_parts.parts_read.NVME: told.replace(
                    b"nvme1/firmware_rev:FW01", b"nvme1/firmware_rev:FW011"
                )
            }
        return made

    monkeypatch.setattr(composed_parts, "answers", changed)


def test_as_ordered_passes_one_firmware_differs_and_people_have_to_look(
    delivery: Delivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer(delivery, monkeypatch)
    same = "{part.firmware: {same_on_all_hosts: true}}"
    found = delivery.run(baseline=f"{{kind: drive, model: EX-7T68, settings: {same}}}")
    assert found["G1.121"]["verdict"] == "pass", found["G1.121"]["because"]
    assert len(found["G1.121"]["hosts"]) == 14
    assert all(each["evidence"] for each in found["G1.121"]["hosts"])
    assert found["G1.122"]["verdict"] == "pass"
    assert found["G1.123"]["verdict"] == "fail"
    assert found["G1.123"]["because"] == (
        "3 items on 2 hosts agree on FW01, node2 (drive/NODE2-SN-D2) differs: FW011"
    )
    manual = found["G1.145"]
    assert (manual["verdict"], manual["because"]) == (
        "not_run",
        "people answer it, and nobody has answered yet",
    )
    assert "kvgate attest RUN" in manual["hint"]
    run = next((delivery.root / "runs").glob("*/manifest.json")).parent
    assert (run / "inputs/bom.yaml").is_file()
    assert delivery.kvgate("judge", run.name).returncode == 1
    report = (run / "report/report.md").read_text("utf-8")
    assert "nobody has answered yet" in report
    bom = delivery.kvgate("bom", "diff", "inventory/bom.yaml", run.name)
    assert "added: nic SN-N1 in node1" in bom.stdout
    assert bom.returncode == 1


def test_every_planted_deviation_is_named(delivery: Delivery) -> None:
    """Missing, swapped, wrong model, unknown, dead, surplus and not told, all in one delivery."""
    node1, node2 = delivery.hosts["node1"], delivery.hosts["node2"]
    drives1, drives2 = node1["found"], node2["found"]
    drives1["nvme0"], drives2["nvme0"] = drives2["nvme0"], drives1["nvme0"]  # swapped
    serial, _, place, state = drives1["nvme1"]
    drives1["nvme1"] = (serial, "EX-OTHER", place, state)  # another model
    drives2["nvme1"] = (*drives2["nvme1"][:3], "dead")
    drives1["nvme5"] = ("NOBODYS", "EX-7T68", "0000:65:00.0", "live")  # surplus
    del node1["gpus"]["0000:15:00.0"]
    node1["dead_gpus"] = ["0000:15:00.0"]  # on the bus, without a driver
    del node2["gpus"]["0000:15:00.0"]  # missing
    node1["dimms"][1] = "STRANGER"
    for line in delivery.lines:
        if line["kind"] == "dimm" and line["where"]["host"] == "node2":
            line["kind"] = "fan"  # nothing on the host tells of fans
    found = delivery.run()
    assert found["G1.121"]["verdict"] == "fail"
    assert said(found["G1.121"]) == {
        "drive/NODE1-SN-D1": "swapped: it is in node2 11, ordered for node1 slot 0000:61:00.0",
        "drive/NODE2-SN-D1": "swapped: it is in node1 11, ordered for node2 slot 0000:61:00.0",
        "drive/NODE1-SN-D2": "wrong_model: node1 12 has EX-OTHER, ordered: EX-7T68",
        "drive/NODE2-SN-D2": "doa: node2 12: its controller is 'dead'",
        "gpu/NODE1-SN-G2": "doa: node1 0000:15:00.0: no driver drives it",
        "gpu/NODE2-SN-G2": "missing: no gpu with serial number NODE2-SN-G2 is in node2",
        "dimm/NODE1-SN-M2": "serial_unknown: dimm STRANGER in node1 DIMM 1 is not on the list",
        "fan/NODE2-SN-M1": "not_known: node2: nothing there tells of parts of kind fan",
        "fan/NODE2-SN-M2": "not_known: node2: nothing there tells of parts of kind fan",
    }
    unknown = [each for each in found["G1.121"]["hosts"] if each["item"].startswith("fan/")]
    assert {each["verdict"] for each in unknown} == {"inconclusive"}
    assert found["G1.122"]["verdict"] == "fail"
    surplus = said(found["G1.122"])["node1"]
    assert "dimm STRANGER in node1 DIMM 1" in surplus
    assert "drive NOBODYS in node1 0000:65:00.0" in surplus
