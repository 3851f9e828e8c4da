"""Whole gates: a failure is mended and tested again alone; the next gate opens on both runs."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytestmark = pytest.mark.whole

SUITE = """
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]


@settles("{gate}.1")
def test_one(bench: Bench) -> None:
    say(bench, "one", (HERE / "one").read_text() == "yes")


@settles("{gate}.2")
def test_two(bench: Bench) -> None:
    say(bench, "two", True)
"""


def test_a_mended_failure_is_tested_again_and_opens_the_next_gate(site: Any) -> None:
    limits = {"one": "{equals: true}", "two": "{equals: true}"}
    for gate, entry in (("G1", ""), ("G2", "G1")):
        criteria = {f"{gate}.{n}": (name, limits[name]) for n, name in enumerate(limits, 1)}
        site.gate(gate, criteria, SUITE.format(gate=gate), entry=entry)
    site.plan("G1", "G2")
    (site.root / "one").write_text("no")
    assert site.kvgate("run").returncode == 1
    first = site.newest()
    (site.root / "one").write_text("yes")
    again = site.kvgate("retest", first.name, "--criterion", "G1.1", "--reason", "cable")
    assert again.returncode == 0, again.stderr
    run = site.newest()
    manifest = json.loads((run / "manifest.json").read_bytes())
    assert manifest["retest"]["of"] == first.name
    assert [e["test"] for e in site.events("attempt")] == ["test_one"]
    assert set(site.findings()) == {"G1.1"}
    assert site.kvgate("run", "--gate", "G2").returncode == 0
    notes = [e["text"] for e in site.events("note")]
    assert notes == [f"G2 opens on G1, accepted in run {run.name}"]
