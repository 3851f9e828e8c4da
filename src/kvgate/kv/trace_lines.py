"""One line of a trace, read strictly with the standard json module: its fields, or what is wrong.

What the fast reader can't read for certain comes here too, so every refusal is worded here.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

from kvgate.kv.trace_files import Chunk, TraceError

MOST = 2**63 - 1
"""The largest id."""

MOST_TOKENS = 10**9
"""Tokens of a request, at most."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How a format's lines are read: ``per_s`` of its time's unit are a second."""

    name: str
    block_tokens: int
    per_s: float
    chats: bool = False


MOONCAKE = Form(name="Mooncake", block_tokens=512, per_s=1000.0)
QWEN = Form(name="Qwen-Bailian", block_tokens=16, per_s=1.0, chats=True)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One request as it stands in a file; ``chat`` and ``parent`` are -1 where it names none."""

    line: int
    time_s: float
    input_tokens: int
    output_tokens: int
    ids: Sequence[int]
    chat: int = -1
    parent: int = -1


class Where:
    """A place in a file that errors name: ``FILE: line 7``."""

    def __init__(self, name: str, line: int, unit: str = "line") -> None:
        self.name, self.line, self.unit = name, line, unit

    def wrong(self, what: str, hint: str = "") -> TraceError:
        """Return the error that says what is wrong here."""
        return TraceError(f"{self.name}: {self.unit} {self.line}: {what}", hint=hint)

    def value(self, text: bytes) -> Any:
        """Return what `text` holds as JSON; raises TraceError."""
        try:
            return json.loads(text, parse_constant=_no_constant)
        except UnicodeDecodeError as err:
            raise self.wrong(f"no UTF-8: {err}") from err
        except (ValueError, RecursionError) as err:
            told = " ".join(str(err).split())
            raise self.wrong(f"no JSON: {told}") from err

    def has(self, record: dict[str, Any], key: str) -> Any:
        """Return what `record` has at `key`; raises TraceError."""
        if key not in record:
            raise self.wrong(f"'{key}' is missing")
        return record[key]

    def count(self, record: dict[str, Any], key: str, least: int = 0) -> int:
        """Return a whole number of tokens; raises TraceError."""
        value = self.has(record, key)
        if type(value) is not int or not least <= value <= MOST_TOKENS:
            raise self.wrong(f"'{key}' is {_shown(value)}: tokens are a whole number from {least}")
        return value

    def time(self, record: dict[str, Any], key: str) -> float:
        """Return a time in the file's unit; raises TraceError."""
        value = self.has(record, key)
        if type(value) not in (int, float) or not -1e18 < value < 1e18:
            raise self.wrong(f"'{key}' is {_shown(value)}: no time")
        return float(value)

    def ids(self, record: dict[str, Any], key: str = "hash_ids", most: int = MOST) -> list[int]:
        """Return a list of ids; raises TraceError."""
        value = self.has(record, key)
        if type(value) is not list:
            raise self.wrong(f"'{key}' is {_shown(value)}: no list of ids")
        for each in value:
            if type(each) is not int or not 0 <= each <= most:
                raise self.wrong(f"'{key}' holds {_shown(each)}: ids are from 0 to {most:,}")
        return value

    def chat(self, record: dict[str, Any], key: str) -> int:
        """Return a chat's number, -1 for none; raises TraceError."""
        value = self.has(record, key)
        if type(value) is not int or not -1 <= value <= MOST:
            raise self.wrong(f"'{key}' is {_shown(value)}: chats are numbered from 0, -1 is none")
        return value


def lines_of(chunks: Iterable[Chunk], name: str) -> Iterator[tuple[Where, bytes]]:
    """Yield the lines of the file `name` that hold something, each with its place."""
    for chunk in chunks:
        for at, text in enumerate(chunk.content.split(b"\n")):
            if text.strip():
                yield Where(name, chunk.first_line + at), text


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "…"


def record_of(where: Where, text: bytes) -> dict[str, Any]:
    """Return the object that a line is; raises TraceError."""
    value = where.value(text)
    if type(value) is not dict:
        raise where.wrong(f"{_shown(value)} is no request: an object with hash_ids")
    return value


def block_tokens_of(where: Where, record: dict[str, Any], form: Form) -> int:
    """Return the tokens of a block: the line's own ``block_size``, or the format's."""
    if "block_size" not in record:
        return form.block_tokens
    return where.count(record, "block_size", 1)


def row_of(where: Where, text: bytes, form: Form, block: int) -> Row:
    """Return the request that a line holds; raises TraceError for anything else.

    The ids have to be one a block of `block` tokens, the last one partial or whole.
    """
    record = record_of(where, text)
    if (own := block_tokens_of(where, record, form)) != block:
        raise where.wrong(f"blocks of {own} tokens, and the lines before it have {block}")
    tokens = where.count(record, "input_length")
    ids = where.ids(record)
    if len(ids) != -(-tokens // block):
        raise where.wrong(
            f"{len(ids)} hash_ids contradict an input_length of {tokens}: "
            f"blocks of {block} tokens would be {-(-tokens // block)}"
        )
    chat = where.chat(record, "chat_id") if form.chats else -1
    parent = where.chat(record, "parent_chat_id") if form.chats else -1
    return Row(
        line=where.line,
        time_s=where.time(record, "timestamp") / form.per_s,
        input_tokens=tokens,
        output_tokens=where.count(record, "output_length"),
        ids=ids,
        chat=chat,
        parent=parent,
    )
