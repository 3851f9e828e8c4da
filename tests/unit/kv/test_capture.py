"""Captures hold lengths, times and salted hashes: never a text, a token id, a name or a header."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.cli import main
from kvgate.errors import UsageError
from kvgate.kv.capture import Blinder, Seen, in_order
from kvgate.kv.trace import requests
from kvgate.kv.trace_tokens import encoder, prefix_ids

Run = Callable[..., Path]
SECRET = "the patient's name is Zaphod Beeblebrox and his key is sk-topsecret"
SYSTEM = {"role": "system", "content": "You are careful. " * 20}


def body(*texts: str, **more: Any) -> dict[str, Any]:
    messages = [SYSTEM, *({"role": "user", "content": each} for each in texts)]
    return {"model": "company-internal-model", "messages": messages, "user": "alice"} | more


def logged(time: Any, *texts: str) -> dict[str, Any]:
    return {
        "timestamp": time,
        "headers": {"Authorization": "Bearer abcdefghijklmnop"},
        "request": body(*texts),
        "response": {"id": "chatcmpl-1", "usage": {"prompt_tokens": 1, "completion_tokens": 33}},
    }


@pytest.fixture
def capture(tmp_path: Path) -> Run:
    """Capture lines of a log and return the trace."""

    def run(option: str, *lines: Any, name: str = "out.jsonl", code: int = 0) -> Path:
        log, out = tmp_path / "log", tmp_path / name
        texts = (each if isinstance(each, str) else json.dumps(each) for each in lines)
        log.write_text("".join(f"{each}\n" for each in texts))
        assert main(["capture", option, str(log), "-o", str(out)]) == code
        return out

    return run


KEYS = {"timestamp", "input_length", "output_length", "hash_ids", "block_size"}


def assert_nothing_of_it(path: Path, *texts: str) -> None:
    """Hold that a trace is numbers under known keys, and that no word of `texts` is in it."""
    content = path.read_text()
    for line in content.splitlines():
        record = json.loads(line)
        assert set(record) == KEYS
        assert all(type(value) is int for key, value in record.items() if key != "hash_ids")
        assert all(type(each) is int for each in record["hash_ids"])
    words = {word for text in texts for word in re.findall(r"\w{3,}", text)} - KEYS
    assert words
    assert not [word for word in words if word in content]
    for text in texts:
        for each in encoder(None)(text):  # a short one is in any hash by chance
            assert each < 10**8 or str(each) not in content


def test_an_access_log_becomes_a_trace_without_its_texts(capture: Run) -> None:
    lines = [logged(1_700_000_003, SECRET, "more"), logged(1_700_000_000, SECRET), {"time": 1}]
    path = capture("--access-log", *lines)
    first, second = requests([path])
    assert (first.time_s, second.time_s) == (0.0, 3.0)
    assert (first.output_tokens, first.block_tokens) == (33, 16)
    shared = [a == b for a, b in zip(first.ids.tolist(), second.ids.tolist(), strict=False)]
    assert all(shared[:-1]) and len(second.ids) >= len(first.ids)  # noqa: PT018
    assert path.stat().st_mode & 0o77 == 0
    assert_nothing_of_it(path, SECRET, SYSTEM["content"], "Bearer abcdefghijklmnop", "alice",
                         "company-internal-model", "chatcmpl-1", "1700000003")  # fmt: skip


def test_two_captures_of_one_log_have_no_hash_in_common(capture: Run) -> None:
    one = capture("--access-log", logged(1, SECRET), name="one")
    two = capture("--access-log", logged(1, SECRET), name="two")
    first, second = (next(requests([each])) for each in (one, two))
    assert len(first.ids) == len(second.ids)
    assert not set(first.ids.tolist()) & set(second.ids.tolist())
    unsalted = prefix_ids(encoder(None)(SECRET), 16)
    assert not set(first.ids.tolist()) & set(unsalted)


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(st.text(min_size=1, max_size=200), min_size=2, max_size=2), same=st.text())
def test_equal_prefixes_have_equal_hashes_and_others_do_not(texts: list[str], same: str) -> None:
    blinder = Blinder(2, encoder(None))
    found = [blinder.of_text(0.0, same + each, 0) for each in texts]
    plain = [prefix_ids(encoder(None)(same + each), 2) for each in texts]
    equal = [a == b for a, b in zip(found[0].ids, found[1].ids, strict=False)]
    assert equal == [a == b for a, b in zip(*plain, strict=False)]
    assert not set(found[0].ids) & set(plain[0])


def test_the_salt_is_in_nothing_that_is_shown_or_kept(
    monkeypatch: pytest.MonkeyPatch, capture: Run
) -> None:
    salt = bytes(range(200, 232))
    monkeypatch.setattr("kvgate.kv.capture.os.urandom", lambda size: salt[:size])
    assert salt.hex() not in repr(Blinder(16, encoder(None)))
    content = capture("--access-log", logged(1, SECRET)).read_bytes()
    for part in (salt, salt.hex().encode(), str(int.from_bytes(salt[:8], "little")).encode()):
        assert part not in content


VLLM = "INFO 06-01 12:00:0%d [logger.py:43] Received request chatcmpl-9: prompt: %r, params: P(n=1)"


def test_vllms_log(capture: Run) -> None:
    quoted = SECRET + ' "quoted" \\ \n line'
    lines = [
        "INFO 06-01 11:59:59 [api_server.py:1] Started",
        VLLM % (1, quoted),
        VLLM % (2, quoted + " and on")
        + ", prompt_token_ids: [900000000000001, 900000000000002, 7]",
    ]
    path = capture("--engine-log", *lines)
    first, second = requests([path])
    assert (first.time_s, second.time_s, second.input_tokens) == (0.0, 1.0, 3)
    assert first.input_tokens == -(-len(quoted) // 4)
    assert_nothing_of_it(path, quoted, "chatcmpl-9")
    assert "900000000000001" not in path.read_text()


@pytest.mark.parametrize(
    ("option", "line", "says"),
    [
        ("--access-log", "[1]", "line 1: no object"),
        ("--access-log", "{", "line 1: no JSON"),
        ("--access-log", {"messages": []}, "line 1: no time"),
        ("--access-log", {"time": "yesterday", "prompt": "x"}, "'time' is no time of ISO 8601"),
        ("--access-log", {"time": 1, "request": "{"}, "line 1: no JSON"),
        ("--engine-log", "Received request a-1: prompt: 'x'", "without a time"),
        ("--engine-log", "06-01 12:00:00 Received request a-1: prompt: 'x", "cut off"),
        ("--engine-log", "06-01 12:00:00 Received request a-1: params: P()", "without prompt"),
        ("--engine-log", "13-41 12:00:00 Received request a-1: prompt: 'x'", "no time"),
    ],
)
def test_logs_that_cannot_be_read_are_refused_without_quoting_them(
    capture: Run, capsys: pytest.CaptureFixture[str], option: str, line: Any, says: str
) -> None:
    capture(option, line, code=64)
    assert says in capsys.readouterr().err


def test_nothing_to_capture_and_nothing_overwritten(
    capture: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = capture("--access-log", {"time": 1, "path": "/health"}, code=2)
    assert path.read_bytes() == b""
    assert main(["capture", "--access-log", str(tmp_path / "log"), "-o", str(path)]) == 64
    assert "File exists" in capsys.readouterr().err


def test_requests_come_in_order_or_not_at_all() -> None:
    made = [Seen(float(time), 1, 1, ()) for time in (3, 1, 2, 5, 4)]
    assert [each.time_s for each in in_order(made, held=2)] == [1, 2, 3, 4, 5]
    with pytest.raises(UsageError, match="too late"):
        list(in_order([Seen(float(9 - at), 1, 1, ()) for at in range(9)], held=2))


def test_a_log_that_cannot_be_read_to_its_end_leaves_no_trace(capture: Run) -> None:
    assert not capture("--access-log", logged(1, "a"), "broken", code=64).exists()
    assert len(list(requests([capture("--access-log", logged(1, "a"))]))) == 1
