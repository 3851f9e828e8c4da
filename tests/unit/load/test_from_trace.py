import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvgate.kv import assess, trace
from kvgate.load.from_trace import Replay, TraceSource
from kvgate.load.issued import Came, came
from kvgate.load.prompts import TextRate
from kvgate.load.rows import Failure, Request, Row

Rows = Callable[..., Row]
LINES = [
    {"timestamp": 5.0, "chat_id": 1, "parent_chat_id": -1, "input": 40, "ids": [1, 2, 3]},
    {"timestamp": 7.0, "chat_id": 2, "parent_chat_id": -1, "input": 20, "ids": [1, 9]},
    {"timestamp": 8.0, "chat_id": 3, "parent_chat_id": 1, "input": 64, "ids": [1, 2, 3, 4]},
    {"timestamp": 9.0, "chat_id": 4, "parent_chat_id": 3, "input": 80, "ids": [1, 2, 3, 4, 5]},
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write a trace in Qwen-Bailian's form: two conversations, one of three turns."""
    rows = [
        {
            **{key: each[key] for key in ("timestamp", "chat_id", "parent_chat_id")},
            "input_length": each["input"],
            "output_length": 6,
            "type": "text",
            "turn": 1,
            "hash_ids": each["ids"],
        }
        for each in LINES
    ]
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def source_of(path: Path, **how: Any) -> TraceSource:
    return TraceSource(trace.requests([path]), Replay(seed=1, **how))


def all_of(source: TraceSource) -> list[Request]:
    found: list[Request] = []
    while (request := source.next()) is not None:
        found.append(request)
    return found


def test_requests_come_as_the_trace_says(path: Path) -> None:
    sent = all_of(source_of(path, speed=2.0))
    assert [each.due_s for each in sent] == [0.0, 1.0, 1.5, 2.0]
    assert [len(each.prompt) for each in sent] == [40, 20, 64, 80]
    assert {each.output_tokens for each in sent} == {6}
    assert sent[0].prompt[:40] == sent[2].prompt[:40]
    assert sent[0].prompt[:16] == sent[1].prompt[:16]
    assert sent[0].prompt[16:20] != sent[1].prompt[16:20]
    assert [(each.session, each.turn) for each in sent][2:] == [
        ("trace.jsonl:conversation-0", 1),
        ("trace.jsonl:conversation-0", 2),
    ]


def test_what_is_issued_shares_what_the_trace_shares(path: Path, row_of: Rows) -> None:
    source = source_of(path)
    rows = [
        row_of(session=each.session, turn=each.turn, sent_s=each.due_s or 0.0)
        for each in all_of(source)
    ]
    found = came([(source.issued, rows)])
    assert found is not None
    traced = assess.assess(trace.batches([path]), assess.Question())
    assert found.assessment.totals.input_tokens == traced.totals.input_tokens
    assert found.asked == pytest.approx(traced.shared)
    assert abs(found.shared - traced.shared) * traced.totals.input_tokens <= 16
    assert found.off == ""


def test_smaller_blocks_share_as_much_and_a_content_that_does_not_is_told(
    path: Path, row_of: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    def issued() -> Came:
        source = source_of(path, block=4)
        rows = [row_of(session=each.session, turn=each.turn) for each in all_of(source)]
        found = came([(source.issued, rows)])
        assert found is not None
        return found

    assert issued().off == ""
    assert issued().shared > 0.4
    monkeypatch.setattr("kvgate.load.from_trace.stream_of", lambda *_: next(numbers))
    numbers = itertools.count()
    monkeypatch.setattr("kvgate.load.from_trace._AT_HAND", 0)
    assert "a shared-prefix ratio of 0.000 came of 0." in issued().off


def test_blocks_can_be_made_smaller(path: Path) -> None:
    sent = all_of(source_of(path, block=4))
    assert [len(each.prompt) for each in sent] == [10, 5, 16, 20]
    assert sent[2].prompt[:10] == sent[0].prompt


def test_a_conversation_can_wait_for_its_answers(path: Path, row_of: Rows) -> None:
    source = source_of(path, turns="after answers", think_s=2.0)
    assert source.follows
    sent = all_of(source)
    assert [each.due_s for each in sent] == [0.0, 2.0]
    row = row_of(session=sent[0].session, due_s=0.0, sent_s=0.0, end_s=0.5)
    second = source.ended(row, ())
    assert second is not None
    assert (second.turn, second.due_s) == (1, 3.0)  # when the trace says: later than the think
    row = row_of(session=sent[0].session, turn=1, due_s=3.0, sent_s=3.0, end_s=4.0)
    third = source.ended(row, ())
    assert third is not None
    assert third.due_s == 9.0
    assert source.ended(row_of(session=sent[1].session), ()) is None


def test_a_conversation_that_failed_is_dropped_and_counted(path: Path, row_of: Rows) -> None:
    source = source_of(path, turns="after answers")
    first = all_of(source)[0]
    failed = row_of(session=first.session, failure=Failure.HTTP)
    assert source.ended(failed, ()) is None
    assert source.dropped == 2


def test_parts_keep_conversations_whole(path: Path) -> None:
    parts = [all_of(source_of(path, part=part, parts=2)) for part in (0, 1)]
    assert [len(each) for each in parts] == [3, 1]
    assert sorted(each.due_s or 0.0 for part in parts for each in part) == [0.0, 2.0, 3.0, 4.0]


def test_no_more_than_asked_for(path: Path) -> None:
    assert len(all_of(source_of(path, most=2))) == 2


def test_texts_where_an_engine_takes_no_ids(path: Path) -> None:
    sent = all_of(source_of(path, text=TextRate()))
    assert [len(str(each.prompt).split()) for each in sent] == [40, 20, 64, 80]
    assert str(sent[2].prompt).startswith(str(sent[0].prompt))


def test_a_broken_trace_is_named_with_its_line(tmp_path: Path) -> None:
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"timestamp": 1}\n')
    with pytest.raises(trace.TraceError, match=r"broken.jsonl.*line 1|broken.jsonl:1"):
        all_of(source_of(broken))


@pytest.mark.parametrize("wrong", [{"speed": 0.0}, {"think_s": -1.0}, {"block": 0}, {"part": 1}])
def test_what_can_not_be_replayed_is_refused(path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        source_of(path, **wrong)
