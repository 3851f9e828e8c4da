import json

import pytest

from kvgate.errors import ParseError
from kvgate.load.rows import Failure
from kvgate.load.sse import SseParser
from kvgate.load.stream import Answer


def fold(stream: bytes) -> Answer:
    parser, answer = SseParser(), Answer()
    for at, event in enumerate(parser.feed(stream)):
        answer.add(event.data, float(at))
    return answer


def completion(text: str, **more: object) -> bytes:
    choice = {"index": 0, "text": text, "finish_reason": None} | more
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def usage(tokens: int, **more: object) -> bytes:
    fields = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": tokens, **more}}
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


def test_a_whole_answer() -> None:
    answer = fold(
        completion("a", token_ids=[97])
        + completion("bc", token_ids=[98, 99])
        + usage(3, prompt_tokens_details={"cached_tokens": 4})
        + DONE
    )
    assert answer.judge(3) is None
    assert answer.token_ids == [97, 98, 99]
    assert answer.times_s == [0.0, 1.0]
    assert answer.cached_tokens() == 4


@pytest.mark.parametrize(
    ("stream", "failure", "says"),
    [
        pytest.param(completion("a") + usage(1), Failure.TRUNCATED, "without", id="no-done"),
        pytest.param(completion("a") + DONE, Failure.COUNT, "no usage", id="no-usage"),
        pytest.param(completion("a") + usage(2) + DONE, Failure.COUNT, "usage says 2", id="count"),
        pytest.param(
            completion("a", token_ids=[1, 2]) + usage(1) + DONE,
            Failure.COUNT,
            "2 token ids",
            id="ids-against-usage",
        ),
        pytest.param(usage(1) + DONE, Failure.COUNT, "none came", id="usage-without-tokens"),
        pytest.param(
            completion("a") + b'data: {"error": "oom"}\n\n' + DONE,
            Failure.ENGINE,
            "oom",
            id="error-in-mid-stream",
        ),
    ],
)
def test_what_is_wrong_is_said(stream: bytes, failure: Failure, says: str) -> None:
    found = fold(stream).judge(1)
    assert found is not None
    assert found[0] is failure
    assert says in found[1]


@pytest.mark.parametrize(
    "data",
    [
        "<html>",
        "[]",
        "{}",
        '{"choices": 3}',
        '{"choices": [{}]}',
        '{"choices": [], "usage": 3}',
        '{"choices": [{"delta": 1}]}',
    ],
)
def test_an_event_of_unknown_shape_is_refused(data: str) -> None:
    with pytest.raises(ParseError):
        Answer().add(data, 0.0)


def test_what_was_not_said_is_not_zero() -> None:
    answer = fold(completion("a") + DONE)
    assert answer.reported("completion_tokens") is None
    assert answer.cached_tokens() is None
    assert fold(DONE).digest() is None
