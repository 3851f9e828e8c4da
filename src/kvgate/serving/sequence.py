"""One request under way: its tokens, its KV, how far it is, and the next step of computing it."""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections.abc import Callable

import numpy as np

from kvgate.serving import chunkfile
from kvgate.serving.decoder import Cache, Decoder
from kvgate.serving.metrics import Metrics
from kvgate.serving.tier import Tier


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """What a sequence tells its listener: a token, or with `error` that it broke off."""

    token: int
    last: bool
    error: str = ""


class Generation:
    """A prompt being answered greedily; one thread at a time advances it.

    ``cancelled`` may be set at any time from any thread and is looked at between steps.
    """

    def __init__(
        self, prompt: tuple[int, ...], max_tokens: int, on_step: Callable[[Step], None]
    ) -> None:
        self.prompt_tokens = len(prompt)
        self.max_tokens = max_tokens
        self.on_step = on_step
        self.arrived = time.monotonic()
        self.cancelled = False
        self.cached_tokens = 0
        self._tokens = list(prompt)
        self._keys: list[str] = []  # of the full blocks of the prompt, later of the answer
        self._computed = 0  # positions whose KV is in the cache
        self._stored = 0  # blocks that came from the tier or were handed to it
        self._cache: Cache | None = None
        self._logits = hashlib.sha256()

    @property
    def answered(self) -> int:
        """Return how many tokens of the answer there are."""
        return len(self._tokens) - self.prompt_tokens

    @property
    def finished(self) -> bool:
        """Tell whether the answer is as long as was asked for."""
        return self.answered == self.max_tokens

    def logits_digest(self) -> str:
        """Return the SHA-256 over all logits that tokens were chosen from, in order."""
        return self._logits.hexdigest()

    def restore(self, decoder: Decoder, tier: Tier | None, metrics: Metrics) -> None:
        """Make the cache and fill it from the tier; at least the last token stays to compute."""
        config = decoder.config
        self._cache = Cache(config, self.prompt_tokens + self.max_tokens)
        if tier is None:
            return
        self._keys = chunkfile.chunk_keys(tier.fingerprint, self._tokens, config.block)
        restored = tier.restore(self._keys, self._cache)
        self._stored = restored.chunks
        self._computed = min(self._stored * config.block, self.prompt_tokens - 1)
        self.cached_tokens = self._computed
        hot = min(restored.hot * config.block, self.cached_tokens)
        if tier.hot.limit_bytes:
            metrics.add("vllm:prefix_cache_queries_total", self.prompt_tokens)
            metrics.add("vllm:prefix_cache_hits_total", hot)
        metrics.add("vllm:external_prefix_cache_queries_total", self.prompt_tokens - hot)
        metrics.add("vllm:external_prefix_cache_hits_total", self.cached_tokens - hot)

    def advance(self, decoder: Decoder, tier: Tier | None) -> Step | None:
        """Compute the next chunk of rows; returns the token it yielded, if it did."""
        if self._cache is None:
            raise ValueError("advance before restore")
        config = decoder.config
        start = self._computed
        end = min(len(self._tokens), start - start % config.rows + config.rows)
        wanted = end == len(self._tokens)
        logits = decoder.forward(self._cache, self._tokens[start:end], start, want_logits=wanted)
        self._computed = end
        if tier is not None:
            self._hand_over(tier, self._cache)
        if logits is None:
            return None
        self._logits.update(logits.astype("<f4", copy=False).tobytes())
        token = int(np.argmax(logits))
        self._tokens.append(token)
        return Step(token, last=self.finished)

    def _hand_over(self, tier: Tier, cache: Cache) -> None:
        """Have every newly finished block published, those of the answer included."""
        block = tier.config.block
        finished = self._computed // block
        if finished > len(self._keys):
            self._keys = chunkfile.chunk_keys(
                tier.fingerprint, self._tokens[: finished * block], block
            )
        for index in range(self._stored, finished):
            tier.store(self._keys[index], cache, index)
        self._stored = max(self._stored, finished)
