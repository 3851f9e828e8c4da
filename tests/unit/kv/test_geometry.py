"""Every number of the published geometries, and shards that can't be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvgate.kv.geometry import Geometry, GeometryError
from kvgate.kv.models import known

MODELS = known()
TABLE = [  # model, bytes a token in bf16 and in fp8
    ("qwen3-coder-480b-a35b", 253_952, 126_976),
    ("qwen2.5-32b", 262_144, 131_072),
    ("qwen3-235b-a22b", 192_512, 96_256),
    ("deepseek-v3", 70_272, 35_136),
    ("kimi-k2", 70_272, 35_136),
    ("llama-3.1-70b", 327_680, 163_840),
    ("llama-3.1-405b", 516_096, 258_048),
    ("glm-4.5", 376_832, 188_416),
    ("gpt-oss-120b", 73_728, 36_864),
]


@pytest.mark.parametrize(("name", "bf16", "fp8"), TABLE)
def test_bytes_a_token(name: str, bf16: int, fp8: int) -> None:
    assert MODELS[name].token_bytes("bf16") == MODELS[name].token_bytes("fp16") == bf16
    assert MODELS[name].token_bytes("fp8") == fp8
    assert MODELS[name].source


def test_the_table_is_whole() -> None:
    assert set(MODELS) == {name for name, _, _ in TABLE}


def test_the_480b_model_at_tp8_is_that_of_the_joint_test() -> None:
    model = MODELS["qwen3-coder-480b-a35b"]
    shard = model.shard(8)
    assert (shard.token_bytes, shard.copies) == (31_744, 1)
    assert shard.chunk_bytes() == 8_126_464 == 1984 * 4096
    assert model.context_bytes(30_208) == 30_208 * 253_952 == 7_671_382_016
    assert round(model.context_bytes(30_208) / 10**9, 3) == 7.671
    assert round(model.context_bytes(30_208) / 2**30, 3) == 7.145


def test_r1s_bytes_are_those_of_qwen2_5_32b() -> None:
    assert round(16 * MODELS["qwen2.5-32b"].context_bytes(8192) / 10**9, 1) == 34.4


def test_a_latent_is_on_every_rank() -> None:
    shard = MODELS["deepseek-v3"].shard(8)
    assert (shard.token_bytes, shard.copies) == (70_272, 8)
    assert shard.written_token_bytes == 8 * 70_272


def test_fewer_kv_heads_than_ranks_are_copied() -> None:
    shard = MODELS["qwen3-235b-a22b"].shard(8)
    assert (shard.copies, shard.token_bytes) == (2, 192_512 // 4)
    assert shard.written_token_bytes == 2 * 192_512


def test_windowed_layers_keep_only_their_window() -> None:
    model = MODELS["gpt-oss-120b"]
    assert (model.far_token_bytes("bf16"), model.far_token_bytes("fp8")) == (36_864, 18_432)
    assert model.context_bytes(100) == 100 * 73_728
    assert model.context_bytes(10_000) - model.context_bytes(9_999) == 36_864
    assert model.context_bytes(10_000) == 10_000 * 36_864 + 128 * 36_864


@pytest.mark.parametrize("ranks", [0, -1, 3, 6, 12])
def test_ranks_that_kv_heads_dont_divide_over_are_refused(ranks: int) -> None:
    with pytest.raises(GeometryError):
        MODELS["qwen3-coder-480b-a35b"].shard(ranks)


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(GeometryError, match="'int3' is no type of KV; known: bf16, fp16, fp8"):
        MODELS["kimi-k2"].token_bytes("int3")


@given(st.sampled_from([1, 2, 4, 8, 16]), st.integers(1, 200), st.sampled_from([1, 2, 4, 8, 16]))
def test_all_ranks_together_hold_the_model_as_often_as_it_is_copied(
    heads: int, layers: int, ranks: int
) -> None:
    model = Geometry(name="m", layers=layers, source="s", kv_heads=heads, head_dim=64)
    shard = model.shard(ranks)
    assert shard.written_token_bytes == shard.copies * model.token_bytes()
