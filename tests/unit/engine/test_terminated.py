"""SIGTERM and SIGHUP as Ctrl-C, in processes of their own."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

CHILD = """
import asyncio, signal, sys, time
from kvgate.engine import terminated
told = sys.argv[1] == "told"
signal.signal(signal.SIGINT, signal.default_int_handler if told else signal.SIG_IGN)

async def loop():
    print("ready", flush=True)
    try:
        await asyncio.sleep(20)
    except asyncio.CancelledError:
        print("cancelled in order", flush=True)
        raise

before = signal.getsignal(signal.SIGTERM)
try:
    with terminated.as_interrupt():
        if sys.argv[2] == "loop":
            asyncio.run(loop())
        print("ready", flush=True)
        time.sleep(20)
except KeyboardInterrupt:
    print("interrupted", signal.getsignal(signal.SIGTERM) == before, flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("where", ["loop", "plain"])
@pytest.mark.parametrize("interrupts", ["told", "ignored"])
def test_they_are_ctrl_c(number: signal.Signals, where: str, interrupts: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, interrupts, where], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        said, _ = process.communicate(timeout=15)
    assert said.splitlines()[-1] == "interrupted True"
    if (where, interrupts) == ("loop", "told"):
        assert said.splitlines()[0] == "cancelled in order"
