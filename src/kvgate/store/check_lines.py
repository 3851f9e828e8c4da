"""Checks chained files to the record: goes on behind a broken line, so that each one is named."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kvgate.errors import StoreError
from kvgate.store.canonical import parse
from kvgate.store.chain import LONGEST_LINE_BYTES, SUFFIX, digest, split
from kvgate.store.layout import open_regular
from kvgate.store.verification import Kind, Problem

_TAIL = b'"}\n'
_HEX = 64


@dataclasses.dataclass(frozen=True, slots=True)
class Seen:
    """A line as it stands; `record` is None where it can't be read, `good` where it follows on."""

    number: int  # where `good`, else a guess by its place
    record: dict[str, Any] | None
    body: bytes
    raw: bytes
    head: str
    good: bool


class LineCheck:
    """Walks a chained file, however damaged; `problems` names each record that is not as written.

    `counter` is the record's key that counts the lines (``seq`` in the journal, else ``n``).
    Bad lines are held until the next good one tells which numbers they stand for.
    """

    def __init__(self, path: Path, name: str, genesis: str, counter: str) -> None:
        self.problems: list[Problem] = []
        self.head = genesis  # after the last good line
        self.count = 0  # the last good line's number
        self._path, self._name, self._counter = path, name, counter
        self._before: tuple[str, ...] = (genesis,)  # the chains that the next line may follow
        self._bad: list[int | None] = []

    def __iter__(self) -> Iterator[Seen]:
        """Yield every line; a file that can't be read is a problem, not an error."""
        try:
            yield from self._walk()
        except (StoreError, OSError) as err:
            self._settle(None)
            self._report("altered", f"it can't be read behind {self._what(self.count)}: {err}")

    def _walk(self) -> Iterator[Seen]:
        with open_regular(self._path) as file:
            while raw := file.readline(LONGEST_LINE_BYTES):
                if not raw.endswith(b"\n") and len(raw) < LONGEST_LINE_BYTES:
                    self._settle(None)
                    self._report(
                        "altered",
                        f"the {len(raw)} bytes behind {self._what(self.count)} "
                        "are no whole record (cut off, or a writer at work)",
                    )
                    return
                yield self._see(raw)
        self._settle(None)

    def _see(self, raw: bytes) -> Seen:
        parts = split(raw)
        # What the line would be if only its form suffered; both chains may be the right one.
        body, stated = parts or (
            raw[:-SUFFIX] + b"}",
            raw[-_HEX - len(_TAIL) : -len(_TAIL)].decode("latin-1"),
        )
        heads = tuple(digest(before, body) for before in self._before)
        record = _record(body)
        number = record.get(self._counter) if record else None
        if parts is not None and stated in heads and type(number) is int:
            self._settle(number)
            self.count, self.head, self._before = number, stated, (stated,)
            return Seen(number, record, body, raw, stated, good=True)
        self._bad.append(number if type(number) is int else None)
        self._before = (stated, *heads[:1])
        return Seen(self.count + len(self._bad), record, body, raw, heads[0], good=False)

    def _settle(self, number: int | None) -> None:
        """Name what lies between the last good line and good line `number` (None: the end)."""
        bad, self._bad = self._bad, []
        first = self.count + 1
        gap = range(first, first + len(bad) if number is None else number)
        if number is not None and number < first:
            self._report("altered", f"{self._what(number)} stands behind {self._what(self.count)}")
        elif not bad and gap:
            self._report("missing", self._what(*gap))
        elif bad and not gap:
            self._report("added", f"{len(bad)} lines before {self._what(first)}")
        elif bad:
            known = [each for each in bad if each is not None and each in gap]
            if len(bad) < len(gap) and len(known) == len(bad):
                self._report("missing", self._what(*sorted(set(gap) - set(known))))
                self._report("altered", f"{self._what(*known)} does not follow what is before it")
            else:
                self._report("altered", f"{self._what(*gap)} does not follow the chain")

    def _what(self, *numbers: int) -> str:
        word = "record seq" if self._counter == "seq" else "line"
        last = f" to {numbers[-1]}" if len(numbers) > 1 else ""
        return f"{word} {numbers[0]}{last}"

    def _report(self, kind: Kind, detail: str) -> None:
        self.problems.append(Problem(self._name, kind, detail))


def _record(body: bytes) -> dict[str, Any] | None:
    try:
        record = parse(body)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
