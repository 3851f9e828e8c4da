"""SIGTERM and SIGHUP taken as Ctrl-C, so that what is under way ends in order."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def as_interrupt() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP (a lost SSH session) as Ctrl-C for the block.

    They go the way that SIGINT goes, as an event loop has its own; where that is ignored (a
    shell's background job) they raise KeyboardInterrupt all the same. Another thread than the
    main one can't choose, and does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_number: int, _frame: object) -> None:
        if not callable(signal.getsignal(signal.SIGINT)):
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    before = {
        number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
