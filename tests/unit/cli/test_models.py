from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvgate.cli import main


def test_models_are_listed_with_their_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models"]) == 0
    told = capsys.readouterr().out
    assert "qwen3-coder-480b-a35b      62       253,952      126,976  GQA, 8 KV heads" in told


def test_one_in_detail_names_gb_and_gib(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "qwen3-coder-480b-a35b", "--tokens", "30208"]) == 0
    told = capsys.readouterr().out
    assert "TP8 bf16: 31,744 B a token, chunk 8,126,464 B" in told
    assert "30,208 tokens, bf16: 7,671,382,016 B (7.671 GB, 7.145 GiB)" in told
    assert "source: maxtext" in told


def test_a_config_is_read_and_kept_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, out = tmp_path / "config.json", tmp_path / "mine.yaml"
    config.write_text(
        json.dumps({"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 256})
    )
    words = ["models", "mine", "--config", str(config), "--out", str(out)]
    assert main(words) == 0
    assert "bf16: 2,048 B a token" in capsys.readouterr().out
    kept = out.read_text()
    assert main(words) == 64
    assert "nothing was written" in capsys.readouterr().err
    assert out.read_text() == kept


@pytest.mark.parametrize("words", [["nothing-like-it"], ["kimi-k2", "--chunk", "0"]])
def test_what_cant_be_told_is_a_usage_error(words: list[str]) -> None:
    assert main(["models", *words]) == 64
