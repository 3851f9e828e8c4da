"""Replays KV traffic on hosts: what is asked, sent there as one program, and what came back.

Hosts begin each phase together, on data of their own (but what is shared): each says when it is
ready, and is given a start by its own clock.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import inspect
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from kvgate.errors import CommandError, KvgateError, ParseError, UsageError
from kvgate.kv.content import MOST_CHUNKS
from kvgate.model.record import EvidenceRef
from kvgate.transport.base import OUTPUT_CAP_BYTES
from kvgate.untrusted import plain
from kvgate.witness import Witness, as_evidence
from kvgate.workloads.replay_lines import event_of
from kvgate.workloads.replay_place import PAGE
from kvgate.workloads.replay_result import Replayed, parsed
from kvgate.workloads.travel import program_of, travelled

PURPOSE = "replay"
"""Part of the folder's name, by which a later replay knows what a killed one left."""

_MODULES = (
    "kvgate.kv.content",
    *(f"kvgate.workloads.replay_{name}" for name in ("hist", "place", "tier", "crew", "host")),
)
_SLOWEST_B_S = 20e6  # what a path carries at least, for deadlines
_BARRIER_S = 600.0
_AHEAD_S = 1.0
_ASK_S = 20.0
_CLOCK_LOOKS = 3
_LONGEST_ARGUMENT = 64 * 1024
_MOST_SAID = OUTPUT_CAP_BYTES  # what is kept of it: behind that nothing could be read any more
_REFUSED = 2  # the program's exit status where it said why nothing can be measured

