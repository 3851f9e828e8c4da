"""Asks a host and keeps what it said: a transport whose every answer becomes evidence.

Probes and workloads get a Witness, never a bare transport, so that no number can be obtained
without the bytes it was read from.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections.abc import Callable, Mapping, Sequence

from kvgate.model.record import Evidence, EvidenceRef, Reading
from kvgate.spec.adapter import Adapter
from kvgate.spec.inventory import Host
from kvgate.transport.base import OUTPUT_CAP_BYTES, CommandResult, Transport
from kvgate.untrusted import known_secrets, mask, mask_bytes

_SMALL = 64 * 1024

Keep = Callable[[Evidence], EvidenceRef]
"""Stores a piece of evidence and returns its SHA-256 (`store.run.RunWriter.evidence`)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Testimony:
    """A command's result and the evidence it was stored as."""

    result: CommandResult
    ref: EvidenceRef

    @property
    def stdout(self) -> bytes:
        """Return stdout of a command that exited 0; raises CommandError otherwise."""
        return self.result.expect_ok().stdout


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What a probe or workload found out, and from which evidence."""

    readings: tuple[Reading, ...]
    evidence: tuple[EvidenceRef, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Witness:
    """One host under questioning: its inventory entry, the way to it, and where evidence goes.

    A device that is no computer is asked by its ``adapter``.
    """

    host: Host
    transport: Transport
    store: Keep
    adapter: Adapter | None = None

    def keep(self, piece: Evidence) -> EvidenceRef:
        """Store `piece`, its secrets masked and their number noted; return its SHA-256."""
        return self.store(masked(piece))

    def ask(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        cap_bytes: int = OUTPUT_CAP_BYTES,
    ) -> Testimony:
        """Run `argv`, its first word replaced by the host's tool path, and keep the answer.

        It may take `timeout_s`, and longer on a host that is declared slow (`Host.slack_s`). Raises
        TransportError where the host can't be asked.
        """
        tool, *rest = argv
        result = self.transport.run(
            [self.host.tools.get(tool, tool), *rest],
            timeout_s=timeout_s + self.host.slack_s,
            env=env,
            stdin=stdin,
            cap_bytes=cap_bytes,
        )
        piece = as_evidence(result)
        known = known_secrets()
        if result.free_of == known and _no_secret(piece.command, known):
            return Testimony(result, self.store(piece))  # searched where it was captured
        return Testimony(result, self.keep(piece))


def masked(piece: Evidence) -> Evidence:
    """Return `piece` without the secrets it holds; `piece` itself where it holds none."""
    if len(piece.stdout) + len(piece.stderr) <= _SMALL:  # most: looked through at once
        told = ("\n".join(piece.command)).encode("utf-8", "surrogatepass")
        if not mask_bytes(b"\n".join((told, piece.stdout, piece.stderr)))[1]:
            return piece
    words = tuple(mask(word) for word in piece.command)
    stdout, in_stdout = mask_bytes(piece.stdout)
    stderr, in_stderr = mask_bytes(piece.stderr)
    places = in_stdout + in_stderr
    places += sum(ours != theirs for ours, theirs in zip(words, piece.command, strict=True))
    if not places:
        return piece
    notes = (*piece.notes, _masked(places))
    return dataclasses.replace(piece, command=words, stdout=stdout, stderr=stderr, notes=notes)


@functools.lru_cache(maxsize=256)
def _no_secret(words: tuple[str, ...], _: int) -> bool:
    """Tell whether a command holds none of the secrets known: hosts are asked the same ones."""
    return all(mask(word) == word for word in words)


def _masked(places: int) -> str:
    return f"masked: {places} {'place' if places == 1 else 'places'}"


def as_evidence(result: CommandResult) -> Evidence:
    """Return the piece of evidence that `result` is, with its shortcomings noted."""
    notes: list[str] = []
    if result.masked:
        notes.append(_masked(result.masked))
    if result.timed_out:
        notes.append(f"ended by its deadline after {result.elapsed_s:.1f} s")
    if result.signal is not None:
        notes.append(f"ended by signal {result.signal}")
    if result.stdout_dropped:
        notes.append(f"stdout: {result.stdout_dropped} bytes over the cap were dropped")
    if result.stderr_dropped:
        notes.append(f"stderr: {result.stderr_dropped} bytes over the cap were dropped")
    return Evidence(
        host=result.host,
        command=result.argv,
        exit_status=result.exit_status,
        stdout=result.stdout,
        stderr=result.stderr,
        started_at=result.started_at,
        ended_at=result.started_at + datetime.timedelta(seconds=result.elapsed_s),
        notes=tuple(notes),
    )
