"""The verb load: load on an OpenAI endpoint, and what came of it."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from kvgate.errors import UsageError
from kvgate.untrusted import plain

if TYPE_CHECKING:
    from kvgate.engine.load_several import Clients
    from kvgate.load.endpoint import Endpoint
    from kvgate.load.finding import OnRow, Search, Stop
    from kvgate.load.outcome import Loaded
    from kvgate.load.parts import Done, Part
    from kvgate.load.preflight import Served
    from kvgate.load.rows import Row
    from kvgate.load.sessions import Sessions
    from kvgate.load.slo import Found, Level

TELL_S = 2.0
"""Seconds between lines of progress."""


def load_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Load and show; 0: all is well, 1: requests failed or a level is missed, 2: inconclusive."""
    from kvgate.cli.predict import show
    from kvgate.engine import terminated
    from kvgate.report.loaded import document, sheet

    for name in (arguments.out, arguments.rows):
        if name and Path(name).exists():
            raise UsageError(f"{name}: is there; nothing was sent")
    with (
        _rows_file(arguments.rows) as file,
        contextlib.ExitStack() as held,
        terminated.as_interrupt(),
    ):
        loaded, runner = _loaded(arguments, file, held)
    if runner.unkept:
        print(plain(f"kvgate: {arguments.rows}: {runner.unkept}"), file=sys.stderr)
    try:
        show(arguments, sheet(loaded), document(loaded))
    except UsageError:  # the page can't be written: that costs the page, not the figures
        arguments.out = None
        show(arguments, sheet(loaded), document(loaded))
        raise
    if runner.interrupted:
        raise KeyboardInterrupt
    return 3 if runner.unkept else loaded.code


@contextlib.contextmanager
def _rows_file(name: str | None) -> Iterator[IO[str] | None]:
    """Open the new file for rows before anything is sent; raises UsageError."""
    if name is None:
        yield None
        return
    try:
        file = Path(name).open("x", encoding="utf-8")  # noqa: SIM115  closed below
    except OSError as err:
        raise UsageError(f"{name}: {err.strerror or err}; nothing was sent") from err
    try:
        yield file
    finally:
        with contextlib.suppress(OSError):  # of a full disk, which is told by then
            file.close()


def _loaded(
    arguments: argparse.Namespace, file: IO[str] | None, held: contextlib.ExitStack
) -> tuple[Loaded, _Runner]:
    """Ask the endpoint, then run what is asked for; `held` ends what was started for it.

    Interrupted once something has ended, it returns that; raises KeyboardInterrupt before.
    """
    from kvgate.cli import load_ask
    from kvgate.load import preflight
    from kvgate.load.outcome import outcome
    from kvgate.load.prompts import TextRate

    endpoint, slo = load_ask.endpoint_of(arguments), load_ask.slo_of(arguments)
    seed = load_ask.seed_of(arguments)
    search = load_ask.search_of(arguments, slo) if slo and arguments.find_concurrency else None
    text = TextRate() if load_ask.wants_text(arguments) else None
    planned = () if search else load_ask.parts_of(arguments, seed, text)
    what = load_ask.sessions_of(arguments, seed, text) if search else None
    served = preflight.served(endpoint)
    endpoint = dataclasses.replace(endpoint, model=served.model)
    if text is not None:
        text = preflight.text_rate(endpoint, served, seed)
        planned = () if search else load_ask.parts_of(arguments, seed, text)
        what = load_ask.sessions_of(arguments, seed, text) if search else None
    _fits(served, [each.what for each in planned] if what is None else [what])
    runner = _Runner(arguments, endpoint, file, held)
    found = runner.all(planned, search, what)
    loaded = outcome(
        url=arguments.url,
        model=served.model,
        seed=seed,
        done=runner.done,
        slo=slo,
        found=found,
        clients=runner.clients,
    )
    return loaded, runner


def _fits(served: Served, asked: Sequence[object]) -> None:
    """Refuse sessions that grow longer than the engine takes; raises UsageError."""
    from kvgate.load.sessions import Sessions

    for what in asked:
        if not isinstance(what, Sessions) or served.most_tokens is None:
            continue
        further = (what.turns - 1) * (what.turn_tokens + what.output_tokens)
        longest = what.input_tokens + what.output_tokens + further
        if longest > served.most_tokens:
            raise UsageError(
                f"a session comes to {longest:,} tokens; {served.model} takes at most "
                f"{served.most_tokens:,} (max_model_len)",
                hint="choose fewer by --input-tokens, --output-tokens, --turns",
            )


