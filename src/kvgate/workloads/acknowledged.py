"""Writes whose acknowledgements are kept here, on another machine, and what became of each write.

What was acknowledged (written and flushed) has to be there afterwards, whatever happened to the
array meanwhile: lost power, a takeover, all paths gone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kvgate.errors import CommandError, HarnessError, KvgateError, ParseError
from kvgate.model.quantity import Quantity
from kvgate.model.record import EvidenceRef, Reading
from kvgate.transport.base import CommandResult, HostProcess
from kvgate.untrusted import plain
from kvgate.witness import Witness, as_evidence
from kvgate.workloads import acknowledged_program as program
from kvgate.workloads.devices_runner import Look, refuse_unstarted
from kvgate.workloads.host_runner import ENV
from kvgate.workloads.travel import Travelled, travelled

_VERIFY_S = 1800.0
_SLACK_S = 60.0
_MOST_NAMED = 5

_LINE = re.compile(
    r"(?P<kind>B|D) (?P<at>\d{1,10}\.\d{3})"
    r"|A (?P<slot>\d{1,12}) (?P<number>\d{1,12}) (?P<acked>\d{1,10}\.\d{3})"
    r" (?P<took>\d{1,7}\.\d{6})"
    r"|E (?P<failed>\d{1,12}) (?P<try>\d{1,12}) (?P<met>\d{1,10}\.\d{3}) (?P<errno>\d{1,5})",
    re.ASCII,
)
_FOUND = re.compile(r"(V) (\d{1,12}) (\d{1,12})|(X|Z) (\d{1,12})|(E) (\d{1,12}) \d{1,5}", re.ASCII)


@dataclasses.dataclass(slots=True)
class Written:
    """What the writer said: the last write to each slot that was acknowledged, and errors.

    Times are the host's uptime. ``acks`` are (when, how long it took) in order.
    """

    begun_s: float | None = None
    ended_s: float | None = None
    last: dict[int, int] = dataclasses.field(default_factory=dict)
    acks: list[tuple[float, float]] = dataclasses.field(default_factory=list)
    errors: list[tuple[float, int]] = dataclasses.field(default_factory=list)  # when, errno

    def take(self, line: str) -> None:
        """Take one line; raises ParseError for one that the writer does not print."""
        match = _LINE.fullmatch(line)
        if match is None:
            raise ParseError(f"writer: {plain(repr(line[:120]))} is no line of its")
        if match["kind"]:
            name = "begun_s" if match["kind"] == "B" else "ended_s"
            setattr(self, name, float(match["at"]))
        elif match["slot"]:
            self.last[int(match["slot"])] = int(match["number"])
            self.acks.append((float(match["acked"]), float(match["took"])))
        else:
            self.errors.append((float(match["met"]), int(match["errno"])))


@dataclasses.dataclass(frozen=True, slots=True)
class Fate:
    """What was read back: acknowledged writes that are lost, blocks of wrong data, unreadable."""

    lost: tuple[int, ...]
    wrong: tuple[int, ...]
    unread: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """The program on a host, and what it works on: a device that `look` clears, or a file."""

    witness: Witness
    there: Travelled
    path: str
    look: Look | None
    block_bytes: int
    slots: int
    seed: int

    def _argv(self, *words: str) -> tuple[list[str], tuple[EvidenceRef, ...]]:
        argv = [self.there.python, self.there.path, *words]
        if self.look is None:
            return argv, ()
        device = self.look()
        return device.guarded(argv), device.evidence

    def _about(self) -> list[str]:
        return [self.path, str(self.block_bytes), str(self.slots), str(self.seed)]

    def start(self, *, rate: float, seconds: float) -> Writing:
        """Start to write; raises DeviceRefusedError, TransportError."""
        argv, refs = self._argv("write", *self._about(), f"{rate:g}", f"{seconds:g}")
        stop_file = f"{self.there.folder}/{program.ENOUGH}"
        return Writing(self.witness, argv, seconds + _SLACK_S, refs, stop_file)

    def verify(self, written: Written) -> tuple[Fate, tuple[EvidenceRef, ...]]:
        """Read everything back; raises HarnessError where that came to no end."""
        argv, refs = self._argv("verify", *self._about())
        told = self.witness.ask(argv, timeout_s=_VERIFY_S, env=ENV)
        if self.look is not None and not told.result.ok:
            refuse_unstarted(told.result, self.look(), (told.ref,))
        return fate(written, told.stdout.decode("ascii", "replace")), (*refs, told.ref)


class Writing:
    """A writer under way. Its lines are kept as they come: the record of what was acknowledged."""

    def __init__(
        self,
        witness: Witness,
        argv: Sequence[str],
        deadline_s: float,
        refs: tuple[EvidenceRef, ...],
        stop_file: str,
    ) -> None:
        self.witness = witness
        self._stop_file = stop_file
        self.written = Written()
        self.evidence = refs
        self.hung = False
        self._held = b""
        self._trouble: KvgateError | None = None
        self._lock = threading.Lock()
        self.began = threading.Event()
        self._process: HostProcess = witness.transport.start(
            argv, deadline_s=deadline_s, on_stdout=self._take, env=ENV
        )

    def _take(self, piece: bytes) -> None:
        with self._lock:
            *lines, self._held = (self._held + piece).split(b"\n")
            try:
                for line in lines:
                    self.written.take(line.decode("ascii", "replace"))
            except KvgateError as err:
                self._trouble = self._trouble or err
        if self.written.acks or self._trouble or self.written.errors:
            self.began.set()

    def poll(self) -> bool:
        """Tell whether it has ended."""
        return self._process.poll()

    def enough(self) -> None:
        """Let it write no more; raises TransportError, CommandError."""
        self.witness.ask(["touch", self._stop_file], timeout_s=_SLACK_S).result.expect_ok()

    def end(self, within_s: float) -> CommandResult:
        """Wait for its end, then stop it (``hung``); return how it ended.

        Raises ParseError for lines that are none of the writer's, HarnessError where it hangs so
        that it can't even be killed.
        """
        try:
            result = self._process.wait(within_s)
        except CommandError:
            self.hung = True
            try:
                result = self._process.stop()
            except CommandError as err:
                raise HarnessError(f"{err.message}: an I/O of the writer does not end") from err
        self.evidence = (*self.evidence, self.witness.keep(as_evidence(result)))
        with self._lock:
            if self._trouble is not None:
                raise self._trouble
        return result


def fate(written: Written, answer: str) -> Fate:
    """Return what became of the acknowledged writes by what `answer` (of ``verify``) says.

    A slot may hold a later write than the last acknowledged one: it was under way. Slots without
    an acknowledged write say nothing. Raises ParseError for an answer that is not whole.
    """
    lines = answer.splitlines()
    if not lines or lines[-1] != "D":
        raise ParseError("verify: its answer has no end")
    seen: dict[int, tuple[str, int]] = {}
    for line in lines[:-1]:
        match = _FOUND.fullmatch(line)
        if match is None:
            raise ParseError(f"verify: {plain(repr(line[:120]))} is no line of its")
        kind = match[1] or match[4] or match[6]
        slot = int(match[2] or match[5] or match[7])
        seen[slot] = (kind, int(match[3] or 0))
    missing = sorted(set(written.last) - set(seen))
    if missing:
        raise ParseError(f"verify: says nothing of {len(missing)} slots, the first is {missing[0]}")
    found = {slot: seen[slot] for slot in sorted(written.last)}
    return Fate(
        lost=tuple(
            slot
            for slot, (kind, number) in found.items()
            if kind == "Z" or (kind == "V" and number < written.last[slot])
        ),
        wrong=tuple(slot for slot, (kind, _) in found.items() if kind == "X"),
        unread=tuple(slot for slot, (kind, _) in found.items() if kind == "E"),
    )


def readings(written: Written, told: Fate) -> tuple[Reading, ...]:
    """Return how many writes were acknowledged, and how many of their slots lost them.

    Nothing acknowledged proves nothing; what can't be read back is a problem of its own.
    """
    count = len(written.acks)
    nothing = "" if count else "no write was acknowledged: nothing could be lost"
    if told.unread:
        nothing = f"{len(told.unread)} blocks can't be read back: {_few(told.unread)}"
    values = {"failover.lost_writes": len(told.lost), "failover.wrong_data": len(told.wrong)}
    return (
        Reading(name="failover.acknowledged", value=Quantity.of(count, "")),
        *(
            Reading(name=name, value=None if nothing else Quantity.of(each, ""), problem=nothing)
            for name, each in values.items()
        ),
    )


def _few(slots: Sequence[int]) -> str:
    more = ", …" if len(slots) > _MOST_NAMED else ""
    return ", ".join(map(str, slots[:_MOST_NAMED])) + more


@contextlib.contextmanager
def writer(
    witness: Witness,
    *,
    look: Look | None,
    path: Callable[[str], str],
    block_bytes: int,
    size_bytes: int,
    seed: int,
) -> Iterator[Writer]:
    """Place the program on the host; `path` gives what it works on, from its scratch folder.

    Raises NotRunError (no Python, no scratch folder), TransportError.
    """
    needs = 0 if look else size_bytes
    source = Path(program.__file__).read_bytes()
    with travelled(
        witness, source, name="acknowledged.py", purpose="ack", needs_bytes=needs
    ) as there:
        target = path(there.folder)
        if look is None:
            witness.ask(
                [
                    "dd",
                    "if=/dev/zero",
                    f"of={target}",
                    f"bs={block_bytes}",
                    "conv=fsync",
                    f"count={size_bytes // block_bytes}",
                ],
                timeout_s=_VERIFY_S,
            ).result.expect_ok()
        yield Writer(
            witness=witness,
            there=there,
            path=target,
            look=look,
            block_bytes=block_bytes,
            slots=size_bytes // block_bytes,
            seed=seed,
        )
