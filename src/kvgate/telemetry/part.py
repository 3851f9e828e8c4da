"""One part of a run's telemetry, a log or the columnar files made of one, read in the same way."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np

from kvgate.store.layout import read_bytes
from kvgate.store.telemetry_log import entry_at
from kvgate.telemetry import hours
from kvgate.telemetry.block import Group, bins_of, samples_of
from kvgate.telemetry.columns import ColumnReader
from kvgate.telemetry.pyramid import Bins, Ints, joined
from kvgate.telemetry.stream import gaps_of


@dataclasses.dataclass(frozen=True, slots=True)
class Held:
    """A group of a host in a part: which of its names, and from when to when."""

    host: str
    group: str
    number: int
    every_ms: int
    first_ms: int
    last_ms: int
    place: int  # of the part's own


class Part(Protocol):
    """A log or columnar files; every method raises DamagedRunError, ParseError or StoreError."""

    path: Path
    held: tuple[Held, ...]

    def names(self, held: Held) -> tuple[tuple[str, str], ...]:
        """Return names and specs of the series of `held`."""
        ...

    def spec(self, held: Held, name: str) -> str:
        """Return the spec of series `name` in `held`; "" where it has none."""
        ...

    def samples(self, held: Held, name: str) -> tuple[Ints, Ints, Ints]:
        """Return times, spans (both ms) and values of series `name`."""
        ...

    def bins(self, held: Held, name: str, width_ms: int) -> list[Bins]:
        """Return series `name` at the level of `width_ms`."""
        ...

    def gaps(self, held: Held) -> list[tuple[int, int]]:
        """Return between which samples of `held` (ms) others are missing."""
        ...

    def events(self) -> Iterator[bytes]:
        """Yield the lines of what happened."""
        ...


class LogPart:
    """A log: of the hour that is being written, of a crash, or for want of pyarrow."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._found = found = hours.Indexed.of(path)
        self.torn, self.end = found.torn, found.end
        self._keys = sorted(found.blocks)
        self.held = tuple(
            Held(*key, found.groups[key].every_ms, *found.spans[key], place)
            for place, key in enumerate(self._keys)
        )

    def _group(self, held: Held) -> Group:
        return self._found.groups[self._keys[held.place]]

    def _payloads(self, held: Held) -> Iterator[bytes]:
        for start, end in self._found.blocks[self._keys[held.place]]:
            yield entry_at(self.path, start, end)

    def names(self, held: Held) -> tuple[tuple[str, str], ...]:
        """Return names and specs of the series of `held`."""
        return self._group(held).series

    def spec(self, held: Held, name: str) -> str:
        """Return the spec of series `name` in `held`; "" where it has none."""
        return dict(self._group(held).series).get(name, "")

    def samples(self, held: Held, name: str) -> tuple[Ints, Ints, Ints]:
        """Return times, spans and values of series `name`."""
        group = self._group(held)
        at = [each for each, _ in group.series].index(name)
        blocks = [samples_of(payload, group) for payload in self._payloads(held)]
        return (
            np.concatenate([each.t for each in blocks]),
            np.concatenate([each.span for each in blocks]),
            np.concatenate([each.values[at] for each in blocks]),
        )

    def bins(self, held: Held, name: str, width_ms: int) -> list[Bins]:
        """Return series `name` at the level of `width_ms`, made of those of ten seconds."""
        at = [each for each, _ in self._group(held).series].index(name)
        parts = [bins_of(payload).series(at) for payload in self._payloads(held)]
        return [joined(parts).wider(width_ms)]

    def gaps(self, held: Held) -> list[tuple[int, int]]:
        """Return between which samples of `held` others are missing."""
        group = self._group(held)
        t = np.concatenate([samples_of(each, group).t for each in self._payloads(held)])
        return gaps_of(t, held.every_ms)

    def events(self) -> Iterator[bytes]:
        """Yield the lines of what happened."""
        yield from self._found.events


