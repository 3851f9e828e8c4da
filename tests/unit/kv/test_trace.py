"""Traces read: every format, packed or not, by both readers, and what is refused."""

from __future__ import annotations

import gzip
import importlib.util
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvgate.errors import UsageError
from kvgate.kv.trace import Options, Request, TraceError, batches, requests
from kvgate.kv.trace_tokens import prefix_ids

Put = Callable[..., Path]
STRICT = Options(fast=False)


def line(time: Any = 0, tokens: Any = 1000, ids: Any = (0, 1), output: Any = 5, **more: Any) -> str:
    record = {"timestamp": time, "input_length": tokens, "output_length": output}
    return json.dumps(record | {"hash_ids": list(ids)} | more)


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """Write lines (or bytes) into a file."""

    def write(*content: str | bytes, name: str = "t.jsonl", end: str = "\n") -> Path:
        path = tmp_path / name
        parts = [each if isinstance(each, bytes) else (each + end).encode() for each in content]
        path.write_bytes(b"".join(parts))
        return path

    return write


def told(found: list[Request]) -> list[tuple[Any, ...]]:
    return [
        (each.line, each.time_s, each.input_tokens, each.output_tokens, each.ids.tolist(),
         each.session, each.block_tokens)
        for each in found
    ]  # fmt: skip


def read(path: Path, options: Options | None = None) -> list[tuple[Any, ...]]:
    return told(list(requests([path], options)))


def refused(path: Path, *paths: Path, options: Options | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        list(batches([path, *paths], options))
    return caught.value.message


def test_mooncake_lines(put: Put) -> None:
    path = put(line(0), line(3000, 1025, (0, 2, 3), 7))
    assert read(path) == [(1, 0.0, 1000, 5, [0, 1], -1, 512), (2, 3.0, 1025, 7, [0, 2, 3], -1, 512)]
    assert read(path, STRICT) == read(path)


def test_qwens_chats_are_conversations(put: Put) -> None:
    more = {"type": "text", "turn": 1}
    path = put(
        line(0.5, 17, (1, 2), chat_id=7, parent_chat_id=-1, **more),
        line(1.25, 5, (3,), chat_id=8, parent_chat_id=-1, **more),
        line(2.0, 33, (1, 2, 4), chat_id=9, parent_chat_id=7, **more),
        line(3.0, 33, (1, 2, 5), chat_id=10, parent_chat_id=9, **more),
    )
    found = read(path)
    assert [(row[1], row[5], row[6]) for row in found] == [
        (0.5, 0, 16), (1.25, 1, 16), (2.0, 0, 16), (3.0, 0, 16)
    ]  # fmt: skip
    assert read(path, STRICT) == found


def weka(*entries: dict[str, Any], scope: str = "local") -> str:
    return json.dumps(
        {"id": "t", "block_size": 64, "hash_id_scope": scope, "requests": list(entries)}
    )


def asked(t: float, tokens: int, *ids: int) -> dict[str, Any]:
    return {"t": t, "type": "s", "in": tokens, "out": 3, "hash_ids": list(ids), "stop": "x"}


def test_weka_files_are_merged_by_time_and_local_ids_stay_apart(put: Put) -> None:
    nested = {"t": 1.0, "type": "subagent", "requests": [asked(1.0, 64, 9), asked(6.0, 64, 8)]}
    one = put(weka(asked(0.0, 130, 1, 2), nested, asked(5.0, 128, 1, 2)), name="a.json")
    two = put(weka(asked(2.0, 70, 1)), name="b.json")
    found = list(requests([one, two]))
    assert [each.time_s for each in found] == [0.0, 1.0, 2.0, 5.0, 6.0]
    assert [Path(each.file).name for each in found] == ["a.json"] * 2 + ["b.json"] + ["a.json"] * 2
    assert found[0].ids.tolist() == found[3].ids.tolist()
    assert found[2].ids[0] != found[0].ids[0]
    shared = put(weka(asked(2.0, 70, 1), scope="global"), name="c.json")
    assert read(shared)[0][4] == [1]


def test_plain_lines_become_prefix_blocks(put: Put) -> None:
    path = put("[1, 2, 3, 4, 5]", '{"token_ids": [1, 2, 3, 9], "output_length": 2}', "[1, 2, 7, 4]")
    rows = read(path, Options(block_tokens=2))
    assert [(row[1], row[2], len(row[4])) for row in rows] == [(0, 5, 3), (1, 4, 2), (2, 4, 2)]
    first, second, third = (row[4] for row in rows)
    assert first[0] == second[0] == third[0]
    assert len({first[1], second[1], third[1]}) == 3  # equal tokens behind another prefix differ
    assert rows[1][3] == 2


def test_texts_without_a_tokenizer_and_messages(put: Put) -> None:
    messages = [{"role": "user", "content": "hello there"}]
    more = [*messages, {"role": "assistant", "content": "hi"}]
    path = put('"abcdefgh"', '{"text": "abcdefgh, and on"}',
               json.dumps({"messages": messages}), json.dumps({"messages": more}))  # fmt: skip
    rows = read(path, Options(block_tokens=2))
    assert rows[0][2] == 2
    assert rows[0][4][0] == rows[1][4][0]
    shared = [a == b for a, b in zip(rows[2][4], rows[3][4], strict=False)]
    assert shared.count(True) >= len(rows[2][4]) - 1


def test_a_tokenizer_is_used(put: Put, tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.models.WordLevel({"a": 1, "b": 2, "?": 3}, unk_token="?")
    made = tokenizers.Tokenizer(words)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))
    path = put('"a b a c"')
    options = Options(block_tokens=4, tokenizer=tmp_path / "tokenizer.json")
    assert read(path, options)[0][4] == prefix_ids([1, 2, 1, 3], 4)
    (tmp_path / "tokenizer.json").write_text("{}")
    assert "no tokenizer.json" in refused(path, options=options)


