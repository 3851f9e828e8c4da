"""Plain lines of token ids or texts, and their tokens as prefix blocks."""

from __future__ import annotations

import array
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kvgate.kv.trace_files import TraceError, chunks
from kvgate.kv.trace_lines import Row, Where, lines_of

TOKEN_KEYS = ("token_ids", "prompt_token_ids", "input_ids", "tokens")
TEXT_KEYS = ("text", "prompt", "content")
BYTES_A_TOKEN = 4
"""UTF-8 bytes that are taken for a token of a text without a tokenizer."""

Encode = Callable[[str], Sequence[int]]


def prefix_ids(tokens: Sequence[int], block: int, key: bytes = b"") -> list[int]:
    """Return one id for each block of `block` tokens, the last may be partial.

    An id is of the block and all before it: BLAKE2b of the id before and the tokens as 8 bytes
    each, of which 63 bits are kept (two of n distinct prefixes have equal ids by chance with a
    probability of at most n² / 2⁶⁴). With a secret `key` (up to 64 bytes) nobody without it can
    tell tokens from ids, or ids from tokens.
    """
    packed = array.array("q", tokens).tobytes()
    found: list[int] = []
    before = b""
    for start in range(0, len(packed), 8 * block):
        made = hashlib.blake2b(before, digest_size=16, key=key)
        made.update(packed[start : start + 8 * block])
        before = made.digest()
        found.append(int.from_bytes(before[:8], "little") >> 1)
    return found


def encoder(tokenizer: Path | None) -> Encode:
    """Return what makes tokens of a text; raises TraceError for a tokenizer that can't be read.

    Without one, every BYTES_A_TOKEN bytes of UTF-8 are taken for a token: equal prefixes stay
    equal prefixes, lengths are rough.
    """
    if tokenizer is None:
        return _by_bytes
    try:
        import tokenizers
    except ImportError as err:
        raise TraceError(
            f"{tokenizer}: Python's tokenizers isn't installed here",
            hint="pip install 'kvgate[assess]', or go without: 4 bytes are a token then",
        ) from err
    try:
        made = tokenizers.Tokenizer.from_file(str(tokenizer))
    except Exception as err:
        raise TraceError(f"{tokenizer}: no tokenizer.json: {err}") from err

    def encode(text: str) -> Sequence[int]:
        found: list[int] = made.encode(text, add_special_tokens=False).ids
        return found

    return encode


def _by_bytes(text: str) -> list[int]:
    content = text.encode("utf-8", "surrogatepass")
    return [
        int.from_bytes(content[at : at + BYTES_A_TOKEN], "little")
        for at in range(0, len(content), BYTES_A_TOKEN)
    ]


def plain_rows(path: Path, block: int, tokenizer: Path | None) -> Iterator[Row]:
    """Yield the requests of plain lines; raises TraceError.

    A line is a list of token ids, a text, or an object with one of TOKEN_KEYS, of TEXT_KEYS or
    chat ``messages``; an object may have ``timestamp`` (s) and ``output_length``. Lines without
    a time are a second apart.
    """
    encode = encoder(tokenizer)
    for where, text in lines_of(chunks(path), str(path)):
        value = where.value(text)
        record = value if type(value) is dict else {}
        tokens = _tokens(where, value, encode)
        timed, told = "timestamp" in record, "output_length" in record
        yield Row(
            line=where.line,
            time_s=where.time(record, "timestamp") if timed else float(where.line - 1),
            input_tokens=len(tokens),
            output_tokens=where.count(record, "output_length") if told else 0,
            ids=prefix_ids(tokens, block),
        )


def _tokens(where: Where, value: Any, encode: Encode) -> Sequence[int]:
    """Return the tokens of a line's value."""
    if type(value) is str:
        return encode(value)
    if type(value) is list:
        return where.ids({"tokens": value}, "tokens")
    if type(value) is dict:
        for key in TOKEN_KEYS:
            if key in value:
                return where.ids(value, key)
        for key in (*TEXT_KEYS, "messages"):
            if key in value:
                return encode(text_of(where, value[key], key))
    raise where.wrong(
        "no request of a format that is known",
        hint="Mooncake, Qwen-Bailian, WEKA, or lines with token_ids, text or messages",
    )


def chat_text(parts: Sequence[Any]) -> str:
    """Return the text of a chat's parts; equal beginnings give equal ones."""
    return "".join(f"\x1e{json.dumps(each, ensure_ascii=False)}" for each in parts)


def text_of(where: Where, value: Any, key: str) -> str:
    """Return the text of a prompt or of chat messages, in a form equal for equal prefixes."""
    if type(value) is str:
        return value
    if key == "messages" and type(value) is list:
        return chat_text(value)
    raise where.wrong(
        f"'{key}' is no text" + (" nor a list of messages" if key == "messages" else "")
    )
