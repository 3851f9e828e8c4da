import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.load.workload import endless, sessions, shuffled


@given(seed=st.integers(0, 2**63), count=st.integers(1, 5), length=st.integers(1, 300))
@settings(max_examples=30)
def test_exact_and_the_same_again(seed: int, count: int, length: int) -> None:
    made = sessions(seed, count, prompt_tokens=length, output_tokens=3)
    assert made == sessions(seed, count, prompt_tokens=length, output_tokens=3)
    assert [len(each.prompt) for each in made] == [length] * count
    assert all(0 <= token < 1024 for each in made for token in each.prompt)
    assert made == tuple(
        itertools.islice(endless(seed, prompt_tokens=length, output_tokens=3), count)
    )


def test_the_stream_is_fixed_for_ever() -> None:
    first = sessions(7, 2, prompt_tokens=8, output_tokens=1)
    assert first[0].prompt == FIRST
    assert first[1].prompt == SECOND


FIRST = (827, 221, 323, 639, 623, 805, 529, 883)
SECOND = (800, 397, 402, 567, 716, 727, 506, 513)


def test_no_two_blocks_are_alike() -> None:
    made = sessions(20260512, 30, prompt_tokens=1024, output_tokens=1)
    blocks = [each.prompt[at : at + 16] for each in made for at in range(0, 1024, 16)]
    assert len(set(blocks)) == len(blocks)


@given(seed=st.integers(0, 2**32))
def test_shuffling_loses_nothing(seed: int) -> None:
    made = sessions(1, 8, prompt_tokens=2, output_tokens=1)
    mixed = shuffled(seed, made)
    assert sorted(mixed, key=lambda each: each.session) == list(made)
    assert mixed == shuffled(seed, made)


def test_shuffling_moves_things() -> None:
    made = sessions(1, 8, prompt_tokens=2, output_tokens=1)
    assert len({shuffled(seed, made) for seed in range(10)}) > 5
