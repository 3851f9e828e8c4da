"""docs/schema/ is made from the models, and describes what people write and kvgate writes."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from kvgate.engine import content
from kvgate.engine.judging import judge_stored
from kvgate.engine.start import create_run
from kvgate.engine.workspace import Workspace, load_setup
from kvgate.errors import SpecError
from kvgate.report.render import render
from kvgate.spec import load, yamlfile
from kvgate.store.reader import RunReader
from kvgate.store.statement import Statement, now_text

ROOT = Path(__file__).resolve().parents[2]
SITE = Path(__file__).resolve().parent / "site"
KINDS = (
    *("gate", "plan", "inventory", "baseline", "bom", "adapter", "claims", "published"),
    *("run", "findings", "report", "statement"),
)


def schema(kind: str) -> Any:
    return json.loads((ROOT / "docs/schema" / f"{kind}.schema.json").read_bytes())


def problems(kind: str, value: Any) -> list[str]:
    checker = jsonschema.Draft202012Validator(schema(kind))
    return [f"{list(error.path)}: {error.message}" for error in checker.iter_errors(value)]


def value(path: Path) -> Any:
    return yamlfile.read(path).value


def written() -> Iterator[tuple[str, Path]]:
    """Yield (kind, file) of everything that people wrote in this repository."""
    for path in sorted((ROOT / "gates").glob("g*.yaml")):
        yield "gate", path
    for path in sorted((ROOT / "gates/plans").glob("*.yaml")):
        yield "plan", path
    for path in sorted((ROOT / "inventory/examples").glob("*.yaml")):
        yield ("claims" if path.name.startswith("claims-") else "inventory"), path
    yield "published", ROOT / "src/kvgate/kv/published.yaml"
    yield "baseline", ROOT / "inventory/baseline.yaml"
    for path in sorted((ROOT / "inventory").glob("bom-*.yaml")):
        yield "bom", path
    for path in sorted((ROOT / "inventory/adapters").glob("*.yaml")):
        yield "adapter", path
    for path in sorted((SITE / "gates").glob("*.yaml")):
        yield "gate", path
    for kind in ("plan", "inventory", "baseline"):
        yield kind, SITE / f"{kind}.yaml"


def test_the_schemas_are_current_and_sound() -> None:
    spec = importlib.util.spec_from_file_location("schema", ROOT / "tools" / "schema.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    found = {path.name: path.read_text("ascii") for path in tool.FOLDER.glob("*.json")}
    assert found == tool.texts(), "write them anew: .venv/bin/python tools/schema.py"
    assert set(found) == {f"{kind}.schema.json" for kind in KINDS}
    for kind in KINDS:
        jsonschema.Draft202012Validator.check_schema(schema(kind))


@pytest.mark.parametrize(("kind", "path"), list(written()), ids=lambda each: Path(each).name)
def test_what_people_wrote_is_as_described(kind: str, path: Path) -> None:
    assert problems(kind, value(path)) == []


def test_a_drafted_plan_on_a_base_is_as_described() -> None:
    plan = {"plan": "x", "base": "gates/plans/rehearsal.yaml", "scope_out": []}
    assert problems("plan", plan) == []
    assert problems("plan", {"plan": "x"})
    assert problems("plan", {**plan, "scope_outs": []})


def test_golden_runs_are_as_described(golden: Path) -> None:
    for kind, name in (
        ("run", "manifest.json"),
        ("findings", "findings.json"),
        ("report", "report/report.json"),
    ):
        assert problems(kind, json.loads((golden / name).read_bytes())) == []


def test_a_report_made_today_is_as_described(golden: Path) -> None:
    made = render(
        RunReader(golden),
        judge_stored(golden),
        formats=("json",),
        templates=ROOT / "templates",
    )
    assert problems("report", json.loads(made["report.json"])) == []


def test_a_run_begun_today_is_as_described(tmp_path: Path) -> None:
    content.lay_out(tmp_path)
    inventory = tmp_path / "inventory/here.yaml"
    inventory.write_text("inventory: x\nhosts:\n  a: {roles: [serving], transport: local}\n")
    workspace = Workspace.find(tmp_path)
    setup = load_setup(workspace, tmp_path / "gates/plans/rehearsal.yaml", inventory)
    run = create_run(workspace, setup, gates=["G1"], command=["kvgate", "run"])
    assert problems("run", RunReader(run).manifest) == []


def test_a_statement_signed_today_is_as_described() -> None:
    of = {"seq": 1, "head": "0" * 64, "at": "the opening of G1"}
    made = Statement("journal_head", "r", "buyer", "", "", "p", now_text(), "", of)
    assert problems("statement", json.loads(made.content())) == []
    assert problems("statement", json.loads(made.content()) | {"more": 1})


HOST = {"roles": ["serving"], "address": "192.0.2.1"}
BROKEN: list[tuple[str, str, str]] = [
    (
        "gate",
        "    limits: {acceptance: {at_most: 5 %}}",
        "    limits: {acceptance: {at_mots: 5 %}}",
    ),
    (
        "gate",
        "    limits: {acceptance: {at_most: 5 %}}",
        "    limits: {acceptance: {at_most: 5 %, at_least: 1 %}}",
    ),
    ("gate", "    limits: {acceptance: {at_most: 5 %}}", "    limits: {acceptance: {}}"),
    ("gate", "{at_most: 5 %}", "{at_most: 5 apples}"),
    ("gate", "{at_most: 5 %}", "{at_most: 5.5}"),
    ("gate", "tolerance: 0.5 %", "tolerance: 0.5 ms"),
    ("gate", "    hosts: serving", "    hosts: everyone"),
    ("gate", "  - id: G1.1\n", "  - id: G1\n"),
    ("gate", "question: Did what we ordered arrive?\n", ""),
    ("inventory", "roles: [serving]", "roles: [server]"),
    ("inventory", "port: 2222", "port: 70000"),
    ("inventory", "key: {file: ~/.ssh/kvgate}", "key: {file: a, env: b}"),
    ("inventory", "memory: 1536 GiB", "memory: 1536GiB"),
    ("inventory", "connect_timeout: 1500 ms", "connect_timeout: 1500 B"),
    ("inventory", "user: kvtest", "password: kvtest"),
    ("plan", "ramp: 5 s", "ramp: 5"),
    ("plan", "seed: 1", "seed: '1'"),
    ("plan", "rounds: 2", "rounds: 0"),
    ("baseline", "{version_at_least: 6.5.0-14}", "{version_at_least: 6.5.0-14, equals: 6}"),
    ("baseline", "title: Serving nodes", "name: Serving nodes"),
]


@pytest.mark.parametrize(("kind", "old", "new"), BROKEN)
def test_what_kvgate_refuses_the_schema_refuses(kind: str, old: str, new: str) -> None:
    """Mistakes within one file, that is; what shows only across files is `kvgate check`'s."""
    path = SITE / ("gates/g1.yaml" if kind == "gate" else f"{kind}.yaml")
    text = path.read_text("utf-8")
    assert old in text
    broken = yamlfile.parse(text.replace(old, new).encode(), path.name)
    with pytest.raises(SpecError):
        refuse(kind, broken)
    assert problems(kind, broken.value)


def refuse(kind: str, file: yamlfile.YamlFile) -> None:
    """Load `file` as kvgate does."""
    if kind == "gate":
        load.gate_of(file)
    elif kind == "plan":
        load.plan_of(file, None)
    elif kind == "inventory":
        load.inventory_of(file)
    else:
        load.baseline_of(file, load.load_inventory(SITE / "inventory.yaml"))
