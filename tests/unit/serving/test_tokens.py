from hypothesis import given
from hypothesis import strategies as st

from kvgate.serving.tokens import Detokenizer, encode, token_bytes


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_text_comes_back(text: str) -> None:
    tokens = encode(text)
    detokenizer = Detokenizer()
    parts = [detokenizer.add(token, last=i == len(tokens)) for i, token in enumerate(tokens, 1)]
    assert "".join(parts) == text
    assert len(tokens) == len(text.encode())


def test_half_a_character_waits() -> None:
    detokenizer = Detokenizer()
    assert [detokenizer.add(token) for token in encode("é")] == ["", "é"]


def test_half_a_character_at_the_end_is_marked() -> None:
    assert Detokenizer().add(encode("é")[0], last=True) == "\ufffd"


def test_every_id_stands_for_something_of_its_own() -> None:
    assert len({token_bytes(token) for token in range(1024)}) == 1024
