"""Lines of Mooncake's and Qwen's traces read by compiled code, where Numba is installed.

Chunks are read ahead by two threads, as compiled code runs without the GIL; batches come in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from kvgate.kv import trace_scan
from kvgate.kv.trace import Batch, Ints
from kvgate.kv.trace_files import Chunk, TraceError
from kvgate.kv.trace_lines import Form
from kvgate.kv.trace_rows import Sessions, batch_of, rows_of

AHEAD = 3
"""Chunks that are read or held ahead of what is used."""

WORKERS = 2


class Reader:
    """Reads chunks of one file, in any thread."""

    def __init__(self, form: Form, block: int, name: str) -> None:
        self._form, self._block, self._name = form, block, name
        fields = trace_scan.PARENT if form.chats else trace_scan.IDS
        self._needed = sum(1 << field for field in range(fields + 1))

    def columns(self, chunk: Chunk) -> tuple[Batch, Ints] | None:
        """Return a batch whose sessions are its chats, and their parents; None where not plain."""
        size = len(chunk.content)
        lines = size // trace_scan.LEAST + 2
        text = np.frombuffer(chunk.content, np.uint8)
        rows = np.empty((lines, trace_scan.OTHER), np.int64)
        times, starts = np.empty(lines), np.empty(lines, np.int64)
        ids = np.empty(size // 2 + 1, np.int64)  # an id takes two bytes, at the least
        known = (trace_scan.KEYS, trace_scan.STARTS)
        many, count = trace_scan.scan(
            *(text, size, known, self._needed, self._block, chunk.first_line),
            *(rows, times, starts, ids),
        )
        if many == trace_scan.DOUBT:
            return None
        rows = rows[:many]
        batch = Batch(
            file=self._name,
            block_tokens=self._block,
            lines=rows[:, trace_scan.IDS].copy(),
            times_s=times[:many] / self._form.per_s,
            input_tokens=rows[:, trace_scan.INPUT].copy(),
            output_tokens=rows[:, trace_scan.OUTPUT].copy(),
            starts=starts[: many + 1],
            ids=ids[:count],
            sessions=rows[:, trace_scan.CHAT].copy(),
        )
        return batch, rows[:, trace_scan.PARENT].copy()

    def finished(
        self, chunk: Chunk, columns: tuple[Batch, Ints] | None, sessions: Sessions
    ) -> Batch:
        """Return the batch with its conversations; raises TraceError for what can't be read."""
        if columns is None:
            rows = rows_of(chunk, self._name, self._form, self._block)
            return batch_of(rows, self._name, self._block, sessions)
        batch, parents = columns
        if not self._form.chats:
            batch.sessions[:] = -1
            return batch
        pairs = zip(batch.sessions.tolist(), parents.tolist(), strict=True)
        batch.sessions[:] = [sessions.of(chat, parent) for chat, parent in pairs]
        return batch


def ahead(reader: Reader, chunks: Iterable[Chunk], sessions: Sessions) -> Iterator[Batch]:
    """Yield the batches of `chunks` in order, read ahead; raises TraceError in its place."""
    queue: deque[tuple[Chunk, Future[tuple[Batch, Ints] | None]]] = deque()
    ended: TraceError | None = None
    source = iter(chunks)
    with ThreadPoolExecutor(WORKERS) as threads:
        while True:
            while len(queue) < AHEAD and ended is None:
                try:
                    chunk = next(source, None)
                except TraceError as err:
                    ended = err
                    break
                if chunk is None:
                    break
                queue.append((chunk, threads.submit(reader.columns, chunk)))
            if not queue:
                break
            chunk, future = queue.popleft()
            yield reader.finished(chunk, future.result(), sessions)
    if ended is not None:
        raise ended
