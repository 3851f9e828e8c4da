"""Understands what a sampler on a host says, line by line; never believes that it is whole."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kvgate.errors import ParseError
from kvgate.telemetry import hostread
from kvgate.untrusted import mask, plain

LONGEST_BYTES = 2**20
"""The longest line: 4,000 series have 80 KB."""

MOST_SERIES = 4096
MOST_GROUPS = 24
MISSING = -(2**63)
"""The value of what was not told; no series has it."""

Row = npt.NDArray[np.int64]

_GROUP = re.compile(r"[a-z][a-zA-Z0-9:._-]{0,63}")
_NAME = re.compile(r"[!-~]([ -~]{0,498}[!-~])?")
_SPEC = re.compile(r"[cl](1|10|100|1000|1000000)?")
_TEXT = 1000
_ODD = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


class Names(NamedTuple):
    """The series of a group from now on: names and specs (`hostread`), in the order of values."""

    group: str
    number: int
    series: tuple[tuple[str, str], ...]


class Sample(NamedTuple):
    """One sample of a group: the host's uptime and clock, and a value for each of its series."""

    group: str
    number: int
    uptime_ms: int
    clock_us: int
    row: Row


class Said(NamedTuple):
    """Something that happened: ``kind``, ``text`` and what else belongs to it."""

    event: dict[str, Any]


class Hello(NamedTuple):
    """Who samples: ``boot`` names the boot of the host, ``absent`` what it has not or may not."""

    boot: str
    python: str
    absent: dict[str, str]


class Answered(NamedTuple):
    """The answer to question `number` about the time, by the host's uptime and clock, in ns."""

    number: int
    uptime_ns: int
    clock_ns: int


Heard = Names | Sample | Said | Hello | Answered


class Listener:
    """Cuts a sampler's output, which comes in any pieces, into what it says."""

    def __init__(self) -> None:
        self._held = b""
        self._sizes: dict[str, tuple[int, int]] = {}  # group → number and length of its rows
        self._shell: _Shell | None = None
        self._before: dict[str, Any] = {}
        self._names: tuple[tuple[str, str], ...] = ()

    def feed(self, piece: bytes) -> Iterator[Heard | ParseError]:
        """Yield what `piece` completes; a line that is none is yielded as the error it is."""
        *lines, self._held = (self._held + piece).split(b"\n")
        for line in lines:
            try:
                yield from self._line(line)
            except ParseError as err:
                yield err
            except _ODD as err:
                shown = plain(line[:60].decode("utf-8", "replace"))
                yield ParseError(f"sampler: '{shown}': {type(err).__name__}: {err}")
        if len(self._held) > LONGEST_BYTES:
            self._held = b""
            yield ParseError(f"sampler: {LONGEST_BYTES} bytes without the end of a line")

    def _line(self, line: bytes) -> Iterator[Heard]:
        if len(line) > LONGEST_BYTES:
            raise ParseError(f"sampler: a line of {len(line)} bytes")
        if self._shell is not None and not line.startswith(b"B "):
            if line == b"F":
                yield from self._of_shell(self._shell)
                self._shell = None
            else:
                self._shell.add(line)
            return
        kind, _, rest = line.partition(b" ")
        if kind == b"V":
            yield self._sample(rest)
        elif kind == b"S":
            yield self._series(rest)
        elif kind == b"E":
            yield Said(_event(json.loads(rest)))
        elif kind == b"P":
            number, uptime, clock = (_count(word) for word in rest.split(b" "))
            yield Answered(number, uptime, clock)
        elif kind == b"H":
            yield _hello(json.loads(rest))
        elif kind == b"B":
            self._shell = _Shell(rest)
        else:
            raise ParseError(f"sampler: '{plain(line[:60].decode('utf-8', 'replace'))}' is no line")

    def _series(self, rest: bytes) -> Names:
        group, number, text = rest.split(b" ", 2)
        named = group.decode("ascii")
        series = tuple((str(name), str(spec)) for name, spec in json.loads(text))
        return self._known(named, _count(number), series)

    def _known(self, group: str, number: int, series: tuple[tuple[str, str], ...]) -> Names:
        if not _GROUP.fullmatch(group) or len(self._sizes.keys() | {group}) > MOST_GROUPS:
            raise ParseError(f"sampler: group '{plain(group[:60])}' is refused")
        if len(series) > MOST_SERIES:
            raise ParseError(f"sampler: {len(series)} series in one group, over {MOST_SERIES}")
        for name, spec in series:
            if not _NAME.fullmatch(name) or not _SPEC.fullmatch(spec):
                raise ParseError(f"sampler: series '{plain(name[:60])}' of '{plain(spec[:9])}'")
        if len({name for name, _ in series}) != len(series):
            raise ParseError(f"sampler: group '{group}' names a series twice")
        self._sizes[group] = (number, len(series))
        return Names(group, number, series)

    def _sample(self, rest: bytes) -> Sample:
        group, number, uptime, clock, values = rest.split(b" ", 4)
        named, told = group.decode("ascii"), _count(number)
        if named not in self._sizes or self._sizes[named][0] != told:
            raise ParseError(f"sampler: a sample of '{plain(named[:60])}' before its names")
        row = np.array(list(map(int, values.split(b" "))), dtype=np.int64)
        if len(row) != self._sizes[named][1]:
            raise ParseError(
                f"sampler: {len(row)} values for {self._sizes[named][1]} series of '{named}'"
            )
        return Sample(named, told, _count(uptime), _count(clock), row)

    def _of_shell(self, shell: _Shell) -> Iterator[Heard]:
        """Make of what the shell's sampler read what the other one would have said."""
        self._before["blocks"] = shell.blocks
        found, _ = hostread.told(shell.texts(), self._before)
        names = tuple((name, spec) for name, (spec, _) in found.items())
        if names != self._names:
            self._names = names
            yield self._known("fast", self._sizes.get("fast", (0, 0))[0] + 1, names)
        values = [MISSING if value is None else value for _, value in found.values()]
        row = np.array(values, dtype=np.int64)
        yield Sample("fast", self._sizes["fast"][0], shell.uptime_ms, shell.clock_us, row)


