"""Rows of a trace as the columns of a batch, and the conversations that chats belong to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np

from kvgate.kv.trace import BATCH, Batch
from kvgate.kv.trace_files import Chunk
from kvgate.kv.trace_lines import Form, Row, lines_of, row_of

BATCH_IDS = 500_000
"""Ids of a batch, about."""


class Sessions:
    """The conversation of each chat: that of the chat it follows, else one of its own.

    A chat whose parent was never seen (the trace begins in the middle) begins a conversation.
    """

    def __init__(self) -> None:
        self._of: dict[int, int] = {}
        self._count = 0

    def of(self, chat: int, parent: int) -> int:
        """Return the number of `chat`'s conversation, -1 for no chat."""
        if chat < 0:
            return -1
        number = self._of[parent] if parent in self._of else self._of.setdefault(chat, self._count)
        self._of[chat] = number
        self._count = max(self._count, number + 1)
        return number


def rows_of(chunk: Chunk, name: str, form: Form, block: int) -> Iterator[Row]:
    """Yield the requests of a chunk's lines; empty lines are passed over. Raises TraceError."""
    for where, text in lines_of((chunk,), name):
        yield row_of(where, text, form, block)


def batches_of(rows: Iterable[Row], name: str, block: int) -> Iterator[Batch]:
    """Yield `rows` as batches of BATCH requests, or BATCH_IDS ids; a chat is a conversation."""
    held: list[Row] = []
    ids = 0
    for row in rows:
        held.append(row)
        ids += len(row.ids)
        if len(held) >= BATCH or ids > BATCH_IDS:
            yield batch_of(held, name, block, None)
            held, ids = [], 0
    if held:
        yield batch_of(held, name, block, None)


def batch_of(rows: Iterable[Row], name: str, block: int, sessions: Sessions | None) -> Batch:
    """Return `rows` as columns; without `sessions` a row's chat is its conversation."""
    held = list(rows)
    counts = [len(row.ids) for row in held]
    return Batch(
        file=name,
        block_tokens=block,
        lines=np.array([row.line for row in held], np.int64),
        times_s=np.array([row.time_s for row in held], np.float64),
        input_tokens=np.array([row.input_tokens for row in held], np.int64),
        output_tokens=np.array([row.output_tokens for row in held], np.int64),
        starts=np.cumsum([0, *counts], dtype=np.int64),
        ids=np.fromiter(chain.from_iterable(row.ids for row in held), np.int64, sum(counts)),
        sessions=np.array(
            [sessions.of(row.chat, row.parent) if sessions else row.chat for row in held], np.int64
        ),
    )
