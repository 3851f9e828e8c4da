"""The verb replay: what the options come to, what it refuses, and what it shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvgate.cli import main
from kvgate.cli.parser import build_parser
from kvgate.cli.replay import spec_of
from kvgate.workloads import replay_place


def spec(*words: str) -> object:
    return spec_of(build_parser().parse_args(["replay", "--path", "/tmp", *words]))


def test_the_geometry_is_the_model_s() -> None:
    found = spec("--sessions", "34", "--reads", "serial,parallel:8")
    assert (found.chunk_bytes, found.ranks, found.chunks) == (8_126_464, 8, 118)
    assert found.padded_bytes == found.chunk_bytes
    assert found.session_bytes == 118 * 256 * 253_952
    assert [(each.concurrency, each.readers) for each in found.levels] == [
        *((8, 1), (8, 8), (16, 1), (16, 8), (32, 1), (32, 8))
    ]


def test_shared_sizes_and_fills() -> None:
    found = spec("--shared", "50", "--block", "1 MiB", "--fill", "50,80,95", "--capacity", "2 TB")
    assert (found.shared, found.block_bytes, found.fill) == (59, 2**20, (50, 80, 95))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--model", "nobody"], "'nobody' is no model"),
        (["--tp", "3"], "don't divide over 3 ranks"),
        (["--reads", "quickly"], "neither serial nor parallel"),
        (["--concurrency", "0"], "whole numbers from 1"),
        (["--tokens", "0"], "--tokens: from 1"),
        (["--block", "3 s"], "is no size"),
        (["--shared", "101"], "from 0 to 100"),
        (["--ranks", "9"], "--ranks: from 1 to 8"),
        (["--fill", "50"], "takes a capacity"),
        (["--full"], "takes a capacity"),
        (["--fill", "50", "--capacity", "1 MB"], "does not hold 4 sessions"),
        (["--seed", "-1"], "--seed: a whole number from 0"),
        (["--two-by-two", "3"], "takes 5 rounds"),
    ],
)
def test_what_can_t_be_asked_is_refused(
    words: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", "--path", str(tmp_path), *words]) == 64
    assert why in capsys.readouterr().err


def test_it_needs_a_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay"]) == 64
    assert main(["replay", "--path", str(tmp_path / "none")]) == 64
    assert "is no folder" in capsys.readouterr().err


def test_arrivals_are_a_trace_s_own(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    rows = [(0, [1, 2]), (3000, [1, 2, 3]), (4000, [9]), (6000, [1, 2, 3])]
    trace.write_text(
        "".join(
            json.dumps(
                {
                    "timestamp": at,
                    "input_length": 512 * len(ids),
                    "output_length": 1,
                    "hash_ids": ids,
                }
            )
            + "\n"
            for at, ids in rows
        )
    )
    found = spec("--trace", str(trace), "--speed", "10")
    assert [each.arrivals for each in found.levels] == [((0.3, 4), (0.6, 6))]


def test_a_small_replay_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        if not replay_place.place_of(tmp_path, direct=True).device:
            pytest.skip("no block device below counts bytes")
    except replay_place.PlaceRefusedError as err:
        pytest.skip(err.why)
    user = tmp_path / "user"
    user.write_text("mine")
    small = ["--sessions", "2", "--ranks", "1", "--tokens", "64", "--chunk-tokens", "16"]
    words = ["replay", "--path", str(tmp_path), *small, "--concurrency", "2", "--plant"]
    code = main(words)
    shown = capsys.readouterr().out
    assert code in (0, 2), "2: others read from the same disk meanwhile"
    assert shown.count("restored 2 sessions at ") == 1
    assert "GB/s (" in shown
    assert "GiB/s); session s: p50" in shown
    for kind in ("flipped", "swapped", "stale", "short", "zeroed"):
        assert f"planted {kind} in session" in shown
    assert shown.count(": found") == 5
    assert ("INCONCLUSIVE" in shown) == (code == 2)
    assert main([*words, "--json"]) in (0, 2)
    told = json.loads(capsys.readouterr().out)
    assert told["hosts"][0]["levels"][1]["restore_bytes_per_s"] > 0
    assert main([*words[:-1], "--no-check"]) == 2
    assert "NOT CHECKED: whether what came back" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == [user]
    assert user.read_text() == "mine"