class _Shell:
    """The lines of one sample of the shell: ``path:text``."""

    def __init__(self, rest: bytes) -> None:
        uptime, was, clock = rest.split(b" ")
        seconds, _, fraction = clock.partition(b".")
        self.uptime_ms = _count(uptime)
        since_us = (self.uptime_ms - _count(was)) * 1000
        self.clock_us = _count(seconds) * 10**6 + _count((fraction or b"0")[:6]) + since_us
        self.blocks: set[str] = set()
        self._files: dict[str, list[str]] = {}
        self._bytes = 0

    def add(self, line: bytes) -> None:
        path, _, text = line.decode("ascii", "replace").partition(":")
        self._bytes += len(line)
        if self._bytes > 4 * LONGEST_BYTES:
            raise ParseError("sampler: the shell's sample has no end")
        if path.startswith("/sys/block/") and not text:
            self.blocks.add(path[len("/sys/block/") :])
        else:
            self._files.setdefault(path, []).append(text)

    def texts(self) -> dict[str, str]:
        return {path: "\n".join(lines) for path, lines in self._files.items()}


def _count(word: bytes) -> int:
    if not word.isdigit() or len(word) > 19:
        raise ParseError(f"sampler: '{plain(word[:30].decode('utf-8', 'replace'))}' is no number")
    return int(word)


def _hello(told: Any) -> Hello:
    absent = told["absent"]
    return Hello(
        _clean(told["boot"])[:64],
        _clean(told["python"])[:20],
        {_clean(name)[:200]: _clean(why)[:200] for name, why in list(absent.items())[:200]},
    )


def _event(told: Any) -> dict[str, Any]:
    event: dict[str, Any] = {"kind": _clean(told["kind"])[:40], "text": _clean(told["text"])}
    for name in ("level", "seq", "us"):
        if type(told.get(name)) is int and 0 <= told[name] < 2**63:
            event[name] = told[name]
    return event


def _clean(text: object) -> str:
    """Return what a host said with its secrets masked and nothing that a terminal obeys."""
    return mask(plain(str(text)))[:_TEXT]
