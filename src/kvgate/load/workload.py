"""Makes prompts of exact length from a seed, different at every block, the same everywhere."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import TypeVar

from kvgate.load.rows import Request

T = TypeVar("T")
VOCAB = 1024
"""Token ids that the embedded model knows; a real tokenizer of 150,000 has them too."""


def _tokens(rng: random.Random, count: int, vocab: int) -> tuple[int, ...]:
    # random() alone is promised to give the same numbers in every Python version.
    return tuple(int(rng.random() * vocab) for _ in range(count))


def endless(
    seed: int, *, prompt_tokens: int, output_tokens: int, vocab: int = VOCAB
) -> Iterator[Request]:
    """Yield requests of distinct sessions without end; no two share a block but by chance.

    Session i has a generator of its own, seeded by ``seed * 2**32 + i``: it does not depend on
    how many others there are.
    """
    for index in itertools.count():
        rng = random.Random(seed * 2**32 + index)  # noqa: S311  a workload, not a secret
        yield Request(
            session=f"session-{index:04d}",
            prompt=_tokens(rng, prompt_tokens, vocab),
            output_tokens=output_tokens,
        )


def sessions(
    seed: int, count: int, *, prompt_tokens: int, output_tokens: int, vocab: int = VOCAB
) -> tuple[Request, ...]:
    """Return one request each of `count` distinct sessions."""
    source = endless(seed, prompt_tokens=prompt_tokens, output_tokens=output_tokens, vocab=vocab)
    return tuple(itertools.islice(source, count))


def shuffled(seed: int, requests: tuple[Request, ...]) -> tuple[Request, ...]:
    """Return `requests` in another order, the same for the same seed."""
    return in_random_order(seed, requests)


def in_random_order(seed: int, things: Sequence[T]) -> tuple[T, ...]:
    """Return `things` in another order, the same for the same seed (Fisher-Yates)."""
    rng = random.Random(seed)  # noqa: S311  an order, not a secret
    order = list(things)
    for last in range(len(order) - 1, 0, -1):
        other = int(rng.random() * (last + 1))
        order[last], order[other] = order[other], order[last]
    return tuple(order)
