"""Assessments: what levels serve, windows of bandwidth, and the advice of each case."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvgate.cli import main
from kvgate.errors import UsageError
from kvgate.kv.agreed import generated
from kvgate.kv.assess import Assessment, Question, assess
from kvgate.kv.geometry import Geometry
from kvgate.kv.recommend import recommend
from kvgate.kv.trace import batches
from kvgate.kv.windows import Windows

MODEL = Geometry(name="m", layers=1, source="test", kv_heads=1, head_dim=250)  # 1,000 B a token
A_BLOCK = 512_000


def trace(path: Path, *requests: tuple[float, int, list[int]]) -> Path:
    lines = [
        {"timestamp": 1000 * time, "input_length": tokens, "output_length": 100, "hash_ids": ids}
        for time, tokens, ids in requests
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


@pytest.fixture
def loop(tmp_path: Path) -> Path:
    """Ten requests of four own blocks, in turns, twice: each comes again after nine others."""
    rows = [(float(at), 2048, [1 + 4 * (at % 10) + i for i in range(4)]) for at in range(20)]
    return trace(tmp_path / "loop.jsonl", *rows)


def asked(file: Path, **more: Any) -> Assessment:
    return assess(batches([file]), Question(geometry=MODEL, **more))


def test_levels_serve_what_their_size_reaches(loop: Path) -> None:
    found = asked(loop, hbm=20 * A_BLOCK, dram=39 * A_BLOCK, tier=40 * A_BLOCK)
    assert (found.shared, found.cold) == (0.5, 0.25)  # of four blocks the last lies 40 deep
    assert [each.tokens for each in found.levels] == [0, 10 * 1536, 10 * 512]


def test_levels_that_are_exclusive_add_up(loop: Path) -> None:
    found = asked(loop, hbm=20 * A_BLOCK, dram=20 * A_BLOCK, exclusive=True)
    assert found.levels[1].tokens == 10 * 2048
    assert found.cold == 0
    assert asked(loop, hbm=20 * A_BLOCK, dram=20 * A_BLOCK).cold == 1


def test_bytes_written_and_the_part_of_decode(loop: Path) -> None:
    found = asked(loop)
    assert found.written_tokens == 10 * 2048
    assert found.bytes_of(found.written_tokens) == 10 * 2048 * 1000
    assert found.write_amplification == pytest.approx(1 + 20 * 100 / (10 * 2048))


@pytest.mark.parametrize(
    ("more", "depth", "says"),
    [
        ({}, 1, "--hbm"),
        ({"hbm": 40 * A_BLOCK}, 1, "everything is resident"),
        ({"hbm": 1 * A_BLOCK, "path": 1e9}, 2, "cold"),
        ({"hbm": 1 * A_BLOCK, "path": 1e6}, 3, "from the tier"),
        ({"hbm": 1 * A_BLOCK, "tier": 2 * A_BLOCK}, 1, "larger --tier"),
    ],
)
def test_advice_by_the_rule(loop: Path, more: dict[str, Any], depth: int, says: str) -> None:
    advice = recommend(asked(loop, **more))
    assert advice.depth == depth
    assert says in " ".join((*advice.reasons, *advice.open))


def test_no_shared_prefix_is_advised_nothing(tmp_path: Path) -> None:
    path = trace(tmp_path / "t", *((float(at), 512, [at]) for at in range(9)))
    advice = recommend(asked(path, hbm=A_BLOCK))
    assert (advice.depth, advice.named) == (0, "none")
    assert "nothing to reuse" in advice.reasons[0]


def test_sizes_need_a_model_and_batches_one_block_size(loop: Path) -> None:
    with pytest.raises(UsageError, match="--model"):
        assess(batches([loop]), Question(hbm=1))
    with pytest.raises(UsageError, match="no request"):
        assess([], Question())


def test_windows_count_the_empty_ones_and_spread_over_the_step() -> None:
    windows = Windows()
    windows.add(np.array([10.0, 10.2, 13.0]), np.array([5.0, 1.0, 30.0]), np.array([1.0, 1.0, 0.0]))
    windows.add(np.array([19.0]), np.array([3.0]), np.array([0.0]))
    (by_second,) = windows.statistics()
    assert (windows.span_s, by_second.count) == (9.0, 10)
    assert by_second.restored == (0.0, 30.0, 30.0, 30.0)
    stepped = Windows()
    stepped.add(np.array([0.0, 3.0, 6.0]), np.array([9.0, 3.0, 6.0]), np.zeros(3))
    one, three = stepped.statistics()
    assert (one.width_s, three.width_s, three.count) == (1, 3, 3)
    assert three.restored == (2.0, 3.0, 3.0, 3.0)


def test_a_generated_trace_is_the_same_every_time() -> None:
    made = generated(5, requests=40, conversations=4)
    assert made == generated(5, requests=40, conversations=4)
    assert made != generated(6, requests=40, conversations=4)


def test_the_verb_tells_text_json_and_a_page(
    loop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--model", "qwen2.5-32b", "--hbm", "2 GB", "--dram", "4 GB", "--tier", "1 TB"]
    page = tmp_path / "page.html"
    assert main(["assess", str(loop), *words, "--html", str(page)]) == 0
    text = capsys.readouterr().out
    assert "shared-prefix ratio          50.00% of input tokens" in text
    assert "cold data  100.00% of the hits" in text
    assert "<svg" in page.read_text()
    assert main(["assess", str(loop), *words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["shared_prefix_ratio"], document["exact"]) == (0.5, True)
    assert document["recommendation"]["depth"] >= 2
    assert main(["assess", str(loop), *words, "--json", "--rate", "1"]) == 0
    sampled = json.loads(capsys.readouterr().out)
    assert (sampled["exact"], sampled["shared_prefix_ratio"]) == (False, pytest.approx(0.5))
    assert main(["assess", str(loop), *words, "--json", "--rate", "1e-9"]) == 0
    assert json.loads(capsys.readouterr().out)["used_again"] == 0.0  # no block is in the sample


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--hbm", "1 TB"], "need --model"),
        (["--model", "qwen2.5-32b", "--hbm", "1 s"], "'1 s' is no bytes"),
        (["--model", "qwen2.5-32b", "--hbm", "much"], "--hbm"),
        (["--model", "nothing"], "no model that is known"),
        (["--rate", "2"], "rate of 2"),
        (["--sample", "5"], "at least"),
        (["--block", "0"], "--block"),
    ],
)
def test_what_cannot_be_asked(
    loop: Path, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    assert main(["assess", str(loop), *words]) == 64
    assert says in capsys.readouterr().err