OnProgress = Callable[[str], None]
OnStored = Callable[[], None]
"""Is called on each host once all its sessions are stored, while they are restored."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """One restore level: how many sessions at once, how many chunks at once a rank reads.

    ``readers`` 1 is serial. ``store_pct`` of the sessions are new ones that are stored meanwhile.
    ``arrivals``: (seconds after the start, chunks of a rank to restore) instead of a closed loop.
    """

    concurrency: int
    readers: int
    store_pct: int = 0
    arrivals: tuple[tuple[float, int], ...] = ()

    def job(self, ranks: int) -> dict[str, object]:
        """Return it as the program takes it: arrivals by chunks of all ranks."""
        due = [(seconds, chunks * ranks) for seconds, chunks in self.arrivals]
        return {**dataclasses.asdict(self), "arrivals": due}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A replay: its sessions and their chunks, how they lie, and what is done with them.

    ``chunks`` a session has on each of ``ranks``, of ``chunk_bytes`` each; the first ``shared``
    are the same bytes in all sessions. ``capacity`` bounds what ``fill`` and ``full`` store.
    """

    seed: int
    sessions: int
    chunks: int
    chunk_bytes: int
    ranks: int = 1
    shared: int = 0
    compressed_pct: int = 0
    block_bytes: int = 0  # 0: a chunk at once
    extents: bool = False
    direct: bool = True
    checked: bool = True
    drop_caches: bool = False
    store_readers: int = 8
    levels: tuple[Reads, ...] = ()
    fill: tuple[int, ...] = ()
    full: bool = False
    capacity: int = 0
    plant: bool = False

    @property
    def padded_bytes(self) -> int:
        """Return what a chunk takes in its file: whole pages, as O_DIRECT wants them."""
        return -(-self.chunk_bytes // PAGE) * PAGE

    @property
    def session_bytes(self) -> int:
        """Return what a session takes, on all ranks."""
        return self.chunks * self.ranks * self.padded_bytes

    @property
    def most_bytes(self) -> int:
        """Return what may be stored at once at most."""
        new = max((each.store_pct for each in self.levels), default=0)
        stored = self.sessions * self.session_bytes * (1 + bool(new) * len(self.levels))
        return max(stored, self.capacity)

    @property
    def moved_bytes(self) -> int:
        """Return what is written and read in all, about: for deadlines."""
        levels = 1 + len(self.levels) + bool(self.plant)
        return self.sessions * self.session_bytes * levels + self.capacity * 3

    def refuse(self) -> None:
        """Raise UsageError for what can't be replayed."""
        if self.plant and (self.sessions < 2 or (self.chunks - self.shared) * self.ranks < 3):
            raise UsageError("planting faults takes 2 sessions of 3 chunks that are not shared")
        if self.plant and (self.padded_bytes < 8 * PAGE or not self.checked):
            raise UsageError("planting faults takes checks, and chunks of 32 KiB or more")
        if (self.fill or self.full) and not self.capacity:
            raise UsageError(
                "to fill the tier takes a capacity: what may be stored at most",
                hint="name one: --capacity '20 GB', or in a plan tier: {capacity: 20 GB}",
            )
        if (self.fill or self.full) and self.capacity < 4 * self.session_bytes:
            raise UsageError(
                f"a capacity of {self.capacity / 1e9:.3f} GB does not hold 4 sessions of "
                f"{self.session_bytes / 1e9:.3f} GB",
                hint="name a larger capacity, or shorter sessions",
            )
        if self.block_bytes % PAGE or self.shared > self.chunks or not self.levels:
            raise UsageError(
                f"blocks are multiples of {PAGE} bytes, no more chunks are shared than there are, "
                "and at least one level of reads is asked for"
            )

    def first_of(self, number: int, hosts: int) -> int:
        """Return by which number host `number` begins to make sessions: no two hosts' are alike."""
        return number * (MOST_CHUNKS // (self.chunks * self.ranks) // hosts - 1)

    def job(self, folder: str, *, barrier: bool, first: int = 0) -> str:
        """Return it as the program takes it."""
        rest = {
            name: getattr(self, name)
            for name in (
                *("seed", "sessions", "ranks", "compressed_pct", "extents", "direct", "checked"),
                *("drop_caches", "store_readers", "fill", "full", "capacity", "plant"),
            )
        }
        job = {
            **rest,
            "folder": folder,
            "places": self.chunks * self.ranks,
            "shared": self.shared * self.ranks,
            "chunk_bytes": self.padded_bytes,
            "block_bytes": self.block_bytes or self.padded_bytes,
            "levels": [each.job(self.ranks) for each in self.levels],
            "barrier_s": _BARRIER_S if barrier else 0,
            "first": first,
        }
        return json.dumps(job, separators=(",", ":"))


@dataclasses.dataclass(frozen=True, slots=True)
class Told:
    """What one host's replay came to, the evidence, and how far its clock was ahead of ours."""

    found: Replayed
    evidence: tuple[EvidenceRef, ...]
    clock_ahead_s: float


def program() -> bytes:
    """Return the program that travels: one file."""
    sources = {name: inspect.getsource(importlib.import_module(name)).encode() for name in _MODULES}
    return program_of(sources, main=_MODULES[-1])


def run(
    witnesses: Sequence[Witness],
    spec: Spec,
    *,
    on_progress: OnProgress = lambda _: None,
    on_stored: OnStored = lambda: None,
) -> tuple[Told, ...]:
    """Replay `spec` on every host, each phase begun together; in the scratch folder of each.

    Raises NotRunError, TransportError, ParseError, UsageError; where one host fails, all end.
    """
    spec.refuse()
    tell = (on_progress, on_stored)
    starts = _Starts(len(witnesses)) if len(witnesses) > 1 else None
    if starts is None:
        return (_one(witnesses[0], spec, None, tell),)
    with ThreadPoolExecutor(len(witnesses)) as pool:
        firsts = [spec.first_of(number, len(witnesses)) for number in range(len(witnesses))]
        work = [
            pool.submit(_joined, each, spec, starts, tell, first)
            for each, first in zip(witnesses, firsts, strict=True)
        ]
        errors = [err for each in work if (err := each.exception()) is not None]
        known = [err for err in errors if isinstance(err, KvgateError)]
        if errors:
            raise next((err for err in known if not isinstance(err, _LeftError)), errors[0])
        return tuple(each.result() for each in work)


class _LeftError(CommandError):
    """A host was left alone because another one failed."""


def _joined(
    witness: Witness, spec: Spec, starts: _Starts, told: tuple[OnProgress, OnStored], first: int
) -> Told:
    try:
        return _one(witness, spec, starts, told, first)
    except BaseException:
        starts.broken.set()
        raise


class _Starts:
    """Agrees when each phase begins, once all hosts are ready for it."""

    def __init__(self, hosts: int) -> None:
        self._hosts = hosts
        self._ready: dict[int, int] = {}
        self._at: dict[int, float] = {}
        self._changed = threading.Condition()
        self.broken = threading.Event()

    def agreed(self, number: int, host: str) -> float:
        """Return when phase `number` begins, by our clock; waits for the others."""
        until = time.monotonic() + _BARRIER_S
        with self._changed:
            self._ready[number] = self._ready.get(number, 0) + 1
            if self._ready[number] == self._hosts:
                self._at[number] = time.time() + _AHEAD_S
                self._changed.notify_all()
            while number not in self._at:
                if self.broken.is_set() or time.monotonic() > until:
                    raise _LeftError(host, "the other hosts did not come to the start")
                self._changed.wait(0.2)
            return self._at[number]


def _one(
    witness: Witness,
    spec: Spec,
    starts: _Starts | None,
    told: tuple[OnProgress, OnStored],
    first: int = 0,
) -> Told:
    """Replay on one host, and remove everything there."""
    ahead = _clock_ahead(witness) if starts else 0.0
    sent = program()
    room = spec.most_bytes if not spec.full else spec.sessions * spec.session_bytes
    with travelled(witness, sent, name="replay.pyz", purpose=PURPOSE, needs_bytes=room) as there:
        lines = _Lines(witness, there.folder, starts, ahead, told)
        job = spec.job(there.folder, barrier=starts is not None, first=first)
        if len(job) > _LONGEST_ARGUMENT:  # many arrivals
            path = f"{there.folder}/job.json"
            witness.transport.write_file(path, job.encode())
            job = f"@{path}"
        argv = [there.python, there.path, job]
        deadline_s = 120 + spec.moved_bytes / _SLOWEST_B_S
        process = witness.transport.start(argv, deadline_s=deadline_s, on_stdout=lines.take)
        with _killed_on_errors(process.kill):
            while not process.poll():
                lines.answer()
                lines.refuse_flood()
                time.sleep(0.01)
            lines.answer()
            result = process.wait(deadline_s)
        ref = witness.keep(as_evidence(result))
        if result.exit_status not in (0, _REFUSED):
            said = plain(result.stderr.decode("utf-8", "replace")).strip().splitlines()[-1:]
            raise CommandError(
                witness.host.name, f"the replay broke: {''.join(said) or result.describe()}"
            )
        found = parsed(witness.host.name, result.stdout)
        return Told(found, (*there.evidence, ref), ahead)


@contextlib.contextmanager
def _killed_on_errors(kill: Callable[[], None]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        kill()
        raise


class _Lines:
    """Follows what the program says: progress, and that it is ready for a start."""

    def __init__(
        self,
        witness: Witness,
        folder: str,
        starts: _Starts | None,
        ahead_s: float,
        told: tuple[OnProgress, OnStored],
    ) -> None:
        self._witness, self._folder, self._starts = witness, folder, starts
        self._ahead_s, (self._on_progress, self._on_stored) = ahead_s, told
        self._stored = threading.Event()
        self._rest: list[bytes] = []  # of a line whose end has not come
        self._ready: list[int] = []
        self._asked = 0  # starts that were asked for
        self._said = 0  # bytes

    def take(self, piece: bytes) -> None:
        """Take what came; called by the transport's thread."""
        self._said += len(piece)
        if self._said > _MOST_SAID:
            self._rest.clear()
            return
        if b"\n" not in piece:
            self._rest.append(piece)
            return
        *lines, rest = b"".join((*self._rest, piece)).split(b"\n")
        self._rest = [rest]
        for each in lines:
            event = event_of(each)
            if event is None:
                continue
            if event.number == self._asked + 1:  # each start is asked for once, in order
                self._asked += 1
                self._ready.append(event.number)
            elif not event.number:
                if event.phase == "store":
                    self._stored.set()
                self._on_progress(f"{event.phase}: {event.seconds:.1f} s")

    def refuse_flood(self) -> None:
        """Raise CommandError where the host says more than any replay does."""
        if self._said > _MOST_SAID:
            raise CommandError(
                self._witness.host.name,
                f"the replay said over {_MOST_SAID >> 20} MiB, which none does: it was ended",
                hint="look at what answers there as Python: `kvgate probe` shows its version",
            )

    def answer(self) -> None:
        """Give the program the start that it waits for, if it does; tell that all is stored."""
        if self._stored.is_set():
            self._stored.clear()
            self._on_stored()
        while self._ready and self._starts is not None:
            number = self._ready.pop(0)
            at = self._starts.agreed(number, self._witness.host.name) + self._ahead_s
            if self._witness.host.transport != "recorded":
                path = f"{self._folder}/go-{number}"
                self._witness.transport.write_file(path, f"{at:.6f}".encode())


def _clock_ahead(witness: Witness) -> float:
    """Return how far the host's clock is ahead of ours, by the quickest of a few looks."""
    best: tuple[float, float] | None = None
    for _ in range(_CLOCK_LOOKS):
        before = time.time()
        told = witness.ask(["date", "+%s.%N"], timeout_s=_ASK_S).stdout
        after = time.time()
        try:
            ahead = float(told) - (before + after) / 2
        except ValueError as err:
            raise ParseError(f"{witness.host.name}: date said {told[:60]!r}, no time") from err
        if best is None or after - before < best[0]:
            best = (after - before, ahead)
    return best[1] if best else 0.0
