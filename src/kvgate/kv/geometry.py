"""How many bytes of KV a token is: by model, element type, tensor-parallel rank and chunk.

Grouped-query attention keeps K and V of each KV head: layers × KV heads × head dim × 2 × element
bytes. Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1) keeps one latent
and one rotary part: layers × (latent + rope) × element bytes. Scales and padding of fp8 formats
are not in it.
"""

from __future__ import annotations

import dataclasses

from kvgate.errors import UsageError

ELEMENT_BYTES = {"bf16": 2, "fp16": 2, "fp8": 1}
"""Bytes of an element of KV by its type: weights in fp8 don't imply KV in fp8."""

CHUNK_TOKENS = 256
"""Tokens in a chunk, LMCache's default ``chunk_size``."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """The shape of a model's KV.

    Grouped-query (``kv_heads``, ``head_dim``) or latent (``latent``, ``rope``); of ``layers``,
    ``window_layers`` keep only the last ``window`` tokens.
    """

    name: str
    layers: int
    source: str
    kv_heads: int = 0
    head_dim: int = 0
    latent: int = 0
    rope: int = 0
    window_layers: int = 0
    window: int = 0
    notes: tuple[str, ...] = ()

    @property
    def is_latent(self) -> bool:
        """Tell whether it is multi-head latent attention: one KV for all heads."""
        return self.latent > 0

    @property
    def attention(self) -> str:
        """Return its kind and numbers as text."""
        if self.is_latent:
            return f"MLA, latent {self.latent} + rope {self.rope}"
        return f"GQA, {self.kv_heads} KV heads × {self.head_dim}"

    def elements(self, kv_heads: int | None = None) -> int:
        """Return the elements a token and layer has, of all KV heads or of `kv_heads`."""
        if self.is_latent:
            return self.latent + self.rope
        return (self.kv_heads if kv_heads is None else kv_heads) * self.head_dim * 2

    def token_bytes(self, dtype: str = "bf16") -> int:
        """Return the bytes a token takes in every layer, before any window drops it."""
        return self.layers * self.elements() * element_bytes(dtype)

    def far_token_bytes(self, dtype: str = "bf16") -> int:
        """Return the bytes a token still takes once it is beyond the windows."""
        return (self.layers - self.window_layers) * self.elements() * element_bytes(dtype)

    def context_bytes(self, tokens: int, dtype: str = "bf16") -> int:
        """Return the bytes that `tokens` tokens keep: windowed layers keep only their window."""
        kept = min(tokens, self.window) if self.window_layers else 0
        per_layer = self.elements() * element_bytes(dtype)
        full = (self.layers - self.window_layers) * tokens
        return per_layer * (full + self.window_layers * kept)

    def shard(self, ranks: int, dtype: str = "bf16") -> Shard:
        """Return what one of `ranks` tensor-parallel ranks holds; raises GeometryError.

        With more ranks than KV heads each head is on ``ranks / kv_heads`` of them; a latent is
        on all. Neither heads nor ranks may be left over.
        """
        if ranks < 1:
            raise GeometryError(f"{self.name}: {ranks} ranks: there is at least one")
        if self.is_latent:
            return Shard(ranks, ranks, self.layers * self.elements() * element_bytes(dtype))
        if self.kv_heads % ranks and ranks % self.kv_heads:
            raise GeometryError(
                f"{self.name}: {self.kv_heads} KV heads don't divide over {ranks} ranks",
                hint=f"ranks that divide {self.kv_heads}, or a multiple of it",
            )
        heads = max(1, self.kv_heads // ranks)
        copies = max(1, ranks // self.kv_heads)
        return Shard(ranks, copies, self.layers * self.elements(heads) * element_bytes(dtype))


@dataclasses.dataclass(frozen=True, slots=True)
class Shard:
    """One tensor-parallel rank's part: its bytes a token, and on how many ranks each byte is."""

    ranks: int
    copies: int
    token_bytes: int

    def chunk_bytes(self, tokens: int = CHUNK_TOKENS) -> int:
        """Return the bytes of one chunk file of this rank."""
        return tokens * self.token_bytes

    @property
    def written_token_bytes(self) -> int:
        """Return the bytes a token that all ranks together write, unless copies are dropped."""
        return self.ranks * self.token_bytes


class GeometryError(UsageError):
    """A geometry that can't be: heads that don't divide, a type that is not known."""


def element_bytes(dtype: str) -> int:
    """Return the bytes of an element; raises GeometryError for a type that is not known."""
    if dtype not in ELEMENT_BYTES:
        raise GeometryError(f"'{dtype}' is no type of KV; known: {', '.join(ELEMENT_BYTES)}")
    return ELEMENT_BYTES[dtype]
