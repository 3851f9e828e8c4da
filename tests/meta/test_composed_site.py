"""The composed site: G1 as shipped finds every planted fault on it, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import compose_site
from composing import defects
from kvgate.cli import main
from kvgate.engine.record import record
from kvgate.engine.workspace import Workspace, default_plan, load_setup
from kvgate.spec.expect import coverage
from kvgate.spec.load import load_inventory
from kvgate.spec.load_bom import load_bom
from kvgate.transport.recording import of_bytes

pytestmark = pytest.mark.whole

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / compose_site.HOME
FAULTLESS = {"node1", "client1", "bmc1", "leaf1"}
MOST_BYTES = 1_500_000


def whole(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Return how G1 ended on the shipped recordings, by the command in the README, and its run."""
    root = tmp_path_factory.mktemp("composed") / "site"
    command = [sys.executable, "-m", "kvgate"]
    env = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    made = subprocess.run([*command, "init", str(root)], capture_output=True, env=env, timeout=60)
    assert made.returncode == 0, made.stderr
    done = subprocess.run(
        [*command, "run", "--gate", "G1", "--inventory", f"{compose_site.HOME}/inventory.yaml"],
        cwd=root,
        env=env,
        capture_output=True,
        text=True,
        timeout=200,
    )
    found = list((root / "runs").glob("*/findings.json"))
    assert found, done.stdout + done.stderr
    return done, found[0].parent


@pytest.fixture(scope="module")
def findings(ran: tuple[Any, Path]) -> list[dict[str, Any]]:
    gates = json.loads((ran[1] / "findings.json").read_bytes())["gates"]
    return [each for gate in gates for each in gate["findings"]]


def planted(kind: str) -> set[tuple[str, str]]:
    return {(each.host, key) for each in defects.DEFECTS for key in getattr(each, kind)}


def told(findings: list[dict[str, Any]], verdict: str) -> set[tuple[str, str]]:
    return {
        (place["host"], each["criterion"])
        for each in findings
        for place in each["hosts"]
        if place["verdict"] == verdict
    }


def test_every_planted_fault_is_found_and_nothing_else(findings: list[dict[str, Any]]) -> None:
    assert told(findings, "fail") == planted("fails")
    assert told(findings, "inconclusive") == planted("undecided")
    faulty = {host for verdict in ("fail", "inconclusive") for host, _ in told(findings, verdict)}
    assert not faulty & FAULTLESS
    assert {host for host, _ in told(findings, "pass")} >= FAULTLESS
    assert all(each["hint"] for each in findings if each["verdict"] != "pass")


def test_it_shows_every_verdict_and_can_not_be_accepted(
    ran: tuple[subprocess.CompletedProcess[str], Path], findings: list[dict[str, Any]]
) -> None:
    done, run = ran
    assert done.returncode == 1, done.stderr
    verdicts = {each["verdict"] for each in findings}
    assert verdicts == {"pass", "fail", "inconclusive", "not_run"}
    mark = "RECORDED, COMPOSED BY HAND"
    assert f"{mark} — can never be signed as an acceptance" in done.stdout
    for name in ("report.html", "report.md", "report.json"):
        assert mark in (run / "report" / name).read_text("utf-8"), name
    page = (run / "report/report.html").read_text("utf-8")
    assert f'class="band" role="note"><span>{mark}' in page  # fixed: on every printed page
    manifest = json.loads((run / "manifest.json").read_bytes())
    assert manifest["recorded"] is True
    assert manifest["composed"] is True
    gate = json.loads((run / "findings.json").read_bytes())["gates"][0]
    assert gate["disposition"] == "rejected"


