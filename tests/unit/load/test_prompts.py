import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.load.prompts import (
    WORDS,
    Ids,
    TextRate,
    as_text,
    block_ids,
    rate_of,
    stream_of,
    tokens,
)


@given(seed=st.integers(0, 2**64), low=st.integers(0, 10**6), count=st.integers(0, 400))
@settings(max_examples=40)
def test_exact_within_the_ids_and_the_same_again(seed: int, low: int, count: int) -> None:
    ids = Ids(low, low + 5000)
    made = tokens(seed, 3, count, ids)
    assert len(made) == count
    assert all(low <= each < low + 5000 for each in made.tolist())
    assert made.tolist() == tokens(seed, 3, count, ids).tolist()


def test_the_stream_is_fixed_for_ever() -> None:
    assert tokens(7, stream_of("session", 0), 8, Ids()).tolist() == FIRST
    assert stream_of("session", 0) == 2167420762421026954


FIRST = [153, 566, 844, 306, 691, 213, 860, 519]


def test_a_prefix_of_a_stream_is_the_stream() -> None:
    assert tokens(1, 2, 900, Ids())[:31].tolist() == tokens(1, 2, 31, Ids()).tolist()


def test_no_two_blocks_of_a_million_tokens_are_alike() -> None:
    made = [tokens(20260512, stream_of("session", each), 30_272, Ids()) for each in range(34)]
    found = np.concatenate([block_ids(each, 16) for each in made])
    assert len(np.unique(found)) == 34 * 30_272 // 16


@given(st.lists(st.integers(0, 3), min_size=1, max_size=70), st.integers(1, 9))
def test_blocks_are_equal_where_their_tokens_are(some: list[int], block: int) -> None:
    found = block_ids(np.array(some, np.int64), block).tolist()
    cut = [tuple(some[at : at + block]) for at in range(0, len(some), block)]
    assert len(found) == len(cut)
    assert all(
        (a == b) == (x == y)
        for a, x in zip(cut, found, strict=True)
        for b, y in zip(cut, found, strict=True)
    )


@pytest.mark.parametrize(("low", "high"), [(0, 255), (5, 5), (-1, 1000), (0, 2**31 + 1)])
def test_too_few_ids_or_none_are_refused(low: int, high: int) -> None:
    with pytest.raises(ValueError, match="256 or more"):
        Ids(low, high)


def test_texts_have_a_word_a_token_and_share_what_tokens_share() -> None:
    assert len(set(WORDS)) == len(WORDS)
    assert {len(each) for each in WORDS} == {4}
    made = tokens(1, 2, 50, Ids())
    assert len(as_text(made).split()) == 50
    assert as_text(made).startswith(as_text(made[:20]) + " ")


@given(st.integers(0, 40), st.sampled_from([1, 1.25, 5]), st.integers(60, 5000))
def test_two_prompts_tell_how_many_words_come_to_a_length(
    fixed: int, per_word: float, wanted: int
) -> None:
    rate = rate_of((64, int(fixed + 64 * per_word)), (512, int(fixed + 512 * per_word)))
    words = rate.words(wanted)
    assert abs(fixed + words * per_word - wanted) <= per_word / 2 + 1
    assert TextRate().words(wanted) == wanted


def test_what_no_tokenizer_says_is_refused() -> None:
    with pytest.raises(ValueError, match="64 words are 9 tokens"):
        rate_of((64, 9), (512, 9))