class _Runner:
    """Runs parts here or on several clients, tells progress, and keeps rows."""

    def __init__(
        self,
        arguments: argparse.Namespace,
        endpoint: Endpoint,
        file: IO[str] | None,
        held: contextlib.ExitStack,
    ) -> None:
        self._before = _command_of(arguments.before_level)
        self._endpoint, self._file = endpoint, file
        self._several = _clients(arguments.dask, held)
        self.clients = self._several.names if self._several else ()
        self.done: list[Done] = []
        self.interrupted = False
        self.unkept = ""

    def all(
        self, planned: Sequence[Part], search: Search | None, what: Sessions | None
    ) -> Found | None:
        """Run what is planned, or the search, and return what that found.

        Ctrl-C ends it quietly once something has ended; raises KeyboardInterrupt before.
        """
        from kvgate.load.finding import find

        try:
            if search is not None and what is not None:
                return find(search, what, self.until, on_level=_tell_level)[0]
            for each in planned:
                self.run(each)
        except KeyboardInterrupt:
            if not self.done:
                raise
            self.interrupted = True
        return None

    def run(self, part: Part) -> Done:
        """Run a part to its end."""
        return self.until(part, lambda _: None, lambda: False)

    def until(self, part: Part, on_row: OnRow, stop: Stop) -> Done:
        """Run a part, tell `on_row` every row, and send no more once `stop` says so."""
        from kvgate.load.parts import PartInterrupted, run_part

        if self._before and part.counts:
            _run_before(self._before)
        with _Teller(part, len(self.clients)) as teller:

            def each(row: Row) -> None:
                teller.add(row)
                on_row(row)

            try:
                if self._several is not None:
                    done = self._several.run(self._endpoint, part)
                else:
                    done = run_part(self._endpoint, part, on_row=each, stop=stop)
            except PartInterrupted as cut:
                self._ended(cut.done)
                raise
            except KeyboardInterrupt:
                self._cut_in(part, teller.rows)
                raise
        self._ended(done)
        return done

    def _ended(self, done: Done) -> None:
        self.done.append(done)
        self._keep(done.part, (*done.result.warm_up, *done.result.rows))

    def _cut_in(self, part: Part, rows: Sequence[Row]) -> None:
        """Keep the rows of a part of which nothing else is known; say so beside the one before."""
        self._keep(part, rows)
        if self.done:
            why = f"interrupted in the part after it, {part.name}, of which nothing is told"
            last = self.done[-1]
            self.done[-1] = dataclasses.replace(last, untold=(*last.untold, why))

    def _keep(self, part: Part, rows: Sequence[Row]) -> None:
        from kvgate.report.loaded import row_as_json

        if self._file is None or self.unkept:
            return
        lines = (json.dumps(row_as_json(part.name, row)) for row in rows)
        try:
            self._file.writelines(f"{line}\n" for line in lines)
            self._file.flush()
        except OSError as err:  # that costs rows, not the load
            self.unkept = f"{err.strerror or err}: not all rows are in it; the figures are of all"


def _clients(where: str | None, held: contextlib.ExitStack) -> Clients | None:
    """Return the clients that are asked for, None for this one; raises UsageError."""
    if where is None:
        return None
    from kvgate.engine.load_several import Clients

    return held.enter_context(Clients(where))


def _command_of(text: str | None) -> list[str]:
    if text is None:
        return []
    try:
        words = shlex.split(text)
    except ValueError as err:
        raise UsageError(f"--before-level: {err}") from err
    if not words:
        raise UsageError("--before-level: names no command")
    return words


def _run_before(command: list[str]) -> None:
    """Run what is to be run before a level; raises UsageError where it fails."""
    try:
        ended = subprocess.run(command, check=False, capture_output=True, timeout=600)
    except (OSError, subprocess.TimeoutExpired) as err:
        raise UsageError(f"--before-level: {err}") from err
    if ended.returncode:
        said = ended.stderr.decode("utf-8", "replace").strip()[-300:]
        raise UsageError(
            f"--before-level: {shlex.join(command)} ended with {ended.returncode}: {said}",
            hint="without it the level would not be what it says; nothing more was sent",
        )


class _Teller:
    """Tells on standard error how far a part is and what is awaited, where somebody reads along."""

    def __init__(self, part: Part, clients: int) -> None:
        self.rows: list[Row] = []
        self._part, self._clients = part, clients
        self._begun = self._last = time.monotonic()
        self._tokens = self._failed = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load-progress", daemon=True)

    def __enter__(self) -> _Teller:
        if sys.stderr.isatty():
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def add(self, row: Row) -> None:
        """Count a row that has ended."""
        self.rows.append(row)
        self._last = time.monotonic()
        self._tokens += row.output_tokens or 0
        self._failed += row.failure is not None

    def line(self) -> str:
        """Return how far it is, in a line."""
        from kvgate.load.sessions import Sessions

        now = time.monotonic()
        elapsed = max(now - self._begun, 1e-3)
        if self._clients:
            return f"{self._part.name}: {elapsed:,.0f} s; awaits {self._clients} clients"
        what = self._part.what
        total = what.count * what.turns if isinstance(what, Sessions) and what.count else None
        of = f" of {total:,}" if total else ""
        told = f"{self._part.name}: {len(self.rows):,}{of} answered in {elapsed:,.0f} s"
        told += f", {len(self.rows) / elapsed:,.1f} req/s, {self._tokens / elapsed:,.0f} tok/s"
        if self._failed:
            told += f", {self._failed:,} FAILED"
        return told + f"; awaits answers, the last came {now - self._last:,.0f} s ago"

    def _run(self) -> None:
        while not self._over.wait(TELL_S):
            print(plain(f"  {self.line()}"), file=sys.stderr)


def _tell_level(level: Level) -> None:
    if sys.stderr.isatty():
        kept = {True: "kept", False: "missed", None: "can't be told"}[level.kept]
        print(plain(f"  concurrency {level.concurrency}: {kept}, {level.told}"), file=sys.stderr)
