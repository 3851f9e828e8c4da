"""Odd pages: a long host name, a template at fault."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from kvgate.errors import HarnessError
from kvgate.report.render import FILES, render

ALL = tuple(FILES)


def test_a_template_at_fault_is_named(sample: Any, tmp_path: Path) -> None:
    run, result = sample
    (tmp_path / "summary.md.j2").write_text("{{ page.no_such_thing }}")
    with pytest.raises(HarnessError, match="no_such_thing"):
        render(run, result, formats=("md",), templates=tmp_path)
    with pytest.raises(HarnessError, match=r"report\.html\.j2"):
        render(run, result, formats=("html",), templates=tmp_path)


def test_a_long_host_name_neither_breaks_nor_fills_the_page(sample: Any, templates: Path) -> None:
    run, result = sample
    gate = result.gates[0]
    finding = gate.findings[2]
    host = dataclasses.replace(finding.hosts[0], host="h" * 10_000)
    bad = dataclasses.replace(
        result,
        gates=(
            dataclasses.replace(
                gate, findings=(dataclasses.replace(finding, hosts=(host, *finding.hosts[1:])),)
            ),
        ),
    )
    made = render(run, bad, formats=ALL, templates=templates)
    assert b"(6000 more characters)" in made["report.html"]
