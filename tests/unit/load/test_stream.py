import json
import pathlib

import pytest

from kvgate.errors import ParseError
from kvgate.load.rows import Failure
from kvgate.load.sse import SseEvent, SseParser
from kvgate.load.stream import Answer

CORPUS = pathlib.Path(__file__).parents[4] / "shared" / "corpus" / "sse"
SAMPLES = sorted(CORPUS.glob("*.txt"))


def fold(stream: bytes) -> Answer:
    parser, answer = SseParser(), Answer()
    for at, event in enumerate(parser.feed(stream)):
        answer.add(event, float(at))
    return answer


def completion(text: str, **more: object) -> bytes:
    choice = {"index": 0, "text": text, "finish_reason": None} | more
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def usage(tokens: int, **more: object) -> bytes:
    fields = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": tokens, **more}}
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


@pytest.mark.skipif(not SAMPLES, reason=f"no samples: {CORPUS.name} is not beside the repository")
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_streams_as_people_published_them(sample: pathlib.Path) -> None:
    facts = json.loads(sample.with_suffix(".txt.expect.json").read_text())["facts"]
    answer = fold(sample.read_bytes())
    found = {
        "failed": answer.engine_error is not None or not answer.done,
        "error_message": answer.engine_error,
        "content": "".join(answer.texts),
        "content_chunks": len(answer.texts),
        "finish_reason": answer.finish_reason,
        "usage": answer.usage,
        "done": answer.done,
    }
    for name, expected in facts.items():
        if name in found:
            assert found[name] == expected, name
        elif name == "usage_any_of":
            assert found["usage"] in expected
        else:
            assert name == "must_not_count_chunks_as_tokens"
            assert answer.judge(1) == (
                Failure.COUNT,
                "the endpoint reported no usage, so tokens can't be counted",
            )


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
        Answer().add(SseEvent(data), 0.0)


def test_what_was_not_said_is_not_zero() -> None:
    answer = fold(completion("a") + DONE)
    assert answer.reported("completion_tokens") is None
    assert answer.cached_tokens() is None
    assert fold(DONE).digest() is None
