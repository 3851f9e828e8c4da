"""Published streams of engines, as the load client reads them: their facts hold."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kvgate.load.rows import Failure
from kvgate.load.sse import SseParser
from kvgate.load.stream import Answer

SAMPLES = sorted(Path(os.environ["KVGATE_CORPUS"]).glob("sse/*.txt"))


def fold(stream: bytes) -> Answer:
    parser, answer = SseParser(), Answer()
    for at, event in enumerate(parser.feed(stream)):
        answer.add(event.data, float(at))
    return answer


def test_there_are_samples() -> None:
    assert SAMPLES


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_streams_as_people_published_them(sample: Path) -> None:
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
