import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvgate.errors import ParseError
from kvgate.serving.chunkfile import check, chunk_keys, facts_of_stored, header, read_header

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


def page_of(payload: bytes = PAYLOAD) -> bytes:
    sha256 = hashlib.sha256(payload).hexdigest()
    return header(MODEL, SHAPE, facts_of_stored(sha256, "none", payload))


def read(page: bytes, payload: bytes, **asked) -> None:
    facts = read_header(page, **({"fingerprint": MODEL, "shape": SHAPE, "name": KEY} | asked))
    check(facts, payload, name=KEY)


def test_a_whole_chunk_holds() -> None:
    page = page_of()
    assert len(page) == 4096
    read(page, PAYLOAD)


@given(at=st.integers(0, 4095), bit=st.integers(0, 7), in_header=st.booleans())
def test_any_flipped_bit_is_found(at: int, bit: int, in_header: bool) -> None:
    page, payload = bytearray(page_of()), bytearray(PAYLOAD)
    used = bytes(page).rindex(b"\n") + 1
    (page if in_header else payload)[at % used if in_header else at] ^= 1 << bit
    with pytest.raises(ParseError):
        read(bytes(page), bytes(payload))


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param({"fingerprint": KEY}, id="another-model"),
        pytest.param({"shape": (3, 2, 1)}, id="another-shape"),
    ],
)
def test_another_chunk_than_asked_for_is_found(asked: dict[str, object]) -> None:
    with pytest.raises(ParseError, match="another chunk"):
        read(page_of(), PAYLOAD, **asked)


def test_a_payload_that_is_too_short_is_found() -> None:
    with pytest.raises(ParseError, match="checksum"):
        read(page_of(), PAYLOAD[:-1])


def test_another_salt_has_other_keys() -> None:
    plain, salted, again = (chunk_keys(MODEL, [1, 2], 2, salt) for salt in ("", "a", "a"))
    assert plain != salted == again


def signed(line: bytes) -> bytes:
    return line + b"\n" + hashlib.sha256(line).hexdigest().encode() + b"\n"


@pytest.mark.parametrize("page", [b"", b"\0" * 4096, signed(b"[]"), signed(b"{}"), signed(b"x")])
def test_what_is_no_header_is_refused(page: bytes) -> None:
    with pytest.raises(ParseError):
        read(page, PAYLOAD)
