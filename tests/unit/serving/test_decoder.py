import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.serving.decoder import Cache, Decoder
from kvgate.serving.weights import Array

RANDOM = random.Random(5)  # noqa: S311  a prompt, not a secret
PROMPT = [int(RANDOM.random() * 512) for _ in range(200)]


def reference(decoder: Decoder, tokens: list[int]) -> np.ndarray:
    """Return the logits of every position, computed plainly in float64."""
    config, weights = decoder.config, decoder.weights
    half, count = config.head_dim // 2, len(tokens)
    angles = np.arange(count)[:, None] * config.rope_theta ** (-np.arange(half) / half)
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]

    def norm(x: np.ndarray) -> np.ndarray:
        return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-5)

    def turn(x: np.ndarray) -> np.ndarray:
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    x = weights.embedding[tokens].astype(np.float64)
    causal = np.where(np.tri(count, dtype=bool), 0, -np.inf)
    for layer in weights.layers:
        qkv = (norm(x) @ layer.qkv).reshape(count, -1, config.head_dim)
        q = turn(qkv[:, : config.heads])
        k = turn(qkv[:, config.heads : config.heads + config.kv_heads])
        v = qkv[:, config.heads + config.kv_heads :]
        k, v = (np.repeat(each, config.group, axis=1) for each in (k, v))
        scores = np.einsum("qhd,khd->hqk", q, k) / config.head_dim**0.5 + causal
        p = np.exp(scores - scores.max(axis=2, keepdims=True))
        p /= p.sum(axis=2, keepdims=True)
        x = x + np.einsum("hqk,khd->qhd", p, v).reshape(count, -1) @ layer.out
        gate, up = np.split(norm(x) @ layer.gate_up, 2, axis=1)
        x = x + (gate / (1 + np.exp(-gate)) * up) @ layer.down
    return norm(x) @ weights.head


def steps(decoder: Decoder, cache: Cache, tokens: list[int], sizes: list[int]) -> Array:
    """Compute all tokens in pieces of these sizes (cut at chunk edges); return the last logits."""
    start, turn, logits = 0, 0, None
    while start < len(tokens):
        end = min(start + sizes[turn % len(sizes)], len(tokens), start - start % 16 + 16)
        logits = decoder.forward(cache, tokens[start:end], start, want_logits=end == len(tokens))
        start, turn = end, turn + 1
    assert logits is not None
    return logits


@pytest.mark.parametrize("count", [1, 15, 16, 17, 64, 65, 150])
def test_it_computes_a_transformer(decoder: Decoder, count: int) -> None:
    found = steps(decoder, Cache(decoder.config, count), PROMPT[:count], [16])
    expected = reference(decoder, PROMPT[:count])[-1]
    assert np.abs(found - expected).max() < 1e-4 * np.abs(expected).max()


@given(sizes=st.lists(st.integers(1, 16), min_size=1, max_size=20), count=st.integers(1, 150))
@settings(max_examples=25, deadline=None)
def test_in_pieces_of_any_size_every_bit_is_the_same(
    decoder: Decoder, sizes: list[int], count: int
) -> None:
    whole, pieces = Cache(decoder.config, 200), Cache(decoder.config, 200)
    one = steps(decoder, whole, PROMPT[:count], [16])
    other = steps(decoder, pieces, PROMPT[:count], sizes)
    assert one.tobytes() == other.tobytes()
    assert whole.kv.tobytes() == pieces.kv.tobytes()


def test_what_lies_behind_in_the_cache_changes_no_bit(decoder: Decoder) -> None:
    clean, dirty = Cache(decoder.config, 200), Cache(decoder.config, 200)
    steps(decoder, clean, PROMPT[:70], [16])
    dirty.kv[:] = clean.kv
    dirty.kv[1, :, :, :, 7:] = 1e10  # masked: positions 71 and later
    for cache in (clean, dirty):
        cache.kv[2:] = 0
    one = decoder.forward(clean, PROMPT[70:71], 70, want_logits=True)
    other = decoder.forward(dirty, PROMPT[70:71], 70, want_logits=True)
    assert one is not None
    assert other is not None
    assert one.tobytes() == other.tobytes()


def test_an_earlier_token_changes_the_logits(decoder: Decoder) -> None:
    one = steps(decoder, Cache(decoder.config, 150), PROMPT[:150], [16])
    other = steps(decoder, Cache(decoder.config, 150), [PROMPT[0] ^ 1, *PROMPT[1:150]], [16])
    assert one.tobytes() != other.tobytes()


@pytest.mark.parametrize(("start", "count"), [(0, 0), (0, 17), (8, 9)])
def test_tokens_over_a_chunks_edge_are_refused(decoder: Decoder, start: int, count: int) -> None:
    with pytest.raises(ValueError, match="not in one chunk"):
        decoder.forward(Cache(decoder.config, 64), PROMPT[:count], start, want_logits=False)


def test_a_blocks_memory_is_aligned_for_direct_reads(decoder: Decoder) -> None:
    cache = Cache(decoder.config, 130)
    assert cache.blocks == 3
    assert all(cache.kv[i].ctypes.data % 4096 == 0 for i in range(3))
    cache.bytes_of(1)[:] = b"\x01" * decoder.config.block_bytes
    assert cache.kv[1].all()
    assert not cache.kv[0].any()
    assert not cache.kv[2].any()