class ColumnPart:
    """The columnar files that were made of a log."""

    torn = ""

    def __init__(self, folder: Path, stem: str) -> None:
        self.path = folder / (stem + hours.BINS)
        self._bins = ColumnReader(self.path)
        self._samples_path = folder / (stem + hours.SAMPLES)
        self._samples: ColumnReader | None = None  # opened when samples are wanted
        self._events = folder / (stem + hours.EVENTS)
        self._names: dict[int, dict[str, tuple[int, str]]] = {}
        self._rows: dict[int, dict[tuple[str, str, int, str], list[tuple[int, int]]]] = {}
        self._notes = [
            (place, note)
            for place, note in enumerate(self._bins.row_groups)
            if note["width_ms"] == hours.BY_HOST_MS[0]
        ]
        self.held = tuple(
            Held(
                note["host"],
                note["group"],
                note["number"],
                note["every_ms"],
                note["first_ms"],
                note["last_ms"],
                place,
            )
            for place, (_, note) in enumerate(self._notes)
        )

    def _of(self, held: Held) -> dict[str, tuple[int, str]]:
        """Return name → its row among the samples of `held`, behind times and spans; its spec."""
        if held.place not in self._names:
            told = self._bins.columns(self._notes[held.place][0], ["series", "spec"])
            self._names[held.place] = _rows_of(tuple(told["series"]), tuple(told["spec"]))
        return self._names[held.place]

    def names(self, held: Held) -> tuple[tuple[str, str], ...]:
        """Return names and specs of the series of `held`."""
        return tuple((name, spec) for name, (_, spec) in self._of(held).items())

    def spec(self, held: Held, name: str) -> str:
        """Return the spec of series `name` in `held`; "" where it has none."""
        return self._of(held).get(name, (0, ""))[1]

    def samples(self, held: Held, name: str) -> tuple[Ints, Ints, Ints]:
        """Return times, spans and values of series `name`."""
        if self._samples is None:
            self._samples = ColumnReader(self._samples_path)
        rows = (0, 1, self._of(held)[name][0])
        (t,), (span,), (values,) = self._samples.lists(held.place, ["values"], rows)
        return t, span, values

    def bins(self, held: Held, name: str, width_ms: int) -> list[Bins]:
        """Return series `name` at the level of `width_ms`."""
        found = []
        for number, note in enumerate(self._bins.row_groups):
            if note["width_ms"] == width_ms and _may_hold(note, held, name):
                rows = self._places(number).get((held.host, held.group, held.number, name), [])
                lists = self._bins.lists(number, list(hours.BIN_LISTS), [row for row, _ in rows])
                for (_, first), (low, high, total, count) in zip(rows, lists, strict=True):
                    t = first + width_ms * np.arange(len(low), dtype=np.int64)
                    found.append(
                        Bins(width_ms, t, low[None], high[None], total[None], count[None])  # type: ignore[arg-type]
                    )
        return found

    def _places(self, number: int) -> dict[tuple[str, str, int, str], list[tuple[int, int]]]:
        """Return series → its rows in row group `number` of the bins, and when each begins."""
        if number not in self._rows:
            told = self._bins.columns(number, ["host", "group", "number", "series", "first_ms"])
            places: dict[tuple[str, str, int, str], list[tuple[int, int]]] = {}
            for row, (*key, first) in enumerate(zip(*told.values(), strict=True)):
                host, group, names, series = key
                places.setdefault((host, group, names, series), []).append((row, first))
            self._rows[number] = places
        return self._rows[number]

    def gaps(self, held: Held) -> list[tuple[int, int]]:
        """Return between which samples of `held` others are missing."""
        return [(a, b) for a, b in self._notes[held.place][1]["gaps"]]

    def events(self) -> Iterator[bytes]:
        """Yield the lines of what happened."""
        yield from read_bytes(self._events).splitlines()


@functools.lru_cache(maxsize=4096)  # a host has the same names each hour, and hosts like others
def _rows_of(names: tuple[str, ...], specs: tuple[str, ...]) -> dict[str, tuple[int, str]]:
    """Return name → row and spec; the same for the same names, so that 72 h cost as one hour."""
    told = dict(zip(names, specs, strict=True))
    return {name: (row, spec) for row, (name, spec) in enumerate(told.items(), 2)}


def _may_hold(note: dict[str, object], held: Held, name: str) -> bool:
    if "from" in note:
        return str(note["from"]) <= name <= str(note["to"])
    return (note["host"], note["group"], note["number"]) == (held.host, held.group, held.number)