def zstd(content: bytes) -> bytes:
    module = pytest.importorskip("zstandard")
    made: bytes = module.ZstdCompressor().compress(content)
    return made


@pytest.mark.parametrize(
    "wrap",
    [
        gzip.compress,
        lambda content: gzip.compress(content[:40]) + gzip.compress(content[40:]),
        zstd,
        lambda content: b"\xef\xbb\xbf" + content,
        lambda content: content.replace(b"\n", b"\r\n"),
        lambda content: b"\n \n" + content.replace(b"\n", b"\n\n"),
        lambda content: content.rstrip(b"\n"),
    ],
    ids=["gzip", "gzip-members", "zstd", "bom", "windows", "blank-lines", "no-end"],
)
def test_packed_and_odd_files_simply_work(put: Put, wrap: Callable[[bytes], bytes]) -> None:
    content = "".join(line(1000 * at, 600, (0, at + 1)) + "\n" for at in range(20)).encode()
    plain = [row[1:] for row in read(put(content))]
    packed = put(wrap(content), name="packed")
    assert [row[1:] for row in read(packed)] == plain
    assert [row[1:] for row in read(packed, STRICT)] == plain


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (line()[:40], "line 2: no JSON"),
        ("{", "line 2: no JSON"),
        (line(tokens="7"), "line 2: 'input_length' is \"7\": tokens are a whole number from 0"),
        (line(tokens=1000.0), "line 2: 'input_length' is 1000.0"),
        (line(tokens=True, ids=(1,)), "line 2: 'input_length' is true"),
        (line(tokens=-1, ids=()), "line 2: 'input_length' is -1"),
        (line(output=None), "line 2: 'output_length' is null"),
        (line(time="0"), "line 2: 'timestamp' is \"0\": no time"),
        (line(time=float("nan")), "line 2: no JSON: NaN"),
        (line(ids=(0, -1)), "line 2: 'hash_ids' holds -1"),
        (line(ids=(0, 2**63)), "line 2: 'hash_ids' holds 9223372036854775808"),
        (line(ids=(0, 1.5)), "line 2: 'hash_ids' holds 1.5"),
        (line(tokens=1025), "line 2: 2 hash_ids contradict an input_length of 1025"),
        (line(tokens=512), "line 2: 2 hash_ids contradict an input_length of 512"),
        (line(time=-1), "line 2: time goes backwards: -0.001 s after 0 s"),
        (line(block_size=64), "line 2: blocks of 64 tokens, and the lines before it have 512"),
        ('{"timestamp": 1, "input_length": 0, "output_length": 1}', "'hash_ids' is missing"),
        ("[1, 2]", "line 2: [1, 2] is no request"),
        (b'{"timestamp": "\xff"}\n', "line 2: no UTF-8"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(put: Put, bad: str | bytes, says: str) -> None:
    path = put(line(), bad, line(9))
    for options in (None, STRICT):
        message = refused(path, options=options)
        assert message.startswith(f"{path}: line 2: ") or says.startswith("'")
        assert says in message


def test_a_line_far_into_the_file_is_named(put: Put) -> None:
    lines = [line(at, 600, (0, at)) for at in range(90_000)]
    lines[77_776] = lines[77_776].replace("600", "6000")
    assert "line 77777: 2 hash_ids contradict" in refused(put("\n".join(lines)))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "empty"),
        (b"\n \n", "empty"),
        (b"\xff\xfe{\x00", "UTF-16"),
        (gzip.compress(b"x" * 10_000, mtime=0)[:-12], "damaged or cut off"),
        (bytes(range(256)), "no JSON"),
        (b'{"a": 1}\n', "no request of a format that is known"),
        (b'{"block_size": 64, "hash_id_scope": "local", "requests": []}', "no request in it"),
        (b'{"block_size": 64, "hash_id_scope": "near", "requests": []}', "'hash_id_scope' is"),
        (b'{"hash_id_scope": "local", "requests": []}', "'block_size' is missing"),
        (weka(asked(0, 64, 1)).encode()[:-20], "request 1: no JSON, or cut off"),
        (weka(asked(0, 640, 1)).encode(), "request 1: 1 hash_ids contradict 640 tokens"),
        (weka(asked(5, 64, 1), asked(1, 64, 1)).encode(), "time goes backwards"),
        (weka(asked(5, 64, 2**41)).encode(), "'hash_ids' holds"),
    ],
)
def test_files_that_are_no_trace(put: Put, content: bytes, says: str) -> None:
    path = put(content)
    message = refused(path)
    assert message.startswith(f"{path}: ")
    assert says in message


