"""A template at fault is named, whichever it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvgate.errors import HarnessError
from kvgate.report.render import render


def test_a_template_at_fault_is_named(sample: Any, tmp_path: Path) -> None:
    run, result = sample
    (tmp_path / "summary.md.j2").write_text("{{ page.no_such_thing }}")
    with pytest.raises(HarnessError, match="no_such_thing"):
        render(run, result, formats=("md",), templates=tmp_path)
    with pytest.raises(HarnessError, match=r"report\.html\.j2"):
        render(run, result, formats=("html",), templates=tmp_path)
