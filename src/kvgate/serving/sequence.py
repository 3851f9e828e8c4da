"""One request under way: its tokens, its KV, how far it is, and the next step of computing it."""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections.abc import Callable, Sequence

import numpy as np

from kvgate.serving import chunkfile
from kvgate.serving.decoder import Cache, Decoder, Row
from kvgate.serving.metrics import Metrics
from kvgate.serving.tier import Tier
from kvgate.serving.tokens import Detokenizer, StopText
from kvgate.serving.weights import Array


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """What a sequence tells its listener: a token and its text, or with `error` that it broke off.

    The last one says why it ends: ``length``, or ``stop`` with the text or token that stopped it.
    """

    token: int
    last: bool
    error: str = ""
    text: str = ""
    finish_reason: str = ""
    stop_reason: str | int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """How an answer may end before its length is reached, and whose KV it may share."""

    stop: Sequence[str] = ()
    stop_token_ids: frozenset[int] = frozenset()
    cache_salt: str = ""


class Generation:
    """A prompt being answered greedily; one thread at a time advances it.

    ``cancelled`` may be set at any time from any thread and is looked at between steps.
    """

    def __init__(
        self,
        prompt: tuple[int, ...],
        max_tokens: int,
        on_step: Callable[[Step], None],
        wanted: Wanted | None = None,
    ) -> None:
        self.prompt_tokens = len(prompt)
        self.max_tokens = max_tokens
        self.on_step = on_step
        self.arrived = time.monotonic()
        self.last_step = self.arrived
        self.cancelled = False
        self.cached_tokens = 0
        self._wanted = wanted or Wanted()
        self._stopped = False
        self._detokenizer = Detokenizer()
        self._stop_text = StopText(self._wanted.stop)
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
        """Tell whether the answer is as long as was asked for, or was stopped."""
        return self._stopped or self.answered == self.max_tokens

    @property
    def position(self) -> int:
        """Return where the next token to be computed stands."""
        return self._computed

    @property
    def cache_bytes(self) -> int:
        """Return the bytes of its KV in memory; 0 before `restore`."""
        return 0 if self._cache is None else self._cache.kv.nbytes

    def logits_digest(self) -> str:
        """Return the SHA-256 over all logits that tokens were chosen from, in order."""
        return self._logits.hexdigest()

    def restore(self, decoder: Decoder, tier: Tier | None, metrics: Metrics) -> None:
        """Make the cache and fill it from the tier; at least the last token stays to compute."""
        config = decoder.config
        total = self.prompt_tokens + self.max_tokens
        self._cache = Cache(config, total, cleared=tier is None)
        if tier is None:
            return
        self._keys = self._keys_of(tier, self.prompt_tokens)
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
        return self._took(tier, end, logits)

    def row(self) -> Row:
        """Return the one row that is to be computed next, of a generation that is answering."""
        if self._cache is None or len(self._tokens) - self._computed != 1:
            raise ValueError("not one row is to be computed")
        return Row(self._cache, self._tokens[-1], self._computed)

    def took(self, tier: Tier | None, logits: Array) -> Step:
        """Take what was computed of `row`; returns the token it yielded."""
        step = self._took(tier, self._computed + 1, logits)
        if step is None:
            raise ValueError("a row without logits")
        return step

    def _took(self, tier: Tier | None, end: int, logits: Array | None) -> Step | None:
        self._computed = end
        if tier is not None and self._cache is not None:
            self._hand_over(tier, self._cache)
        if logits is None:
            return None
        self._logits.update(logits.astype("<f4", copy=False).tobytes())
        token = int(np.argmax(logits))
        self._tokens.append(token)
        return self._step(token)

    def _step(self, token: int) -> Step:
        """Return what is told of a token, and see whether it is the last."""
        if token in self._wanted.stop_token_ids:
            self._stopped = True
            shown, _ = self._stop_text.add("", last=True)
            return Step(token, True, "", shown, "stop", token)
        last = self.answered == self.max_tokens
        text = self._detokenizer.add(token, last=last)
        shown, stop = self._stop_text.add(text, last=last)
        self._stopped = stop is not None
        reason = "stop" if self._stopped else "length" if last else ""
        return Step(token, self.finished, "", shown, reason, stop)

    def _hand_over(self, tier: Tier, cache: Cache) -> None:
        """Have every newly finished block published, those of the answer included."""
        block = tier.config.block
        finished = self._computed // block
        if finished > len(self._keys):
            self._keys = self._keys_of(tier, finished * block)
        for index in range(self._stored, finished):
            tier.store(self._keys[index], cache, index)
        self._stored = max(self._stored, finished)

    def _keys_of(self, tier: Tier, count: int) -> list[str]:
        """Return the keys of the full blocks of the first `count` tokens."""
        salt = self._wanted.cache_salt
        return chunkfile.chunk_keys(tier.fingerprint, self._tokens[:count], tier.config.block, salt)
