"""Prompts from a seed: token ids that no other block has, or words where an engine takes no ids."""

from __future__ import annotations

import dataclasses
import hashlib

import numpy as np
import numpy.typing as npt

Tokens = npt.NDArray[np.int64]

_WORDS = (
    "able acid aged also area army away baby back ball band bank base bath bear beat been "
    "beer bell belt best bill bird blow blue boat body bond bone book born both bowl bulk "
    "burn bush busy call calm came camp card care case cash cast cell chat chip city club "
    "coal coat code cold come cook cool cope copy core cost crew crop dark data date dawn "
    "days dead deal dean dear debt deep desk dial diet disc disk does done door dose down "
    "draw drew drop drug dual duke dust duty each earn ease east easy edge else even ever "
    "evil exit face fact fail fair fall farm fast fate fear feed feel feet fell felt file "
    "fill film find fine fire firm fish five flat flow food foot form four free from fuel "
    "full fund gain game gate gave gear gene gift girl give glad goal goes gold golf "
)
WORDS = tuple(_WORDS.split())
"""Common English words of four letters: with the blank before it, each is one token of the usual
byte-pair vocabularies, and five of the byte-level ones."""


@dataclasses.dataclass(frozen=True, slots=True)
class Ids:
    """The token ids that prompts are made of: from `low` up to and without `high`.

    Raises ValueError where there are fewer than 256, or no ids below 2³¹.
    """

    low: int = 0
    high: int = 1024

    def __post_init__(self) -> None:
        """Refuse what could repeat itself by chance, or is no id."""
        if not 0 <= self.low < self.high <= 2**31 or self.high - self.low < 256:
            raise ValueError(f"token ids {self.low} to {self.high}: 256 or more, below 2**31")


def stream_of(*place: object) -> int:
    """Return the number of the stream for `place`, such as ("session", 7): 64 bits of its hash."""
    told = "/".join(map(str, place)).encode()
    return int.from_bytes(hashlib.blake2b(told, digest_size=8).digest(), "little")


def tokens(seed: int, stream: int, count: int, ids: Ids) -> Tokens:
    """Return `count` token ids, the same for the same seed and stream on every machine.

    They are the raw words of Philox 4x64 (its stream is promised never to change: NumPy's NEP 19),
    keyed by both, each scaled to the range by a multiplication.
    """
    key = (seed % 2**64) << 64 | stream % 2**64
    raw: npt.NDArray[np.uint64] = np.random.Philox(key=key).random_raw(count)
    scaled = ((raw >> np.uint64(32)) * np.uint64(ids.high - ids.low)) >> np.uint64(32)
    return scaled.astype(np.int64) + ids.low


def block_ids(prompt: Tokens, block: int) -> Tokens:
    """Return a number for each block of `block` tokens of `prompt`, the last may be partial.

    It is of the block's content alone, 63 bits of a sum with fixed odd weights: equal blocks have
    equal ones, others differ but by chance (once in 2⁶⁰ pairs or so).
    """
    count = -(-len(prompt) // block)
    padded = np.zeros(count * block, np.uint64)
    padded[: len(prompt)] = prompt.astype(np.uint64) + np.uint64(1)
    weights = np.random.Philox(key=block).random_raw(block) | np.uint64(1)
    summed = (padded.reshape(count, block) * weights).sum(axis=1, dtype=np.uint64)
    summed ^= summed >> np.uint64(29)
    summed *= np.uint64(0xBF58476D1CE4E5B9)
    found: Tokens = ((summed ^ (summed >> np.uint64(32))) >> np.uint64(1)).astype(np.int64)
    return found


def as_text(prompt: Tokens) -> str:
    """Return `prompt` as words, one an id: equal prefixes stay equal prefixes."""
    return " ".join(WORDS[each % len(WORDS)] for each in prompt.tolist())


@dataclasses.dataclass(frozen=True, slots=True)
class TextRate:
    """How many tokens an engine makes of words: ``fixed`` (its template) and ``per_word``.

    Measured by two prompts (`kvgate.load.endpoints`); whole where a word is a token.
    """

    fixed: float = 0.0
    per_word: float = 1.0

    def words(self, count: int) -> int:
        """Return how many words come to `count` tokens, at least one."""
        return self.more(count - self.fixed)

    def more(self, count: float) -> int:
        """Return how many words add `count` tokens to a prompt, at least one."""
        return max(1, round(count / self.per_word))


def rate_of(few: tuple[int, int], many: tuple[int, int]) -> TextRate:
    """Return the rate that two prompts tell, each as (words, tokens); raises ValueError for none.

    Fewer than half a token a word, or more than 16, is no tokenizer's answer.
    """
    per_word = (many[1] - few[1]) / (many[0] - few[0])
    if not 0.5 <= per_word <= 16:
        raise ValueError(f"{few[0]} words are {few[1]} tokens, {many[0]} words {many[1]}")
    return TextRate(fixed=few[1] - per_word * few[0], per_word=per_word)