def test_the_report_shows_at_a_glance_where_what_failed(ran: tuple[Any, Path]) -> None:
    page = (ran[1] / "report/report.html").read_text("utf-8")
    table = page.partition("G1 at a glance")[2].partition("</section>")[0]
    hosts = [row.partition("</svg>")[2].partition("<")[0] for row in table.split("<tr>")[2:]]
    assert hosts[0] == "node2"  # the worst first
    assert set(hosts[-4:]) == FAULTLESS
    assert 'title="PCIe: 3 of 8: fail"' in table
    troubles = page.partition("What did not pass</h2>")[2].partition("</section>")[0]
    assert troubles.count('<h3 class="of">') == 5  # four hosts, and what people have to answer
    assert "criteria of G1 that passed</summary>" in page


@pytest.mark.parametrize(
    "inventory", [SITE / "inventory.yaml", ROOT / "inventory/examples/mi308x-fx100.yaml"]
)
def test_every_criterion_of_g1_is_judged_there(inventory: Path) -> None:
    workspace = Workspace.find(ROOT)
    setup = load_setup(workspace, SITE / "plan.yaml", inventory)
    out = setup.plan.value.scoped_out()
    assert all(out.values())
    left = [
        each.id
        for each in setup.gates["G1"].value.criteria
        if each.id not in out and not coverage(each, setup.inventory.value, setup.expected)
    ]
    assert left == []
    known = {each.id for each in setup.gates["G1"].value.criteria}
    assert {each.partition(".")[0] for each in out} == {"G1"}
    assert set(out) <= known


def test_its_plan_is_taken_unasked_and_no_other_inventory_gets_it() -> None:
    workspace = Workspace.find(ROOT)
    assert default_plan(workspace, SITE / "inventory.yaml") == SITE / "plan.yaml"
    other = ROOT / "inventory/examples/mi308x-fx100.yaml"
    assert default_plan(workspace, other) == ROOT / "gates/plans/rehearsal.yaml"


def test_it_is_what_its_tool_composes_and_small(tmp_path: Path) -> None:
    """What stands in it comes from `tools/compose_site.py`, to be called after a change of G1."""
    compose_site.write(tmp_path)
    made, shipped = whole(tmp_path), whole(SITE)
    given = compose_site.composed()
    assert set(shipped) == {*made, *(f"hosts/{host}.jsonl" for host in given)}
    assert [name for name in made if made[name] != shipped[name]] == []
    for host, answers in given.items():
        known = {
            (each.result.argv, each.result.exit_status, each.result.stdout, each.result.stderr)
            for each in of_bytes(compose_site.recording(host, answers, 1), host).answers
        }
        for each in of_bytes(shipped[f"hosts/{host}.jsonl"], host).answers:
            told = each.result
            assert (told.argv, told.exit_status, told.stdout, told.stderr) in known, told.argv
    assert sum(map(len, shipped.values())) < MOST_BYTES


def test_it_holds_what_g1_asks_and_no_more(ran: tuple[Any, Path], tmp_path: Path) -> None:
    """A recording of its replay is the same recording."""
    workspace = Workspace.find(ran[1])
    record(workspace, ran[1], tmp_path / "again")
    for path in sorted((SITE / "hosts").iterdir()):
        again = (tmp_path / "again/hosts" / path.name).read_bytes()
        assert again.splitlines()[1:] == path.read_bytes().splitlines()[1:], path.name


def test_a_drafted_bill_has_the_devices_parts_too(
    ran: tuple[Any, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(ran[1].parents[1])
    site, out = f"{compose_site.HOME}/inventory.yaml", tmp_path / "drafted.yaml"
    assert main(["bom", "draft", "--inventory", site, "-o", str(out)]) == 0
    drafted = load_bom(out, load_inventory(Path(site))).value
    ordered = load_bom(SITE / "bom.yaml").value
    drafted_serials = {each.item for each in drafted.ordered() if each.serial}
    ordered_serials = {each.item for each in ordered.ordered() if each.serial}
    assert ordered_serials - drafted_serials == {"dimm/EXDIM2009"}  # the one that is missing
    assert {"psu/EXPSU1000", "drive/EXARR001", "switch/EXLEAF1"} <= drafted_serials
