import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvgate.errors import ParseError
from kvgate.load import sse
from kvgate.load.sse import SseEvent, SseParser


def parse(*pieces: bytes) -> list[SseEvent]:
    parser = SseParser()
    return [event for piece in pieces for event in parser.feed(piece)]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        pytest.param(b"data: a\n\n", [SseEvent("a")], id="one"),
        pytest.param(b"data:a\n\n", [SseEvent("a")], id="no-space"),
        pytest.param(b"data:  a\n\n", [SseEvent(" a")], id="only-one-space-goes"),
        pytest.param(b"data: a\r\n\r\ndata: b\r\n\r\n", [SseEvent("a"), SseEvent("b")], id="crlf"),
        pytest.param(b"data: a\r\rdata: b\r\r", [SseEvent("a"), SseEvent("b")], id="cr"),
        pytest.param(b"data: a\ndata: b\n\n", [SseEvent("a\nb")], id="two-lines"),
        pytest.param(b": ping\n\ndata: a\n\n", [SseEvent("a")], id="comment"),
        pytest.param(
            b"event: x\ndata: a\n\ndata: b\n\n",
            [SseEvent("a", "x"), SseEvent("b")],
            id="type-lasts-one-event",
        ),
        pytest.param(b"event: x\n\ndata: b\n\n", [SseEvent("b")], id="type-without-data"),
        pytest.param(b"id: 7\nretry: 3\nodd\ndata: a\n\n", [SseEvent("a")], id="other-fields"),
        pytest.param(b"\xef\xbb\xbfdata: a\n\n", [SseEvent("a")], id="byte-order-mark"),
        pytest.param(b"data\n\n", [SseEvent("")], id="data-without-colon"),
        pytest.param(b"data: a\n", [], id="not-ended"),
    ],
)
def test_streams(stream: bytes, expected: list[SseEvent]) -> None:
    assert parse(stream) == expected
    assert parse(*(stream[i : i + 1] for i in range(len(stream)))) == expected


LINE = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=12)
END = st.sampled_from(["\n", "\r\n", "\r"])


@given(events=st.lists(st.lists(LINE, min_size=1, max_size=3), max_size=5), end=END, data=st.data())
def test_any_split_gives_the_events_that_were_sent(
    events: list[list[str]], end: str, data: st.DataObject
) -> None:
    stream = "".join(
        "".join(f"data: {line}{end}" for line in lines) + f": note{end}" + end for lines in events
    ).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    edges = [0, *cuts, len(stream)]
    pieces = [stream[a:b] for a, b in itertools.pairwise(edges)]
    parser = SseParser()
    got = [event.data for piece in pieces for event in parser.feed(piece)]
    assert got == ["\n".join(lines) for lines in events]
    assert parser.close()


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_any_bytes_give_events_or_a_clear_error(pieces: list[bytes]) -> None:
    def outcome(*parts: bytes) -> list[SseEvent] | str:
        try:
            return parse(*parts)
        except ParseError:
            return "refused"

    assert outcome(*pieces) == outcome(b"".join(pieces))


WHOLE = [b"data: {}\n\n", b"data: a\n\ndata: b\n\n", b"data: \n\n", b"data:c\n\n", b": ping\n\n"]
PARTS = [
    b"data: d",
    b"\n",
    b"\n\n",
    b"\r\n",
    b"data: \xc3",
    b"\xa9\n\n",
    b"event: x\n",
    b"\xef\xbb\xbf",
    b"",
]
PIECE = st.sampled_from(WHOLE) | st.sampled_from(PARTS)


@given(st.lists(st.lists(PIECE, min_size=1, max_size=6), max_size=3))
def test_pieces_at_once_are_as_one_by_one(reads: list[list[bytes]]) -> None:
    """What is read the quick way is the same, with the same times."""

    def one_by_one() -> list[tuple[str, float]] | str:
        parser, at = SseParser(), itertools.count()
        try:
            found = [
                (event.data, float(n))
                for read in reads
                for n, piece in [(next(at), each) for each in read]
                for event in parser.feed(piece)
            ]
        except ParseError:
            return "refused"
        return [*found, ("whole", float(parser.close()))]

    def at_once() -> list[tuple[str, float]] | str:
        parser, at = SseParser(), itertools.count()
        found: list[tuple[str, float]] = []
        try:
            for read in reads:
                found += parser.feed_all(read, [float(next(at)) for _ in read])
        except ParseError:
            return "refused"
        return [*found, ("whole", float(parser.close()))]

    assert at_once() == one_by_one()


def test_a_cut_off_event_is_told() -> None:
    parser = SseParser()
    parser.feed(b"data: a\n\ndata: b")
    assert not parser.close()


def test_an_event_over_the_cap_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "EVENT_CAP_BYTES", 100)
    parser = SseParser()
    with pytest.raises(ParseError, match="more than 100 bytes"):
        parser.feed(b"data: 12345678\n" * 30)
    parser = SseParser()
    with pytest.raises(ParseError, match="more than 100 bytes"):
        parser.feed(b"x" * 101)


def test_data_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(ParseError, match="not UTF-8"):
        parse(b"data: \xff\n\n")
