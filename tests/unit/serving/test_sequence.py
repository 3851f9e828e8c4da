import pathlib
import random

import pytest

from kvgate.serving.chunkfile import chunk_keys
from kvgate.serving.decoder import Decoder
from kvgate.serving.metrics import Metrics
from kvgate.serving.sequence import Generation
from kvgate.serving.tier import Tier
from kvgate.serving.weights import fingerprint

RANDOM = random.Random(9)  # noqa: S311  a prompt, not a secret
PROMPT = tuple(int(RANDOM.random() * 512) for _ in range(160))


def answer(
    decoder: Decoder, tier: Tier | None, prompt: tuple[int, ...], count: int
) -> tuple[list[int], Generation]:
    generation = Generation(prompt, count, print)
    generation.restore(decoder, tier, Metrics("pico"))
    tokens = []
    while not generation.finished:
        step = generation.advance(decoder, tier)
        if step is not None:
            tokens.append(step.token)
    return tokens, generation


@pytest.fixture
def tier(tmp_path: pathlib.Path, decoder: Decoder):
    made = Tier(tmp_path, decoder.config, fingerprint(decoder.config, 7), Metrics("pico"))
    yield made
    made.close()


def test_restored_after_computed_every_logit_is_the_same(decoder: Decoder, tier: Tier) -> None:
    plain, alone = answer(decoder, None, PROMPT, 6)
    first, stored = answer(decoder, tier, PROMPT, 6)
    tier._jobs.join()
    again, restored = answer(decoder, tier, PROMPT, 6)
    assert plain == first == again
    assert (alone.cached_tokens, stored.cached_tokens, restored.cached_tokens) == (0, 0, 128)
    digests = {each.logits_digest() for each in (alone, stored, restored)}
    assert len(digests) == 1


@pytest.mark.parametrize(("length", "cached"), [(63, 0), (64, 63), (65, 64), (128, 127)])
def test_at_least_one_token_is_computed(
    decoder: Decoder, tier: Tier, length: int, cached: int
) -> None:
    answer(decoder, tier, PROMPT[:length], 1)
    tier._jobs.join()
    assert answer(decoder, tier, PROMPT[:length], 1)[1].cached_tokens == cached


def test_a_second_turn_restores_what_the_first_answered(decoder: Decoder, tier: Tier) -> None:
    first, _ = answer(decoder, tier, PROMPT[:100], 40)
    tier._jobs.join()
    history = (*PROMPT[:100], *first, 1, 2, 3)
    with_tier, turn = answer(decoder, tier, history, 5)
    without, plain = answer(decoder, None, history, 5)
    assert turn.cached_tokens == 128  # of which 28 are tokens of the first answer
    assert with_tier == without
    assert turn.logits_digest() == plain.logits_digest()


def test_a_damaged_chunk_is_computed_again(decoder: Decoder, tier: Tier) -> None:
    plain, alone = answer(decoder, tier, PROMPT, 3)
    tier._jobs.join()
    link = tier.pool.find(chunk_keys(tier.fingerprint, PROMPT, 64)[1])
    assert link is not None
    second = tier.pool.path(link.name)
    second.write_bytes(second.read_bytes()[:4096] + b"\xff" * decoder.config.block_bytes)
    again, restored = answer(decoder, tier, PROMPT, 3)
    assert (again, restored.cached_tokens) == (plain, 64)
    assert restored.logits_digest() == alone.logits_digest()


def test_other_prompts_are_answered_otherwise(decoder: Decoder) -> None:
    one, two = (answer(decoder, None, PROMPT[at:], 4)[1].logits_digest() for at in (0, 1))
    assert one != two


def test_advance_wants_restore_first(decoder: Decoder) -> None:
    with pytest.raises(ValueError, match="before restore"):
        Generation(PROMPT, 1, print).advance(decoder, None)
