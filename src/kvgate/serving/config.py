"""Shapes of the embedded models, by name. No NumPy here: arms read them too."""

from __future__ import annotations

import dataclasses

from kvgate.errors import UsageError

PAGE_BYTES = 4096
"""What direct reads are aligned to: buffers, offsets and lengths."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """The shape of a decoder: grouped-query attention, RMSNorm, RoPE, SwiGLU, float32.

    ``rows`` tokens are computed at a time and ``block`` tokens of KV lie together; both are
    fixed, so that every GEMM always has the same shape. A KV chunk on disk is one block.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    max_tokens: int
    rope_theta: float = 10_000.0
    rows: int = 16
    block: int = 64

    def __post_init__(self) -> None:
        """Refuse shapes that the fixed-shape computation or aligned reads can't have."""
        if self.block % self.rows or self.heads % self.kv_heads or self.head_dim % 2:
            raise ValueError(f"{self.name}: block, heads or head_dim don't divide evenly")
        if self.block_bytes % PAGE_BYTES:
            raise ValueError(f"{self.name}: a block of {self.block_bytes} B is not page-aligned")

    @property
    def group(self) -> int:
        """Return how many query heads share a KV head."""
        return self.heads // self.kv_heads

    @property
    def block_shape(self) -> tuple[int, int, int, int, int]:
        """Return a KV block's shape: layers, K and V, KV heads, tokens, head_dim."""
        return (self.layers, 2, self.kv_heads, self.block, self.head_dim)

    @property
    def block_bytes(self) -> int:
        """Return the bytes of one KV block: 2 × layers × KV heads × head_dim × 4 B a token."""
        return 2 * self.layers * self.kv_heads * self.block * self.head_dim * 4


MODELS = {
    # About 9 M parameters, 4,096 B of KV a token: a 1,024-token prefill keeps one core busy for
    # 0.6 to 1.5 s, its restore reads 4 MiB.
    "tiny": ModelConfig(
        name="tiny",
        layers=4,
        hidden=512,
        heads=8,
        kv_heads=2,
        head_dim=64,
        ffn=1024,
        vocab=1024,
        max_tokens=8192,
    ),
    # As little to compute, as much KV as a rank of a large model has: 32,768 B a token, and chunks
    # of 256 tokens and 8 MiB, as LMCache writes them for Qwen3-Coder-480B at TP8.
    "wide": ModelConfig(
        name="wide",
        layers=4,
        hidden=512,
        heads=8,
        kv_heads=8,
        head_dim=128,
        ffn=1024,
        vocab=1024,
        max_tokens=8192,
        block=256,
    ),
    # For tests: every GEMM is so small that BLAS never splits it over threads.
    "pico": ModelConfig(
        name="pico",
        layers=2,
        hidden=64,
        heads=4,
        kv_heads=1,
        head_dim=16,
        ffn=96,
        vocab=512,
        max_tokens=1024,
    ),
}


def model_named(name: str) -> ModelConfig:
    """Return the shape of a model; raises UsageError for a name that is not known."""
    if name not in MODELS:
        raise UsageError(f"'{name}' is not a model", hint=f"one of: {', '.join(MODELS)}")
    return MODELS[name]
