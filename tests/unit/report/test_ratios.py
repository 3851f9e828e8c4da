"""Comparisons of arms as a chart and as facts of their criterion."""

from __future__ import annotations

import dataclasses
from typing import Any
from xml.etree import ElementTree as ET

from kvgate.engine.workspace import frozen_setup
from kvgate.model.finding import Comparison, Finding, HostFinding
from kvgate.model.verdict import Verdict
from kvgate.report import charts, ratios
from kvgate.report.findings import criterion_view
from kvgate.report.sources import Sources

TOLD = Comparison(
    of="device",
    to="local",
    ratio="1.42 x",
    low="1.36 x",
    high="1.48 x",
    level="95 %",
    blocks="10 blocks of 10 planned, look 1 of 1",
    noise="1.2 %",
)


def compared(*told: Comparison | None) -> Finding:
    hosts = tuple(
        HostFinding(
            host=f"ini{number}",
            verdict=Verdict.PASS,
            measured="1.42 x",
            because="holds",
            comparison=each,
        )
        for number, each in enumerate(told, 1)
    )
    return Finding(
        criterion="G3.1", verdict=Verdict.PASS, because="x", limit="at least 1.2 x", hosts=hosts
    )


def sources(sample: Any) -> Sources:
    run, result = sample
    return Sources.read(run, result, frozen_setup(run))


def test_a_ratio_is_drawn_with_its_interval_and_limit(sample: Any) -> None:
    chart = ratios.chart("G3", [compared(TOLD)], sources(sample))
    assert chart is not None
    root = ET.fromstring(str(chart.svg))  # noqa: S314  made here
    lines = [each for each in root.iter() if each.tag.endswith("}line")]
    assert len([each for each in lines if each.get("class") == "interval"]) == 3
    assert len([each for each in lines if each.get("class") == "limit"]) == 1
    assert chart.rows == (
        (
            "G3.1",
            "device against local",
            "1.42 x",
            "1.36 x to 1.48 x (95 %)",
            "10 blocks of 10 planned, look 1 of 1",
            "at least 1.2 x",
            "1.2 %",
        ),
    )


def test_each_host_has_its_bar_and_one_without_a_ratio_has_none(sample: Any) -> None:
    bare = dataclasses.replace(TOLD, low="", high="", level="")
    none = dataclasses.replace(bare, ratio="")
    chart = ratios.chart("G3", [compared(TOLD, bare, none, None)], sources(sample))
    assert chart is not None
    assert [row[0] for row in chart.rows] == ["G3.1 on ini1", "G3.1 on ini2"]
    assert chart.rows[1][3] == "none"
    assert ratios.chart("G3", [compared(none)], sources(sample)) is None


def test_what_a_stored_finding_forges_is_not_drawn(sample: Any) -> None:
    forged = dataclasses.replace(TOLD, ratio="<script>", low="1e999 x")
    assert ratios.chart("G3", [compared(forged)], sources(sample)) is None


def test_a_gate_with_comparisons_shows_the_chart(sample: Any) -> None:
    run, result = sample
    gates = tuple(
        dataclasses.replace(gate, findings=(*gate.findings, compared(TOLD)))
        if gate.gate == "G3"
        else gate
        for gate in result.gates
    )
    seen = Sources.read(run, dataclasses.replace(result, gates=gates), frozen_setup(run))
    assert charts.of_gate("G3", seen)[-1].id == "g3-ratios"


def test_the_facts_of_a_criterion_tell_its_ratio_blocks_and_noise(sample: Any) -> None:
    view = criterion_view(compared(TOLD), sources(sample))
    facts = {fact.label: fact.text for fact in view.facts}
    assert facts["Ratio"] == "device against local: 1.42 x, 95 % interval 1.36 x to 1.48 x"
    assert facts["Blocks"] == "10 blocks of 10 planned, look 1 of 1"
    assert facts["Noise floor"] == "1.2 %"
