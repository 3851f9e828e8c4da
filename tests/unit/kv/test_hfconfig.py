"""Hugging Face configs: read as they mean it, and refused where they can't tell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvgate.errors import SpecError, UsageError
from kvgate.kv.geometry import Geometry, GeometryError
from kvgate.kv.hfconfig import geometry_of
from kvgate.kv.models import as_yaml, known, named

QWEN3 = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "num_hidden_layers": 62,
    "num_attention_heads": 96,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 6144,
    "sliding_window": None,
    "use_sliding_window": False,
    "quantization_config": {"quant_method": "fp8"},
}
DEEPSEEK = {
    "model_type": "deepseek_v3",
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "num_nextn_predict_layers": 1,
}
GPT_OSS = {
    "model_type": "gpt_oss",
    "num_hidden_layers": 36,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 18,
}


def read(config: Any, name: str = "mine") -> Geometry:
    return geometry_of(json.dumps(config).encode(), name=name, source="a file")


def test_grouped_query_attention() -> None:
    model = read(QWEN3, "Qwen3-Coder 480B/FP8")
    assert model.token_bytes() == 253_952
    assert model.name == "qwen3-coder-480b-fp8"
    assert any("does not say that its KV is" in note for note in model.notes)


def test_latent_attention_wins_over_its_heads() -> None:
    model = read(DEEPSEEK)
    assert model.token_bytes() == 70_272
    assert any("multi-token prediction" in note for note in model.notes)


def test_windows_by_layer_types() -> None:
    model = read(GPT_OSS)
    assert (model.token_bytes(), model.far_token_bytes()) == (73_728, 36_864)


def test_conventions_are_said() -> None:
    config = {"num_hidden_layers": 32, "num_attention_heads": 32, "hidden_size": 4096}
    model = read(config)
    assert (model.kv_heads, model.head_dim) == (32, 128)
    assert len(model.notes) == 2


def test_a_text_config_is_the_one_that_counts() -> None:
    assert read({"text_config": QWEN3, "vision_config": {}}).token_bytes() == 253_952


def test_every_layer_windowed_where_its_code_does_so() -> None:
    mistral = {**QWEN3, "model_type": "mistral", "sliding_window": 4096}
    del mistral["use_sliding_window"]
    model = read(mistral)
    assert (model.window_layers, model.window) == (62, 4096)
    assert model.far_token_bytes() == 0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"num_hidden_layers": None}, "num_hidden_layers: null is no whole number"),
        ({"num_hidden_layers": "62"}, "is no whole number"),
        ({"num_hidden_layers": True}, "is no whole number"),
        ({"num_hidden_layers": 62.0}, "is no whole number"),
        ({"num_hidden_layers": 0}, "is no whole number"),
        ({"num_hidden_layers": 10**30}, "is no whole number"),
        ({"num_key_value_heads": 7}, "don't share 7 KV heads evenly"),
        ({"num_key_value_heads": 192}, "don't share"),
        ({"head_dim": [128]}, "is no whole number"),
        ({"head_dim": None, "hidden_size": 6145}, "no multiple of 96 heads"),
        ({"kv_lora_rank": 512}, "'qk_rope_head_dim' is missing"),
        ({"kv_lora_rank": "x", "qk_rope_head_dim": 64}, "kv_lora_rank"),
        ({"layer_types": ["full_attention"]}, "does not name 62 layers"),
        ({"layer_types": ["linear_attention"] * 62}, "can't be told from here"),
        ({"layer_types": [{}] * 62}, "can't be told from here"),
        ({"layer_types": ["sliding_attention"] * 62}, "sliding_window"),
        ({"sliding_window": 512, "use_sliding_window": True}, "which layers have it"),
        ({"hybrid_override_pattern": "M-M*"}, "layers of several kinds"),
        ({"cross_attention_layers": [3, 8]}, "cross attention"),
        ({"num_kv_shared_layers": 10}, "share their KV"),
        ({"multi_query": True}, "another way"),
    ],
)
def test_what_it_cant_tell_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(GeometryError, match=says):
        read({**QWEN3, **change})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"[" * 100_000,
        b'{"num_hidden_layers": 62, "num_hidden_layers": 2}',
        b'{"num_hidden_layers": NaN}',
        b"\xff\xfe",
        b'{"num_hidden_layers": 1' + b"0" * 5000 + b"}",
        b" " * (2**20 + 1),
    ],
)
def test_what_is_no_config_is_refused(content: bytes) -> None:
    with pytest.raises(GeometryError, match=r"config\.json"):
        geometry_of(content, name="x", source="y")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([*QWEN3, *DEEPSEEK, *GPT_OSS]), values))
def test_any_config_is_read_or_refused(change: dict[str, Any]) -> None:
    try:
        model = read({**QWEN3, **change})
    except GeometryError:
        return
    assert model.token_bytes() > 0
    assert 0 <= model.far_token_bytes() <= model.token_bytes()


@pytest.mark.parametrize("config", [QWEN3, DEEPSEEK, GPT_OSS])
def test_what_is_kept_is_known_again(config: dict[str, Any], tmp_path: Path) -> None:
    model = read(config)
    (tmp_path / "mine.yaml").write_text(as_yaml(model))
    assert named("mine", known(tmp_path)) == model


def test_models_of_ones_own_are_checked(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("models: [{name: kimi-k2, layers: 1, source: x}]")
    with pytest.raises(SpecError, match="exactly one of 'gqa' and 'mla'"):
        known(tmp_path)
    (tmp_path / "a.yaml").write_text(
        "models: [{name: kimi-k2, layers: 1, source: x, mla: {latent: 1, rope: 1}}]"
    )
    with pytest.raises(SpecError, match=r"a\.yaml:1: .*'kimi-k2' stands in models\.yaml"):
        known(tmp_path)


def test_a_model_that_is_not_known_gets_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        named("Kimi-K3", known())
    assert "kimi-k2" in caught.value.hint
    with pytest.raises(GeometryError, match="can't name a model"):
        read(QWEN3, "///")
