"""Traces of KV reuse, streamed: requests with their times, lengths and prefix blocks.

Formats, known by their content:

- Mooncake (FAST25 release): JSON lines with ``timestamp`` (ms), ``input_length``,
  ``output_length``, ``hash_ids`` (one id a block of 512 tokens, the last may be partial); what
  `kvgate capture` writes is this with ``block_size``, the tokens of a block.
- Qwen-Bailian: JSON lines, likewise, with ``timestamp`` in s, ``chat_id``, ``parent_chat_id``;
  blocks of 16 tokens.
- WEKA's kv-cache-tester: one conversation a JSON file, ``requests`` with ``t`` (s), ``in``,
  ``out``, ``hash_ids`` of whole blocks; ids of scope ``local`` mean nothing in another file.
- Plain: JSON lines, each a list of token ids, a text, or an object that holds one.

Several files are merged by time, as what happens at once. An id stands for a block *and* all
before it, or else two blocks with equal ids are taken to be equal only behind equal prefixes:
whoever counts hits has to look at a request's blocks in order.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kvgate.kv.trace_files import TraceError

__all__ = ["Batch", "Options", "Request", "TraceError", "batches", "requests"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

BATCH = 4096
"""Requests of a merged batch."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to read: needed for plain lines only, which have no blocks of their own.

    ``block_tokens`` are the tokens of a block (of a file that says it otherwise: that it has to
    agree); ``tokenizer`` is a Hugging Face tokenizer.json for texts. ``fast`` may use Numba.
    """

    block_tokens: int | None = None
    tokenizer: Path | None = None
    fast: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Batch:
    """Requests in order of time, as columns.

    ``lines``, ``times_s``, ``input_tokens``, ``output_tokens`` and ``sessions`` have one entry a
    request; ``ids[starts[i]:starts[i + 1]]`` are the blocks of request i (``starts`` has one more
    entry). Times are seconds as the file tells them; ``sessions`` numbers conversations within
    the file, -1 where it tells none. ``block_tokens`` are a whole block's tokens.
    """

    file: str
    block_tokens: int
    lines: Ints
    times_s: Floats
    input_tokens: Ints
    output_tokens: Ints
    starts: Ints
    ids: Ints
    sessions: Ints

    def __len__(self) -> int:
        """Return the number of requests."""
        return len(self.times_s)

    def requests(self) -> Iterator[Request]:
        """Yield the requests one by one."""
        bounds = self.starts.tolist()
        columns = (self.lines, self.times_s, self.input_tokens, self.output_tokens, self.sessions)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for at, (line, time_s, tokens, output, session) in enumerate(rows):
            ids = self.ids[bounds[at] : bounds[at + 1]]
            yield Request(self.file, line, time_s, tokens, output, ids, session, self.block_tokens)


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """One request: where it stands, when it came (s), its tokens, and its prefix blocks' ids.

    ``line`` is its line in ``file``, of a WEKA file its place in ``requests``, from 1.
    """

    file: str
    line: int
    time_s: float
    input_tokens: int
    output_tokens: int
    ids: Ints
    session: int
    block_tokens: int


def batches(paths: Sequence[Path], options: Options | None = None) -> Iterator[Batch]:
    """Yield the requests of all `paths` in order of time, a few MB at once.

    Raises TraceError, with file and line, for a broken line, a wrong field, ids that contradict
    the length, time that goes backwards, files whose blocks differ in size, and an empty file.
    """
    from kvgate.kv.trace_formats import of_file

    options = options or Options()
    if len(paths) == 1:
        yield from of_file(paths[0], options, 0)
        return
    stream = _merged(paths, options)
    while held := list(itertools.islice(stream, BATCH)):
        yield gathered(held)


def requests(paths: Sequence[Path], options: Options | None = None) -> Iterator[Request]:
    """Yield the requests of all `paths` one by one in order of time; raises TraceError."""
    if len(paths) > 1:
        yield from _merged(paths, options or Options())
        return
    for batch in batches(paths, options):
        yield from batch.requests()


def _merged(paths: Sequence[Path], options: Options) -> Iterator[Request]:
    """Yield the requests of several files by time; raises TraceError where blocks differ."""
    from kvgate.kv.trace_formats import of_file

    streams = [_singly(of_file(path, options, at)) for at, path in enumerate(paths)]
    block = 0
    for request in heapq.merge(*streams, key=_time_of):
        if block and request.block_tokens != block:
            raise TraceError(
                f"{request.file}: blocks of {request.block_tokens} tokens, and another file "
                f"has {block}",
                hint="assess traces of different block sizes one by one",
            )
        block = request.block_tokens
        yield request


def _singly(found: Iterable[Batch]) -> Iterator[Request]:
    for batch in found:
        yield from batch.requests()


def _time_of(request: Request) -> float:
    return request.time_s


def gathered(held: Sequence[Request]) -> Batch:
    """Return `held`, at least one request, as columns."""
    names = dict.fromkeys(each.file for each in held)
    return Batch(
        file=next(iter(names)) if len(names) == 1 else f"{len(names)} files",
        block_tokens=held[0].block_tokens,
        lines=np.array([each.line for each in held], np.int64),
        times_s=np.array([each.time_s for each in held], np.float64),
        input_tokens=np.array([each.input_tokens for each in held], np.int64),
        output_tokens=np.array([each.output_tokens for each in held], np.int64),
        starts=np.cumsum([0, *(len(each.ids) for each in held)], dtype=np.int64),
        ids=np.concatenate([each.ids for each in held]),
        sessions=np.array([each.session for each in held], np.int64),
    )
