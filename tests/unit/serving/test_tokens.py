from hypothesis import given
from hypothesis import strategies as st

from kvgate.serving.tokens import Detokenizer, StopText, encode, token_bytes


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


@given(
    st.text(alphabet="abc", max_size=30),
    st.lists(st.text(alphabet="abc", min_size=1, max_size=3), max_size=3),
    st.data(),
)
def test_a_stop_text_ends_an_answer_however_it_is_cut(text: str, stops: list[str], data) -> None:
    stopper, shown, stop = StopText(stops), "", None
    rest = text
    while rest and stop is None:
        size = data.draw(st.integers(1, len(rest)))
        piece, rest = rest[:size], rest[size:]
        more, stop = stopper.add(piece, last=not rest)
        shown += more
    ends = [at for each in stops if (at := text.find(each)) >= 0]
    if stop is None:
        assert (shown, ends) == (text, [])
    else:
        assert text.startswith(shown + stop)
        assert not any(each in shown for each in stops)
