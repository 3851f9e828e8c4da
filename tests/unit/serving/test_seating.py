import numpy as np
import pytest

from kvgate.serving.decoder import Cache, Decoder, Row
from kvgate.serving.seating import Seating, row_classes


def test_a_token_sits_in_a_free_row_of_its_class() -> None:
    seating = Seating([0, 0, 1, 1])
    assert [seating.take(position) for position in (5, 4, 0, 2, 7, 3)] == [0, 1, None, 2, 3, None]


def test_alone_in_its_class_it_sits_in_its_own_row() -> None:
    seating = Seating(range(4))
    assert [seating.take(position) for position in (6, 3, 2)] == [2, 3, None]


def test_rows_of_a_class_are_the_same_bits(decoder: Decoder) -> None:
    classes = row_classes(decoder.weights, 16)
    matrix = decoder.weights.layers[0].gate_up
    numbers = np.random.default_rng(3).standard_normal((1, len(matrix)), dtype=np.float32)
    results = np.repeat(numbers, 16, axis=0) @ matrix
    for row, other in enumerate(classes):
        assert results[row].tobytes() == results[classes.index(other)].tobytes()


@pytest.mark.parametrize("lengths", [(70, 70, 70), (1, 33, 5, 64), (7,)])
def test_together_every_bit_is_the_same_as_alone(decoder, computing, lengths) -> None:
    rows, expected = [], []
    for number, length in enumerate(lengths):
        tokens = [(11 * n + number) % 512 for n in range(length + 1)]
        alone, cache = Cache(decoder.config, 128), Cache(decoder.config, 128)
        logits = computing(decoder, alone, tokens, 0, length + 1)
        computing(decoder, cache, tokens, 0, length)
        rows.append(Row(cache, tokens[-1], length))
        expected.append((logits.tobytes(), alone.kv.tobytes()))
    found = decoder.forward_rows(rows)
    told = [(one.tobytes(), row.cache.kv.tobytes()) for one, row in zip(found, rows, strict=True)]
    assert told == expected


def test_more_than_there_are_seats_is_refused(decoder: Decoder) -> None:
    rows = [Row(Cache(decoder.config, 64), 1, 0)] * 17
    with pytest.raises(ValueError, match="no row is free"):
        decoder.forward_rows(rows)
