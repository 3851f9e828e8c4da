"""Parses what the watcher of paths prints: which paths there are, their states, and when."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from kvgate.errors import ParseError
from kvgate.telemetry.paths_script import BEGIN
from kvgate.untrusted import plain

LINE_CAP_BYTES = 64 * 1024
"""The longest line; a host that prints more without an end is not watching."""

LIVE = "live"
OPTIMIZED = "optimized"
UNTOLD = "-"

_WORDS = 7
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
_TIME = re.compile(r"[0-9]{1,10}(\.[0-9]{1,9})?", re.ASCII)
_ADDRESS = re.compile(r"[A-Za-z0-9_.:,=%/\[\]-]{1,300}", re.ASCII)
_NAME = re.compile(r"nvme[0-9]{1,5}", re.ASCII)
_WORD = re.compile(r"[a-z][a-z -]{0,30}|-", re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class PathId:
    """A path by its address, which stays over reconnects: the controller's name does not."""

    transport: str
    address: str
    port: str = ""
    source: str = ""

    def __str__(self) -> str:
        port = f":{self.port}" if self.port else ""
        source = f" from {self.source}" if self.source else ""
        return f"{self.transport} {self.address}{port}{source}"


@dataclasses.dataclass(frozen=True, slots=True)
class PathState:
    """A path at one moment; reads and writes are those it has completed (None: not told)."""

    controller: str
    state: str
    ana: str
    reads: int | None
    writes: int | None

    @property
    def best(self) -> bool:
        """Tell whether it is live and optimized (or the array tells no ANA states)."""
        return self.state == LIVE and self.ana in (OPTIMIZED, UNTOLD)

    @property
    def told(self) -> str:
        """Return the state as people say it: ``live, optimized``."""
        return self.state if self.ana == UNTOLD else f"{self.state}, {self.ana}"


@dataclasses.dataclass(frozen=True, slots=True)
class Moment:
    """All paths of the subsystem at one moment of the host's uptime and clock, in seconds."""

    uptime_s: float
    clock_s: float
    paths: Mapping[PathId, PathState]

    @property
    def best(self) -> frozenset[PathId]:
        """Return the paths that are live and optimized."""
        return frozenset(name for name, each in self.paths.items() if each.best)


class Follower:
    """Reads one line after the other, and knows a path again while it is not connected.

    The kernel tells the host's own address (``src_addr``) of connected paths only.
    """

    def __init__(self) -> None:
        self._known: dict[str, PathId] = {}  # by controller

    def moment(self, line: bytes) -> Moment:
        """Return what `line` tells; raises ParseError as `parse` does."""
        seen = parse(line)
        paths: dict[PathId, PathState] = {}
        for name, state in seen.paths.items():
            known = self._known.get(state.controller)
            if known is not None and not name.source and known == _from(name, known.source):
                paths[known] = state
            else:
                paths[name] = state
        self._known |= {state.controller: name for name, state in paths.items()}
        return dataclasses.replace(seen, paths=paths)


def _from(name: PathId, source: str) -> PathId:
    return dataclasses.replace(name, source=source)


def parse(line: bytes) -> Moment:
    """Return what one line tells; raises ParseError where it is none of the watcher's."""
    words = line.decode("utf-8", "replace").split(" ")
    if words[0] != BEGIN or len(words) < 3 or (len(words) - 3) % _WORDS:
        raise ParseError(f"watcher of paths: {plain(repr(line[:120]))} is no line of its")
    if not (_TIME.fullmatch(words[1]) and _TIME.fullmatch(words[2].removesuffix(".%N"))):
        raise ParseError(f"watcher of paths: {plain(repr(line[:60]))} begins with no time")
    paths: dict[PathId, PathState] = {}
    for at in range(3, len(words), _WORDS):
        name, state = _path(words[at : at + _WORDS])
        known = paths.get(name)
        if known is None or state.best:  # an old controller may still be there, deleting
            paths[name] = state
    clock = float(words[2].removesuffix(".%N"))
    return Moment(float(words[1]), clock, paths)


def _path(words: list[str]) -> tuple[PathId, PathState]:
    controller, transport, address, state, ana, reads, writes = words
    sound = _NAME.fullmatch(controller) and _ADDRESS.fullmatch(address)
    if not sound or not all(map(_WORD.fullmatch, (transport, state, ana))):
        raise ParseError(f"watcher of paths: {plain(' '.join(words))[:200]} is no path")
    parts = dict(part.partition("=")[::2] for part in address.split(","))
    name = PathId(
        transport,
        parts.get("traddr", address),
        parts.get("trsvcid", ""),
        parts.get("host_traddr") or parts.get("src_addr", ""),
    )
    return name, PathState(controller, state, ana, _count(reads), _count(writes))


def _count(word: str) -> int | None:
    if word == UNTOLD:
        return None
    if not _NUMBER.fullmatch(word):
        raise ParseError(f"watcher of paths: {plain(word[:40])} is no count of I/Os")
    return int(word)
