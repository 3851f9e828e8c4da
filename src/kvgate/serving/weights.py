"""Random weights from a recorded seed, and the fingerprint of all that KV bits depend on.

The weights are the same bits on every machine: `numpy.random.Generator` streams may change
between NumPy versions (NEP 19), the raw bits of the Philox 4x64 counter may not.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from kvgate.serving.config import ModelConfig

Array = npt.NDArray[np.float32]


@dataclasses.dataclass(frozen=True, slots=True)
class Layer:
    """The matrices of one layer, each (inputs, outputs); norms are all ones and left out."""

    qkv: Array
    out: Array
    gate_up: Array
    down: Array


@dataclasses.dataclass(frozen=True, slots=True)
class Weights:
    """All weights of a model."""

    embedding: Array
    layers: tuple[Layer, ...]
    head: Array

    def digest(self) -> str:
        """Return the SHA-256 over all weights in order, little-endian float32."""
        digest = hashlib.sha256()
        for array in self._arrays():
            digest.update(array.astype("<f4", copy=False).tobytes())
        return digest.hexdigest()

    def _arrays(self) -> Iterator[Array]:
        yield self.embedding
        for layer in self.layers:
            yield from (layer.qkv, layer.out, layer.gate_up, layer.down)
        yield self.head


def uniform(seed: int, stream: int, shape: tuple[int, int], half_width: float) -> Array:
    """Return floats uniform in ±`half_width`, each from the upper 24 of 32 raw bits.

    Every step is an exact or correctly rounded float32 operation, hence the same everywhere.
    """
    count = shape[0] * shape[1]
    key = np.array([seed, stream], dtype=np.uint64)
    raw = np.random.Philox(key=key).random_raw((count + 1) // 2)
    bits = raw.astype("<u8", copy=False).view("<u4")[:count] >> np.uint32(8)
    floats = bits.astype(np.float32)
    floats -= np.float32(2**23)
    floats *= np.float32(half_width / 2**23)
    return floats.reshape(shape)


def generate(config: ModelConfig, seed: int) -> Weights:
    """Return the weights of `config` from `seed` (0 to 2**64 - 1).

    The half-width sqrt(3 / inputs) gives each output unit variance for unit inputs.
    """
    streams = iter(range(2 + 4 * config.layers))

    def matrix(inputs: int, outputs: int) -> Array:
        return uniform(seed, next(streams), (inputs, outputs), (3 / inputs) ** 0.5)

    attention = config.heads * config.head_dim
    embedding = uniform(seed, next(streams), (config.vocab, config.hidden), 3**0.5)
    layers = tuple(
        Layer(
            qkv=matrix(config.hidden, attention + 2 * config.kv_heads * config.head_dim),
            out=matrix(attention, config.hidden),
            gate_up=matrix(config.hidden, 2 * config.ffn),
            down=matrix(config.ffn, config.hidden),
        )
        for _ in range(config.layers)
    )
    return Weights(embedding, layers, matrix(config.hidden, config.vocab))


def fingerprint(config: ModelConfig, seed: int) -> str:
    """Return the SHA-256 of all that the bits of a KV chunk depend on.

    That is the shape, the seed of the weights, and what computes: the NumPy version, its BLAS
    and the vector instructions found, since other kernels round otherwise.
    """
    build = np.show_config(mode="dicts")
    facts = {
        "format": 1,
        "model": dataclasses.asdict(config),
        "seed": seed,
        "numpy": np.__version__,
        "blas": build["Build Dependencies"]["blas"]["version"],
        "simd": build["SIMD Extensions"],
    }
    text = json.dumps(facts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
