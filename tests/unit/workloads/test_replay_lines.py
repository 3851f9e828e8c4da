"""What hosts may say in place of a replay's lines: refused by name, none of it believed."""

from __future__ import annotations

import json
import threading
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from kvgate.errors import NotRunError, ParseError
from kvgate.workloads import replay_lines
from kvgate.workloads.replay import _Lines
from kvgate.workloads.replay_result import Replayed, parsed

BEGIN: dict[str, Any] = {
    **dict.fromkeys(("file_system", "source", "device", "content_by", "checked_by"), ""),
    "begin": 1,
    "python": "3.8.1",
    "removed": [],
}
LEVEL: dict[str, Any] = {
    **dict.fromkeys(replay_lines._LEVEL, 1),
    "phase": "restore",
    "restored": [[0, 1.5]],
    "reads": [[1000, 2]],
    "damages": [[0, 1, "flipped", "has 1 flipped bit"]],
    "lost": "",
    **{key: [] for key in ("stored", "writes", "cold")},
}
PLANTS: dict[str, Any] = {"phase": "plants", "rows": [["short", 0, 1, ""]], "others": 0, "lost": ""}
FULL: dict[str, Any] = {
    **dict.fromkeys(("evicted", "free"), 2),
    "phase": "full",
    "reached": True,
    "recovered": True,
    "lost": "",
}


def said(*lines: dict[str, Any]) -> bytes:
    return b"\n".join(json.dumps(line).encode() for line in lines)


def test_right_lines_are_taken() -> None:
    found = parsed("box", said(BEGIN, LEVEL, PLANTS, FULL, {"end": 1}))
    assert found.whole
    assert len(found.levels) == 1


@pytest.mark.parametrize(
    ("text", "error", "why"),
    [
        (b"", ParseError, "said nothing"),
        (b"[1]\n", ParseError, "no JSON object"),
        (b"hello\n", ParseError, "no JSON"),
        (b"\x1b]0;mine\x07\n", ParseError, r"\\x1b\]0;mine\\x07', no JSON"),
        (b"\xff\xfe\n", ParseError, "no JSON"),
        (b"[" * 100_000, ParseError, "no JSON"),
        (b'{"seconds":' + b"9" * 5000 + b"}", ParseError, "no JSON"),
        (b'{"begin":1}\n', ParseError, "lacks 'file_system'"),
        (b'{"phase":"restore","seconds":1}\n', ParseError, "'restore' of the replay lacks 'pct'"),
        (b'{"refused":"no\\u001b[2J","hint":"go"}\n', NotRunError, r"box: no\\x1b\[2J"),
        (b'{"refused":1,"hint":"go"}\n', ParseError, "has refused: 1"),
    ],
)
def test_lines_that_are_none_are_refused(text: bytes, error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        parsed("box", text)


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        (LEVEL, "seconds", "1"),
        (LEVEL, "seconds", float("nan")),
        (LEVEL, "seconds", float("inf")),
        (LEVEL, "seconds", -1),
        (LEVEL, "bytes_read", 1.5),
        (LEVEL, "bytes_read", -1),
        (LEVEL, "bytes_read", 2**64),
        (LEVEL, "damaged", True),
        (LEVEL, "device_read", -2),
        (LEVEL, "phase", "\x1b[31mrestore"),
        (LEVEL, "restored", [[0]]),
        (LEVEL, "restored", [[0, None]]),
        (LEVEL, "reads", {"1": 1}),
        (LEVEL, "reads", [[1, 0]]),
        (LEVEL, "damages", [[0, 1, "flipped", 2]]),
        (LEVEL, "lost", None),
        (BEGIN, "removed", "a"),
        (PLANTS, "rows", [["short", 0, 1]]),
        (FULL, "reached", "yes"),
        (FULL, "recovered", 1),
    ],
)
def test_a_value_of_the_wrong_kind_is_named(line: dict[str, Any], key: str, value: object) -> None:
    with pytest.raises(ParseError, match=f"box: .* of the replay has {key}: ") as caught:
        parsed("box", said(BEGIN, {**line, key: value}))
    assert "\x1b" not in caught.value.message


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@hypothesis.given(
    st.sampled_from([BEGIN, LEVEL, PLANTS, FULL]), st.data(), st.lists(json_values, max_size=2)
)
@hypothesis.settings(max_examples=150, deadline=None)
def test_whatever_a_host_says_is_parsed_or_refused(
    line: dict[str, Any], data: st.DataObject, more: list[Any]
) -> None:
    key = data.draw(st.sampled_from(sorted(line)))
    lines = [BEGIN, {**line, key: data.draw(json_values)}, *more]
    try:
        found = parsed("box", b"\n".join(json.dumps(each).encode() for each in lines))
    except (ParseError, NotRunError):
        return
    used(found)


def used(found: Replayed) -> None:
    """Use all that is made of a host's lines: none of it may break."""
    assert found.damaged >= 0
    assert found.problems is not None
    assert found.damages is not None
    for level in found.levels:
        for figure in (level.rate("read"), level.time(50), level.chunk_s(50), level.cpu_per_gb()):
            assert figure is None or figure >= 0
        assert level.name
        assert level.not_cold is not None


def lines() -> tuple[_Lines, list[str]]:
    told: list[str] = []
    made: Any = _Lines
    return made(None, "/x", None, 0.0, (told.append, threading.Event().set)), told


@pytest.mark.parametrize(
    "line",
    [
        *(b"5", b'"ready"', b'{"ready":null}', b'{"ready":[1]}', b'{"ready":true}', b'{"ready":7}'),
        *(b'{"seconds":1}', b'{"phase":"\\u001b[2J","seconds":1}', b"[" * 50_000, b"\xff"),
    ],
)
def test_nothing_is_done_for_a_line_that_is_wrong(line: bytes) -> None:
    taken, told = lines()
    taken.take(line + b"\n")
    assert not taken._ready
    assert not told


def test_each_start_is_asked_for_once_and_in_order() -> None:
    taken, _ = lines()
    for number in (1, 1, 3, 2, 2, 10**30):
        taken.take(b'{"ready":%d}\n' % number)
    assert taken._ready == [1, 2]


def test_a_line_may_come_in_any_pieces() -> None:
    taken, told = lines()
    for byte in said(LEVEL) + b"\n" + said(LEVEL):  # the last has not ended
        taken.take(bytes([byte]))
    assert told == ["restore: 1.0 s"]
