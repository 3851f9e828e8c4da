"""A host that answers a replay without end."""

from __future__ import annotations

import dataclasses
import sys
import time
import tracemalloc
from typing import Any

import pytest

from kvgate.errors import CommandError
from kvgate.workloads import replay
from kvgate.workloads.replay import Reads, Spec
from kvgate.workloads.travel import program_of

SPEC = Spec(
    seed=3, sessions=1, chunks=1, chunk_bytes=4096, levels=(Reads(concurrency=1, readers=1),)
)


@pytest.mark.parametrize("said", ["'x' * 65536", "'x' * 65535 + chr(10)"])
def test_a_host_that_talks_without_end_is_ended(
    bench: Any, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    """Let the program print for ever, with and without lines: neither memory nor time is lost."""
    source = f"import sys\ndef main():\n    while True:\n        sys.stdout.write({said})\n"
    monkeypatch.setattr(replay, "program", lambda: program_of({"talks": source.encode()}, "talks"))
    monkeypatch.setattr(replay, "_MOST_SAID", 2**21)
    host = bench.witness.host.model_copy(update={"tools": {"python3": sys.executable}})
    local = dataclasses.replace(bench.witness, host=host)
    tracemalloc.start()
    began = time.monotonic()
    with pytest.raises(CommandError, match="said over 2 MiB, which none does: it was ended"):
        replay.run([local], SPEC)
    assert time.monotonic() - began < 20
    assert tracemalloc.get_traced_memory()[1] < 64 * 2**20
    tracemalloc.stop()
    assert not list(bench.scratch.iterdir())
