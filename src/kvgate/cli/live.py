"""Shows what is going on: gate, test, host, time passed, what is awaited."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kvgate.cli.show import VERDICT_STYLE
from kvgate.untrusted import plain

_QUIET_S = 10.0  # on no terminal: at most this long without a line


class LiveView:
    """A live table on a terminal, a line a step elsewhere; `tell` feeds it from any thread."""

    def __init__(self, title: str, console: Console) -> None:
        self.console = console
        self.title = plain(title)
        self.began = time.monotonic()
        self.gates: dict[str, str] = {}
        self.gate = ""
        self.now = {"test": "", "host": "", "text": "starting", "awaits": ""}
        self.since = self.began
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._live: Live | None = None
        self._printed = self.began

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live = Live(
                get_renderable=self._table, console=self.console, refresh_per_second=4
            )
            self._live.start()
        else:
            threading.Thread(target=self._heartbeat, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        err: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        if self._live:
            self._live.stop()

    def tell(self, message: dict[str, Any]) -> None:
        """Take one progress message."""
        kind = str(message.get("t"))
        text, host, awaits = (
            plain(str(message.get(part, "")), lines=False) for part in ("text", "host", "awaits")
        )
        with self._lock:
            if kind == "gate":
                self.gate = text
                self.gates.setdefault(text, "running")
                self.now = {"test": "", "host": "", "text": "opening", "awaits": awaits}
            elif kind == "verdict":
                self.gates[host or self.gate] = text
            elif kind == "test":
                self.now = {"test": text, "host": "", "text": "", "awaits": awaits}
            else:
                self.now.update(host=host, text=text, awaits=awaits)
            self.since = time.monotonic()
        if self._live:
            return
        if kind == "verdict":
            self._line(f"{host or self.gate}  {text}")
        elif kind in ("gate", "test", "step"):
            self._print()

    def _print(self) -> None:
        now = self.now
        parts = [
            self.gate,
            now["test"],
            now["host"],
            now["text"],
            f"(awaiting {now['awaits']})" if now["awaits"] else "",
        ]
        self._line("  ".join(part for part in parts if part))

    def _line(self, text: str) -> None:
        self._printed = time.monotonic()
        print(f"[{self._elapsed():>6}] {text}", file=self.console.file, flush=True)

    def _heartbeat(self) -> None:
        while not self._stop.wait(1):
            if time.monotonic() - self._printed >= _QUIET_S:
                self._print()

    def _elapsed(self) -> str:
        seconds = int(time.monotonic() - self.began)
        return f"{seconds // 60}:{seconds % 60:02d}"

    def _table(self) -> Group:
        with self._lock:
            head = Text(f"{self.title}   {self._elapsed()}", style="bold")
            gates = Text()
            for gate, state in self.gates.items():
                word = state.partition(",")[0].partition(" ")[0]
                gates.append(f" {gate} {state} ", style=VERDICT_STYLE.get(word, "cyan"))
            table = Table.grid(padding=(0, 2))
            waited = f"{time.monotonic() - self.since:.0f} s"
            for name, value in (
                ("test", self.now["test"]),
                ("host", self.now["host"]),
                ("doing", self.now["text"]),
                ("awaiting", f"{self.now['awaits']}  {waited}" if self.now["awaits"] else waited),
            ):
                table.add_row(Text(name, style="dim"), Text(value))
        return Group(head, gates, table)


def make_console() -> Console:
    """Return the console for people: standard error, so that standard output stays for results."""
    return Console(file=sys.stderr, highlight=False)
