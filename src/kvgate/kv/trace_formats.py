"""Which format a file's content is, and its requests as batches, whose times never go back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from kvgate.errors import UsageError
from kvgate.kv import compiled
from kvgate.kv.trace import Batch, Options
from kvgate.kv.trace_fast import Reader, ahead
from kvgate.kv.trace_files import HEAD, TraceError, chunks, head_of
from kvgate.kv.trace_lines import MOONCAKE, QWEN, Form, Where, block_tokens_of, record_of
from kvgate.kv.trace_rows import Sessions, batch_of, batches_of, rows_of
from kvgate.kv.trace_tokens import plain_rows
from kvgate.kv.trace_weka import weka_batches

_TRACED = re.compile(rb'"(?:hash_ids|input_length)"')
_WEKA = re.compile(rb'"requests"\s*:\s*\[')
PLAIN_BLOCK = 256
"""Tokens of a block of plain lines, unless another size is asked for: LMCache's chunk."""


def of_file(path: Path, options: Options, number: int) -> Iterator[Batch]:
    """Yield the requests of one file; `number` keeps ids of local scope apart from other files'.

    Raises TraceError.
    """
    head = head_of(path)
    if not head.strip():
        raise TraceError(f"{path}: empty: no request")
    ids = head.find(b'"hash_ids"')
    requests = _WEKA.search(head)
    if requests and not 0 <= ids < requests.start():
        found = weka_batches(path, number)
    elif head.lstrip()[:1] == b"{" and _TRACED.search(head.lstrip().split(b"\n", 1)[0]):
        found = _traced(path, head, options)
    else:
        found = _plain(path, options)
    yield from _in_order(found, path, options)


def _in_order(found: Iterable[Batch], path: Path, options: Options) -> Iterator[Batch]:
    """Yield batches, and raise TraceError where time goes back or blocks aren't as asked for."""
    last, some = -np.inf, False
    for batch in found:
        if not len(batch):
            continue
        some = True
        times = np.concatenate(([last], batch.times_s))
        if (times[1:] < times[:-1]).any():
            at = int(np.argmax(times[1:] < times[:-1]))
            raise TraceError(
                f"{path}: line {batch.lines[at]}: time goes backwards: {times[at + 1]:g} s "
                f"after {times[at]:g} s",
                hint="sort the trace by its time: reuse is about what came before",
            )
        if options.block_tokens not in (None, batch.block_tokens):
            raise UsageError(
                f"{path}: its blocks are of {batch.block_tokens} tokens, not of "
                f"{options.block_tokens}"
            )
        last = float(batch.times_s[-1])
        yield batch
    if not some:
        raise TraceError(f"{path}: no request in it")


def _traced(path: Path, head: bytes, options: Options) -> Iterator[Batch]:
    """Yield the requests of Mooncake's and Qwen's lines, fast where Numba is there."""
    form, block = _form(path, head)
    sessions = Sessions()
    if options.fast and compiled.available():
        yield from ahead(Reader(form, block, str(path)), chunks(path), sessions)
        return
    for chunk in chunks(path):
        yield batch_of(rows_of(chunk, str(path), form, block), str(path), block, sessions)


def _form(path: Path, head: bytes) -> tuple[Form, int]:
    """Return the format, and the tokens of a block, by a file's first line."""
    line = 1 + len(head[: len(head) - len(head.lstrip())].splitlines())
    first, newline, _ = head.lstrip().partition(b"\n")
    where = Where(str(path), max(1, line))
    if not newline and len(head) >= HEAD:  # a first line longer than the head: read it whole
        first = next(iter(chunks(path))).content.lstrip().split(b"\n", 1)[0]
    record = record_of(where, first)
    form = QWEN if "chat_id" in record else MOONCAKE
    return form, block_tokens_of(where, record, form)


def _plain(path: Path, options: Options) -> Iterator[Batch]:
    """Yield the requests of plain lines: blocks are made of their tokens."""
    block = options.block_tokens or PLAIN_BLOCK
    yield from batches_of(plain_rows(path, block, options.tokenizer), str(path), block)
