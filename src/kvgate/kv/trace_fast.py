"""Lines of Mooncake's and Qwen's traces read by compiled code, where Numba is installed."""

from __future__ import annotations

from collections.abc import Callable

from kvgate.kv.trace import Batch
from kvgate.kv.trace_files import Chunk
from kvgate.kv.trace_lines import Form

Reader = Callable[[Chunk, str], Batch | None]


def reader(form: Form, block: int) -> Reader | None:
    """Return what reads a chunk fast, or says None where it can't; None without Numba."""
    del form, block
    return None
