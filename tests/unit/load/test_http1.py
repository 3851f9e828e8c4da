"""A response's body is the same however its bytes were split, or the response is refused."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from kvgate.errors import ParseError
from kvgate.load.http1 import Response

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKS = st.lists(st.binary(min_size=1, max_size=20), max_size=6)
EXTENSION = st.sampled_from([b"", b";a=b", b" "])


def read(pieces: list[bytes]) -> tuple[bytes, bool, bool] | str:
    """Return the body, whether it is whole, and whether the connection may be used again."""
    response, body = Response(), b""
    try:
        for piece in pieces:
            if not response.complete:
                body += b"".join(response.feed(piece))
    except ParseError:
        return "refused"
    return body, response.complete, response.keep_alive


def split(whole: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    return [piece for a, b in itertools.pairwise(edges) if (piece := whole[a:b])]


CUTS = st.lists(st.integers(0, 400), max_size=8)


@given(chunks=CHUNKS, extension=EXTENSION, trailer=st.sampled_from([b"", b"X: y\r\n"]), cuts=CUTS)
def test_any_split_gives_the_body(
    chunks: list[bytes], extension: bytes, trailer: bytes, cuts: list[int]
) -> None:
    sent = b"".join(b"%x%s\r\n%s\r\n" % (len(each), extension, each) for each in chunks)
    whole = HEAD + sent + b"0\r\n" + trailer + b"\r\n"
    assert read(split(whole, cuts)) == (b"".join(chunks), True, True)


NOISE = st.sampled_from(
    [b"\r\n", b"5", b"0", b"\n", b"a", b"-1", b"\r", b"5\r\nhello\r\n", b"ffffffff"]
)


@given(noise=st.lists(NOISE, max_size=10), cuts=CUTS)
def test_lies_are_refused_however_they_come(noise: list[bytes], cuts: list[int]) -> None:
    whole = HEAD + b"".join(noise)
    together, apart = read([whole]), read(split(whole, cuts))
    assert together[:2] == apart[:2]