def test_what_does_not_belong_together(put: Put, tmp_path: Path) -> None:
    one, two = put(line(), name="one"), put(weka(asked(0, 64, 1)), name="two")
    assert "blocks of 64 tokens, and another file has 512" in refused(one, two)
    assert "not of 16" in refused(one, options=Options(block_tokens=16))
    assert "No such file" in refused(tmp_path / "none")


def test_a_trace_is_never_whole_in_memory(put: Put) -> None:
    path = put("\n".join(line(at, 600, (0, at)) for at in range(120_000)))
    sizes = [len(batch) for batch in batches([path])]
    assert sum(sizes) == 120_000
    assert max(sizes) < 70_000


RECORD = st.fixed_dictionaries(
    {
        "timestamp": st.one_of(
            st.integers(0, 2**60), st.floats(0, 1e9), st.decimals(0, 10**6, places=3).map(float)
        ),
        "input_length": st.integers(0, 2000),
        "output_length": st.integers(0, 10**10),
        "hash_ids": st.lists(st.integers(0, 2**64), max_size=4),
    },
    optional={
        "chat_id": st.integers(-3, 5),
        "parent_chat_id": st.integers(-2, 5),
        "block_size": st.sampled_from([16, 512, 512, 512]),
        "type": st.one_of(st.text(max_size=5), st.none(), st.booleans(), st.floats()),
        "hash_id": st.integers(0, 9),
        "timestamps": st.text("abc", max_size=3),
        "": st.integers(0, 9),
    },
)


@pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="Numba isn't installed")
@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(records=st.lists(RECORD, min_size=1, max_size=4), cut=st.integers(0, 80), fit=st.booleans())
def test_the_fast_reader_reads_what_the_strict_one_reads(
    put: Put, records: list[dict[str, Any]], cut: int, fit: bool
) -> None:
    records.sort(key=lambda record: record["timestamp"])
    for record in records:
        record["output_length"] %= 10**9 + (10 if not fit else 1)
        if fit:
            record["hash_ids"] = [each % 2**63 for each in record["hash_ids"]]
            record["input_length"] = 512 * len(record["hash_ids"])
            record.pop("block_size", None)
            record.pop("chat_id", None)
    content = "\n".join(json.dumps(record) for record in records)
    path = put(content if fit else content[: len(content) - cut] or "{")
    outcomes = []
    for options in (Options(), STRICT):
        try:
            outcomes.append(repr(read(path, options)))
        except TraceError as err:
            outcomes.append(re.sub(r"\s+", " ", err.message))
    assert outcomes[0] == outcomes[1]


def test_zstd_of_several_frames_cut_off_at_a_line_is_no_smaller_trace(put: Put) -> None:
    zstandard = pytest.importorskip("zstandard")
    packer = zstandard.ZstdCompressor().compressobj()
    first = packer.compress(f"{line(0)}\n".encode()) + packer.flush(
        zstandard.COMPRESSOBJ_FLUSH_BLOCK
    )
    last = packer.compress(f"{line(1)}\n".encode()) + packer.flush()
    assert len(list(requests([put(first + last)]))) == 2
    with pytest.raises(TraceError, match="damaged or cut off: the last zstd frame has no end"):
        list(requests([put(first)]))
    one = zstandard.ZstdCompressor().compress(f"{line(0)}\n".encode())
    assert len(list(requests([put(one + one)]))) == 2
