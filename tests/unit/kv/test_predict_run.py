"""What measured bandwidths come to: intervals, marks, and what is missing named, never made up."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvgate.cli import main
from kvgate.kv.geometry import Geometry
from kvgate.kv.predict import RECOMPUTE, Parameters, Work, predict
from kvgate.kv.predict_fit import START, Fitted
from kvgate.kv.predict_run import NotMeasuredError, assumed, forecasts, measured
from kvgate.store.reader import RunReader

MakeRun = Callable[..., Path]
DEVICE = ("10 GB/s", "10.5 GB/s", "11 GB/s")
WORK = Work(
    geometry=Geometry(name="m", layers=62, source="test", kv_heads=8, head_dim=128),
    dtype="bf16",
    tokens=30208,
    output_tokens=64,
)
PARAMETERS = Parameters(
    prefill=1890.0, overhead_s=1.4, decode_base_s=0.02, decode_each_s=0.0005, interference=0.0
)

ROWS = """\
source: made up
licence: none
attribution: nobody
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
"""


def rounds(arm: str, *values: object) -> list[tuple[str, object, str]]:
    return [("arms.read_bw", value, arm) for value in values]


def test_bandwidths_come_with_students_interval_over_rounds(make_run: MakeRun) -> None:
    found = measured(RunReader(make_run(*rounds("device", *DEVICE), *rounds("local", "7 GB/s"))))
    device, local = found.bandwidths
    assert (device.host, device.arm, len(device.rounds)) == ("node1", "device", 3)
    # logs 23.0259, 23.0747, 23.1212: mean 23.07393, sd 0.04769, t(0.975, 2) = 4.30265
    assert device.middle == pytest.approx(1.04921e10, rel=1e-4)
    assert device.low == pytest.approx(9.3199e9, rel=1e-3)
    assert device.high == pytest.approx(1.18118e10, rel=1e-3)
    assert (local.low, local.high) == (None, None)
    assert found.missing == ("node1, arm local: one round: no interval (2 or more)",)
    assert found.mark == ""


def test_second_runs_of_an_arm_and_other_jobs_are_not_taken(make_run: MakeRun) -> None:
    run = make_run(*rounds("device", "10 GB/s"), *rounds("device-again", "90 GB/s"))
    assert [each.middle for each in measured(RunReader(run)).bandwidths] == [pytest.approx(1e10)]
    other = make_run(*rounds("device", "10 GB/s"), job="kv-mixed")
    with pytest.raises(NotMeasuredError, match="on arm device was not measured"):
        measured(RunReader(other))


def test_storage_without_arms_is_an_arm_of_its_own_name(make_run: MakeRun) -> None:
    found = measured(RunReader(make_run(("fio.read_bw", "3 GB/s", ""))))
    assert [each.arm for each in found.bandwidths] == ["storage"]
    assert any("arm local was not measured" in each for each in found.missing)
    assert any("arm device was not measured" in each for each in found.missing)


@pytest.mark.parametrize(
    ("taken", "told"),
    [
        ([], "arms.read_bw of job kv-restore on arm local was not measured"),
        ([("arms.read_bw", None, "device")], "no bandwidth of kv-restore: fio ended badly"),
        ([("arms.read_bw", "0 GB/s", "device")], "no bandwidth of kv-restore: it is 0"),
        (
            [("arms.read_bw", "90 GB/s", "device"), ("arms.direct", False, "device")],
            "did not pass the page cache",
        ),
    ],
)
def test_what_was_not_measured_is_missing_not_made_up(
    make_run: MakeRun, taken: list[Any], told: str
) -> None:
    with pytest.raises(NotMeasuredError, match=told) as caught:
        measured(RunReader(make_run(*taken)))
    assert caught.value.exit_code == 2
    assert "workloads.fio_arms" in caught.value.hint


def test_a_rehearsal_and_recordings_are_marked(make_run: MakeRun) -> None:
    run = make_run(*rounds("local", "1 GB/s"), profile="rehearsal")
    assert measured(RunReader(run)).mark.startswith("REHEARSAL")
    recorded = (
        "inventory: site\nhosts:\n  node1: {roles: [serving], transport: recorded, recording: r}\n"
    )
    run = make_run(*rounds("local", "1 GB/s"), inventory=recorded)
    assert measured(RunReader(run)).mark.startswith("RECORDED")


def test_forecasts_are_the_model_at_the_bandwidth_and_at_its_ends(make_run: MakeRun) -> None:
    found = measured(RunReader(make_run(*rounds("device", *DEVICE))))
    device, recompute = forecasts(found, WORK, PARAMETERS, concurrencies=[8, 16], limit_s=15.0)
    assert (device.arm, recompute.arm, recompute.bandwidth) == ("device", RECOMPUTE, None)
    point = device.points[1]
    rate = found.bandwidths[0]
    assert rate.low
    assert point.middle == predict(WORK, PARAMETERS, 16, rate.middle)
    assert point.slow == predict(WORK, PARAMETERS, 16, rate.low)
    assert point.fast
    assert point.fast.value("ttft_p90") < point.middle.value("ttft_p90")
    middle, low, high = device.within_limit
    assert low < middle < high
    assert recompute.within_limit == (0,)  # 16 s alone
    assert recompute.points[0].slow is None
    assert len(device.saturates) == 3


def test_what_no_row_tells_is_not_assumed() -> None:
    fitted = Fitted(dict(START), ("prefill", "local"))
    with pytest.raises(NotMeasuredError, match="report R1 tells nothing of prefill\n"):
        assumed(fitted, "R1")
    values = assumed(Fitted(dict(START), ("local",)), "R2")
    assert values["prefill"] == START["prefill"]
    assert "local" not in values


def test_a_run_is_reckoned_with_what_is_assumed_of_a_file(
    make_run: MakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(*rounds("device", "10 GB/s", "11 GB/s"))
    assert main(["predict", "--from", str(run), "--ttft-limit", "15 s", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["session_bytes"] == 7_671_382_016
    assert "CC-BY-4.0" in told["assumed"]["source"]
    assert [each["arm"] for each in told["forecasts"]] == ["device", "recompute"]
    assert (
        "node1: arms.read_bw of job kv-restore on arm local was not measured (G2)"
        in told["missing"]
    )
    path = tmp_path / "rows.yaml"
    path.write_text(ROWS)
    words = ["predict", "--from", str(run), "--fit", str(path)]
    assert main(words) == 2  # nothing in that file tells the prefill rate
    assert "report A tells nothing of prefill" in capsys.readouterr().err
    path.write_text(
        ROWS
        + "      - {arm: recompute, concurrency: 4, use: fit, ttft_p50: 9 s, tpot_p50: 30 ms}\n"
    )
    assert main([*words, "--tokens", "4096", "--concurrency", "4"]) == 0
    assert "4,096 tokens of qwen2.5-32b" in capsys.readouterr().out
    assert main([*words, "--assume", "B"]) == 64
    assert "'B' is no report of these" in capsys.readouterr().err
