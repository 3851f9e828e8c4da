"""The decoder's forward pass, in fixed shapes, so that its results never depend on company.

A token at position p is always computed in row ``p % rows`` of a chunk of ``rows`` rows (absent
tokens padded), against the KV blocks ``0 .. p // block``, each block by a GEMM of its own and
added up in order. Every shape is therefore a function of the position alone: whether a token is
part of a prefill or decoded, restored before or computed, alone or among others, each of its
sums is made of the same numbers in the same order, and its logits are equal bit for bit.

Answers under way share the GEMMs of weights (`Decoder.forward_rows`): the shape stays, and each
token sits in its own row or one that BLAS treats alike (`serving.seating`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from kvgate.serving.config import ModelConfig
from kvgate.serving.memory import MEMORY
from kvgate.serving.seating import Seating, row_classes
from kvgate.serving.weights import Array, Layer, Weights

Places = npt.NDArray[np.intp]
EPSILON = np.float32(1e-5)


class Cache:
    """The KV of one sequence: blocks of `config.block_shape`, page-aligned, zero at first.

    Zero matters: a masked position is multiplied by an exact 0, which NaN would survive. With
    `cleared` False the blocks may be anything until they are read into or `clear` is called.
    """

    def __init__(self, config: ModelConfig, tokens: int, *, cleared: bool = True) -> None:
        self.blocks = -(-tokens // config.block)
        memory, self._zero = MEMORY.take(self.blocks * config.block_bytes)
        self.kv: Array = memory.view(np.float32).reshape((self.blocks, *config.block_shape))
        if cleared:
            self.clear(0, used=0)

    def clear(self, start: int, *, used: int) -> None:
        """Make all blocks from `start` on zero; of new memory only those up to `used` are not."""
        self.kv[start : used if self._zero else None] = 0

    def bytes_of(self, block: int) -> memoryview:
        """Return the memory of one block, to be written to disk or read into."""
        return memoryview(self.kv[block]).cast("B")


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """The next token of a sequence, its position, and the KV of all before it."""

    cache: Cache
    token: int
    position: int


class Decoder:
    """A model ready to compute; holds no state of any sequence and is safe in many threads."""

    def __init__(self, config: ModelConfig, weights: Weights) -> None:
        self.config = config
        self.weights = weights
        self._cos, self._sin = _rope(config)
        self._masks = _masks(config)
        self._scale = np.float32(config.head_dim**-0.5)
        self._classes = row_classes(weights, config.rows)
        if not _same_bits(self):
            self._classes = list(range(config.rows))  # each in its own row only

    def seating(self) -> Seating:
        """Return the rows that tokens of `forward_rows` may be computed in."""
        return Seating(self._classes)

    def forward(
        self, cache: Cache, tokens: Sequence[int], start: int, *, want_logits: bool
    ) -> Array | None:
        """Compute `tokens` at positions from `start` and write their KV into `cache`.

        They must lie in one chunk of rows. Returns the last one's logits (vocab,) if wanted.
        """
        config = self.config
        first = start % config.rows
        last = first + len(tokens)
        if not tokens or last > config.rows:
            raise ValueError(f"{len(tokens)} tokens from {start} are not in one chunk of rows")
        ids = np.zeros(config.rows, dtype=np.intp)
        ids[first:last] = tokens
        hidden = self.weights.embedding[ids]
        with np.errstate(over="ignore"):  # exp of a large number is inf, and 1 / inf the right 0
            for index, layer in enumerate(self.weights.layers):
                hidden += self._attend(cache, layer, index, _norm(hidden), start, last)
                hidden += _mlp(layer, _norm(hidden))
        if not want_logits:
            return None
        logits: Array = np.matmul(_norm(hidden), self.weights.head)
        chosen: Array = logits[last - 1]
        return chosen

    def forward_rows(self, rows: Sequence[Row]) -> list[Array]:
        """Compute one token of each of several sequences; returns their logits.

        Equal to `forward`, bit for bit. Their KV goes into their caches. Raises ValueError where
        `seating` has no row for one of them.
        """
        config = self.config
        ids = np.zeros(config.rows, dtype=np.intp)
        places = np.zeros(config.rows, dtype=np.intp)
        seated: dict[int, Row] = {}
        seating = self.seating()
        for row in rows:
            seat = seating.take(row.position)
            if seat is None:
                raise ValueError(f"no row is free for position {row.position}")
            seated[seat], ids[seat], places[seat] = row, row.token, row.position
        hidden = self.weights.embedding[ids]
        with np.errstate(over="ignore"):
            for index, layer in enumerate(self.weights.layers):
                hidden += self._attend_rows(seated, places, layer, index, _norm(hidden))
                hidden += _mlp(layer, _norm(hidden))
        logits: Array = np.matmul(_norm(hidden), self.weights.head)
        return [logits[seat] for seat in seated]

    def _attend_rows(
        self, rows: Mapping[int, Row], places: Places, layer: Layer, index: int, hidden: Array
    ) -> Array:
        """Return attention for all rows, each against its own KV, in the shapes of `_attend`."""
        config = self.config
        heads, kv_heads, group, dim = config.heads, config.kv_heads, config.group, config.head_dim
        qkv = np.matmul(hidden, layer.qkv).reshape(config.rows, heads + 2 * kv_heads, dim)
        turned = self._rotate(qkv[:, : heads + kv_heads], places)
        mixed = np.zeros((config.rows, heads * dim), dtype=np.float32)
        queries = np.zeros((kv_heads, config.rows, group, dim), dtype=np.float32)
        for row, each in rows.items():
            block, offset = divmod(each.position, config.block)
            own = each.position % config.rows
            here = each.cache.kv[block, index, :, :, offset]
            here[0] = turned[row, heads:]
            here[1] = qkv[row, heads + kv_heads :]
            queries[:, own] = turned[row, :heads].reshape(kv_heads, group, dim) * self._scale
            came = self._mix(
                each.cache.kv[: block + 1, index],
                queries.reshape(kv_heads, config.rows * group, dim),
                self._masks[offset // config.rows],
            )
            came = came.reshape(kv_heads, config.rows, group, dim)
            mixed[row] = came[:, own].reshape(heads * dim)
            queries[:, own] = 0
        out: Array = np.matmul(mixed, layer.out)
        return out

    def _attend(
        self, cache: Cache, layer: Layer, index: int, hidden: Array, start: int, last: int
    ) -> Array:
        """Return attention for all rows; writes K and V of rows ``start % rows .. last``."""
        config = self.config
        rows, heads, kv_heads, dim = config.rows, config.heads, config.kv_heads, config.head_dim
        chunk = start // rows
        base = chunk * rows
        block, offset = divmod(base, config.block)
        qkv = np.matmul(hidden, layer.qkv).reshape(rows, heads + 2 * kv_heads, dim)
        turned = self._rotate(qkv[:, : heads + kv_heads], np.arange(base, base + rows))
        first = start % rows
        here = cache.kv[block, index, :, :, offset + first : offset + last]
        here[0] = turned[first:last, heads:].transpose(1, 0, 2)
        here[1] = qkv[first:last, heads + kv_heads :].transpose(1, 0, 2)
        queries = np.ascontiguousarray(
            turned[:, :heads].reshape(rows, kv_heads, config.group, dim).transpose(1, 0, 2, 3)
        ).reshape(kv_heads, rows * config.group, dim)
        queries *= self._scale
        mixed = self._mix(cache.kv[: block + 1, index], queries, self._masks[offset // rows])
        mixed = mixed.reshape(kv_heads, rows, config.group, dim).transpose(1, 0, 2, 3)
        out: Array = np.matmul(np.ascontiguousarray(mixed).reshape(rows, heads * dim), layer.out)
        return out

    @staticmethod
    def _mix(kv: Array, queries: Array, mask: Array) -> Array:
        """Return softmax(queries · K) · V: one GEMM a block and head, added up in order."""
        scores = np.matmul(queries, kv[:, 0].swapaxes(-1, -2))
        scores[-1] += mask
        scores -= scores.max(axis=(0, 3), keepdims=True)
        np.exp(scores, out=scores)
        total = scores.sum(axis=3).sum(axis=0)
        mixed: Array = np.matmul(scores, kv[:, 1]).sum(axis=0)
        mixed /= total[..., None]
        return mixed

    def _rotate(self, vectors: Array, places: Places) -> Array:
        """Return `vectors` (rows, heads, dim) turned by their positions, halves paired (RoPE)."""
        half = self.config.head_dim // 2
        cos, sin = self._cos[places, None], self._sin[places, None]
        one, two = vectors[..., :half], vectors[..., half:]
        turned = np.empty_like(vectors)
        turned[..., :half] = one * cos - two * sin
        turned[..., half:] = two * cos + one * sin
        return turned


def _same_bits(decoder: Decoder) -> bool:
    """Tell whether whole passes give the same bits in all rows of a class.

    A text of as many tokens as rows is computed in one piece; then each of its tokens as a
    sequence of its own, after the KV of those before it, in each other's seats.
    """
    config = decoder.config
    tokens = [7 * n % config.vocab for n in range(config.rows)]
    kept = Cache(config, config.rows)
    logits = decoder.forward(kept, tokens, 0, want_logits=True)
    rows = []
    for own, token in enumerate(tokens):
        rows.append(Row(Cache(config, config.rows), token, own))
        rows[-1].cache.kv[..., :own, :] = kept.kv[..., :own, :]
    found = decoder.forward_rows(rows[::-1])[0]
    return (
        logits is not None
        and logits.tobytes() == found.tobytes()
        and all(
            kept.kv[..., own, :].tobytes() == row.cache.kv[..., own, :].tobytes()
            for own, row in enumerate(rows)
        )
    )


def _norm(hidden: Array) -> Array:
    """Return RMSNorm of each row."""
    mean = (hidden * hidden).sum(axis=1, keepdims=True) * np.float32(1 / hidden.shape[1])
    normed: Array = hidden / np.sqrt(mean + EPSILON)
    return normed


def _mlp(layer: Layer, hidden: Array) -> Array:
    """Return the SwiGLU block's output."""
    both = np.matmul(hidden, layer.gate_up)
    gate, up = np.split(both, 2, axis=1)
    swish = gate / (np.float32(1) + np.exp(-gate))
    down: Array = np.matmul(swish * up, layer.down)
    return down


def _rope(config: ModelConfig) -> tuple[Array, Array]:
    """Return cos and sin tables (positions, head_dim / 2)."""
    half = config.head_dim // 2
    rates = config.rope_theta ** (-np.arange(half, dtype=np.float64) / half)
    angles = np.arange(config.max_tokens, dtype=np.float64)[:, None] * rates
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def _masks(config: ModelConfig) -> Array:
    """Return what is added to the scores of the newest block, by the chunk's place in it.

    Shape (block / rows, rows × group, block): 0 where a key is not after the query, else -inf.
    """
    keys = np.arange(config.block)
    queries = np.arange(config.block).reshape(-1, config.rows)
    allowed = keys[None, None, :] <= queries[:, :, None]
    masks = np.where(allowed, np.float32(0), np.float32(-np.inf)).astype(np.float32)
    return np.repeat(masks, config.group, axis=1)
