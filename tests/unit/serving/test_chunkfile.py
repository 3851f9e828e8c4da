import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvgate.errors import ParseError
from kvgate.serving.chunkfile import check, chunk_keys, header

MODEL = "ab" * 32
KEY = "cd" * 32
SHAPE = (1, 2, 3)
PAYLOAD = bytes(range(256)) * 16
TOKENS = st.lists(st.integers(0, 1023), max_size=40)


def test_keys_are_chained_as_documented() -> None:
    first, second = chunk_keys(MODEL, [1, 2, 3, 4, 5], 2)
    one = hashlib.sha256(bytes.fromhex(MODEL) + b"\1\0\0\0\2\0\0\0").digest()
    assert first == one.hex()
    assert second == hashlib.sha256(one + b"\3\0\0\0\4\0\0\0").hexdigest()


@given(TOKENS, TOKENS)
def test_keys_are_equal_as_far_as_all_tokens_are(one: list[int], other: list[int]) -> None:
    keys = list(zip(chunk_keys(MODEL, one, 4), chunk_keys(MODEL, other, 4), strict=False))
    for index, (a, b) in enumerate(keys):
        stop = 4 * (index + 1)
        assert (a == b) == (one[:stop] == other[:stop])


def test_another_model_has_other_keys() -> None:
    assert chunk_keys(MODEL, [1, 2], 2) != chunk_keys(KEY, [1, 2], 2)


def test_a_whole_chunk_holds() -> None:
    page = header(MODEL, KEY, SHAPE, PAYLOAD)
    assert len(page) == 4096
    check(page, PAYLOAD, fingerprint=MODEL, key=KEY, shape=SHAPE)


@given(at=st.integers(0, 4095), bit=st.integers(0, 7), in_header=st.booleans())
def test_any_flipped_bit_is_found(at: int, bit: int, in_header: bool) -> None:
    page, payload = bytearray(header(MODEL, KEY, SHAPE, PAYLOAD)), bytearray(PAYLOAD)
    used = bytes(page).rindex(b"\n") + 1
    (page if in_header else payload)[at % used if in_header else at] ^= 1 << bit
    with pytest.raises(ParseError):
        check(bytes(page), bytes(payload), fingerprint=MODEL, key=KEY, shape=SHAPE)


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param({"key": "ee" * 32}, id="another-sessions-chunk"),
        pytest.param({"fingerprint": KEY}, id="another-model"),
        pytest.param({"shape": (3, 2, 1)}, id="another-shape"),
    ],
)
def test_another_chunk_than_asked_for_is_found(asked: dict[str, object]) -> None:
    page = header(MODEL, KEY, SHAPE, PAYLOAD)
    with pytest.raises(ParseError, match="another chunk"):
        check(page, PAYLOAD, **({"fingerprint": MODEL, "key": KEY, "shape": SHAPE} | asked))


def signed(line: bytes) -> bytes:
    return line + b"\n" + hashlib.sha256(line).hexdigest().encode() + b"\n"


@pytest.mark.parametrize("page", [b"", b"\0" * 4096, signed(b"[]"), signed(b"{}"), signed(b"x")])
def test_what_is_no_header_is_refused(page: bytes) -> None:
    with pytest.raises(ParseError):
        check(page, PAYLOAD, fingerprint=MODEL, key=KEY, shape=SHAPE)
