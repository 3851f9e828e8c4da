"""What 1 GB (10⁹ bytes) that a host streams takes of memory, evidence kept: at most 150 MB."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Hostile

PROGRAM = Path(__file__).parents[1] / "hostile" / "streamed.py"


def test_a_host_that_streams_1_gb(
    hostile: Hostile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = tmp_path / "site.yaml"
    site.write_text(json.dumps({"inventory": "site", "hosts": {"big": hostile.entry("gigabyte")}}))
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(site), str(tmp_path / "run"), "200", "1"],
        capture_output=True,
        timeout=230,
        check=True,
    )
    told: dict[str, Any] = json.loads(done.stdout)
    with capsys.disabled():
        print(
            f"\n1 GB streamed over SSH in {told['seconds']:.1f} s, peak of memory "
            f"{told['peak_bytes'] / 1e6:.0f} MB (bar: 150 MB)"
        )
    assert (told["bytes"], told["status"]) == (10**9, 0)
    assert told["peak_bytes"] < 150 * 10**6
