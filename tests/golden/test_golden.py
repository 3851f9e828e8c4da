"""Runs of every released format are judged to the same bytes and verify; newer ones are refused."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
from pathlib import Path

import pytest

from kvgate.cli import main
from kvgate.engine.judging import judge_stored
from kvgate.errors import StoreError
from kvgate.model.verdict import Verdict
from kvgate.store.findings import findings_bytes, read_findings
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter
from kvgate.store.seal import verify

ROOT = Path(__file__).resolve().parents[2]

SEALED = {"run-v1": "92f903367ef3a10ce909ae3395a571e8ea45c4dcb2717a0ab3e73fc8695c6755"}
"""Golden run → digest of its last seal: a golden run that is made anew is another one."""


def test_there_is_a_golden_run_of_the_format_that_is_written(golden: Path) -> None:
    assert {path.name for path in golden.parent.glob("run-v*")} == set(SEALED)
    version = RunReader(golden).manifest["format"].rpartition("/")[2]
    assert golden.name == f"run-v{version}"


def test_it_is_judged_to_the_same_bytes(golden: Path) -> None:
    assert findings_bytes(judge_stored(golden)) == (golden / "findings.json").read_bytes()


def test_its_findings_are_read_to_the_same_result(golden: Path) -> None:
    assert read_findings(golden) == judge_stored(golden)


def test_it_verifies(golden: Path) -> None:
    found = verify(golden)
    assert found.ok, found.problems
    assert len(found.layers) == 2
    assert found.layers[-1].digest == SEALED[golden.name]


def test_a_flipped_byte_is_named(golden: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(golden, tmp_path / "run")
    data = bytearray((copy / "measurements.jsonl").read_bytes())
    data[len(data) // 2] ^= 1
    (copy / "measurements.jsonl").write_bytes(data)
    assert "measurements.jsonl" in {problem.path for problem in verify(copy).problems}


def test_it_holds_every_verdict_and_what_must_not_count(golden: Path) -> None:
    found = judge_stored(golden)
    assert {f.verdict for gate in found.gates for f in gate.findings} == set(Verdict)
    assert any(f.marginal for gate in found.gates for f in gate.findings)
    assert any(gate.scoped_out for gate in found.gates)
    assert any(gate.forced for gate in found.gates)
    reader = RunReader(golden)
    assert any(reader.events("block_discarded"))
    assert not [each for each in reader.measurements() if each.block == "torn"]


def test_a_report_of_it_can_be_made_today(golden: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(golden, tmp_path / "run")
    assert main(["report", str(copy)]) == 0
    made = max(copy.glob("report*/report.html"), key=lambda path: path.stat().st_mtime_ns)
    assert "The golden run" in made.read_text("utf-8")


def test_the_same_script_makes_the_same_run(tmp_path: Path) -> None:
    """The current format's golden run is what today's writer writes: the format has not moved."""
    spec = importlib.util.spec_from_file_location("golden", ROOT / "tools" / "golden.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    tool.make(tmp_path / "run-v1")
    for name in ("SHA256SUMS", "findings.json"):
        then, now = (
            folder / name for folder in (ROOT / "tests/golden/run-v1", tmp_path / "run-v1")
        )
        assert now.read_bytes() == then.read_bytes()


@pytest.mark.parametrize("version", ["kvgate-run/2", "kvgate-run/10", "kvgate-run/99"])
def test_a_newer_run_is_refused_by_name_and_not_touched(
    golden: Path, tmp_path: Path, version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = shutil.copytree(golden, tmp_path / "run")
    manifest = json.loads((copy / "manifest.json").read_bytes())
    (copy / "manifest.json").write_text(json.dumps({**manifest, "format": version, "new": [1]}))
    before = digests(copy)
    for read in (RunReader, judge_stored, RunWriter.open):
        with pytest.raises(StoreError, match=f"'{version}', which is newer than kvgate-run/1"):
            read(copy)
    for words in (["judge"], ["report"]):
        assert main([*words, str(copy)]) == 3
        assert "use the kvgate that wrote it" in capsys.readouterr().err
    assert digests(copy) == before


@pytest.mark.parametrize("version", ["kvgate-run/0", "other/2", "kvgate-run/x", 2, None, "\x1b[2J"])
def test_an_unknown_format_is_refused_without_a_guess(
    golden: Path, tmp_path: Path, version: object
) -> None:
    copy = shutil.copytree(golden, tmp_path / "run")
    manifest = json.loads((copy / "manifest.json").read_bytes())
    (copy / "manifest.json").write_text(json.dumps({**manifest, "format": version}))
    with pytest.raises(StoreError, match="this kvgate reads kvgate-run/1") as caught:
        RunReader(copy)
    assert str(caught.value).replace("\n", "").isprintable()


def test_newer_findings_are_refused_by_name(golden: Path, tmp_path: Path) -> None:
    stored = json.loads((golden / "findings.json").read_bytes())
    newer = tmp_path / "findings.json"
    newer.write_text(json.dumps({**stored, "format": "kvgate-findings/2"}))
    with pytest.raises(StoreError, match="newer than kvgate-findings/1"):
        read_findings(newer)


def digests(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
