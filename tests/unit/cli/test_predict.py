"""The verbs predict and claims: what they print, write and end with."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kvgate.cli import main

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "inventory/examples/claims-fx100.yaml"
GOLDEN = ROOT / "tests/golden/run-v1"
ROWS = """\
source: made up
licence: none
attribution: nobody <b>
reports:
  - report: A
    deployment: d
    model: qwen2.5-32b
    dtype: bf16
    tokens: 8192
    output_tokens: 64
    instances: 1
    rows:
      - {arm: device, concurrency: 4, use: fit, ttft_p50: 2 s, throughput: 72.9 tok/s}
      - {arm: device, concurrency: 16, use: fit, ttft_p50: 5 s, throughput: 140.9 tok/s}
      - {arm: device, concurrency: 8, use: check, ttft_p50: %s, throughput: 107.5 tok/s}
"""

Capture = pytest.CaptureFixture[str]


def rows(folder: Path, ttft: str) -> str:
    path = folder / "rows.yaml"
    path.write_text(ROWS % ttft)
    return str(path)


def test_rows_of_a_file_are_fitted_and_checked(tmp_path: Path, capsys: Capture) -> None:
    page = tmp_path / "p.html"
    assert main(["predict", "--fit", rows(tmp_path, "3 s"), "-o", str(page)]) == 0
    told = capsys.readouterr().out
    assert "bar      15% on TTFT p50, p90 and throughput: kept" in told
    assert re.search("held out +device 8", told)
    assert re.search("bandwidth, device +8.59 GB/s", told)
    assert re.search(r"device 8 +check +throughput +107.5 tok/s +107\.\d tok/s", told)
    html = page.read_text()
    assert "Predicted against published" in html
    assert "nobody &lt;b&gt;" in html
    assert main(["predict", "--fit", rows(tmp_path, "3 s"), "-o", str(page)]) == 64
    assert "nothing was written" in capsys.readouterr().err


def test_a_row_beyond_the_bar_ends_with_1(tmp_path: Path, capsys: Capture) -> None:
    assert main(["predict", "--fit", rows(tmp_path, "1.1 s"), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["within"] is False
    row = told["reports"][0]["rows"][2]
    assert row["use"] == "check"
    assert row["figures"]["ttft_p50"]["error"] > 0.15


def test_published_rows_are_told_with_their_licence(capsys: Capture) -> None:
    assert main(["predict", "--published"]) == 0
    told = capsys.readouterr().out
    assert "CC-BY-4.0, Mingxin Technology, mingxin-kvcache-bench" in told
    assert re.search(
        r"recompute 32 +check +TTFT p99 +608\.52 s +473\.\d+ s +-22\.\d% +told only", told
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "predict takes --published, or --fit FILE, or --from RUN"),
        (["--published", "--fit", "x"], "predict takes"),
        (["--from", "no-such-run"], "is no run"),
        (["--from", "x", "--ttft-limit", "15"], "is no time above 0"),
        (["--from", "x", "--ttft-limit", "-1 s"], "is no time above 0"),
        (["--from", "x", "--ttft-limit", "15 parsecs"], "is not a quantity"),
        (["--from", "x", "--concurrency", "8,0"], "whole numbers from 1 to 256"),
        (["--from", "x", "--concurrency", "8,x"], "whole numbers from 1 to 256"),
        (["--fit", "/no/such/file"], "No such file"),
    ],
)
def test_what_cant_be_asked_is_a_usage_error(words: list[str], told: str, capsys: Capture) -> None:
    assert main(["predict", *words]) == 64
    assert told in capsys.readouterr().err


def test_a_run_that_measured_no_bandwidth_is_told_with_what_is_missing(capsys: Capture) -> None:
    assert main(["predict", "--from", str(GOLDEN)]) == 2
    told = capsys.readouterr().err
    assert "node1: arms.read_bw of job kv-restore on arm device was not measured (G2)" in told


def test_claims_of_the_example_end_with_1(tmp_path: Path, capsys: Capture) -> None:
    page = tmp_path / "c.html"
    assert main(["claims", str(EXAMPLE), "-o", str(page)]) == 1
    told = capsys.readouterr().out
    assert (
        "1 impossible, 2 contradicts, 2 unsupported, 3 unit, 3 can't be checked, 11 holds" in told
    )
    assert "blocks of at most 781 B (781.25)" in told
    html = page.read_text()
    assert 'class="look v-fail' in html
    assert "claims-fx100.yaml:14" in html
    assert main(["claims", str(EXAMPLE), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["wrong"] == 8


def test_claims_that_hold_end_with_0_and_hostile_text_is_harmless(
    tmp_path: Path, capsys: Capture
) -> None:
    path, page = tmp_path / "c.yaml", tmp_path / "c.html"
    path.write_text(
        'claims_of: "<script>\\e[31m"\nsource: s\nclaims:\n'
        "  - {claim: w, text: t, source: s, size: {stated: 480 GB, "
        "weights: {count: 480000000000, bits: 8}}}\n"
    )
    assert main(["claims", str(path), "-o", str(page)]) == 0
    assert "\x1b" not in capsys.readouterr().out
    assert "<script>" not in page.read_text()


def test_claims_that_are_refused_end_with_64(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(EXAMPLE.read_text().replace("16 MIOPS", "16 MB"))
    assert main(["claims", str(path)]) == 64
    assert re.search(r"c\.yaml:17: .*'16 MB' is no quantity of IOPS", capsys.readouterr().err)
