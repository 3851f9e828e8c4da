"""A witness of this machine for the workloads' tests: a small transport over subprocess."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

import fiopy
from kvgate.errors import CommandError
from kvgate.model.record import Evidence, EvidenceRef
from kvgate.spec.inventory import Host, Role
from kvgate.transport.base import OUTPUT_CAP_BYTES, CommandResult
from kvgate.witness import Witness


def result_of(done: fiopy.Finished) -> CommandResult:
    return CommandResult(
        host="box", argv=done.argv, exit_status=done.exit_status, stdout=done.stdout,
        stderr=done.stderr, started_at=done.started_at, elapsed_s=done.elapsed_s,
        timed_out=done.timed_out)


class Process:
    """A HostProcess over fiopy's local process."""

    def __init__(self, running: fiopy.Running) -> None:
        self.pid = 0
        self.running = running

    def poll(self) -> bool:
        return self.running.wait(0) is not None

    def wait(self, timeout_s: float) -> CommandResult:
        done = self.running.wait(timeout_s)
        if done is None:
            raise CommandError("box", "it still runs")
        return result_of(done)

    def stop(self, grace_s: float = 5.0) -> CommandResult:
        return result_of(self.running.stop())

    def kill(self) -> None:
        self.running.stop()


class ThisMachine:
    """A Transport to this machine; `answers` overrides what a command (its first word) does."""

    name = "box"

    def __init__(self) -> None:
        self.local = fiopy.LocalRunner()
        self.asked: list[tuple[str, ...]] = []
        self.answers: dict[str, Callable[[CommandResult], CommandResult]] = {}

    def run(self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"",
            env: Mapping[str, str] | None = None,
            cap_bytes: int = OUTPUT_CAP_BYTES) -> CommandResult:
        self.asked.append(tuple(argv))
        result = result_of(self.local.run(argv, timeout_s=timeout_s))
        return self.answers.get(argv[0], lambda same: same)(result)

    def start(self, argv: Sequence[str], *, deadline_s: float,
              on_stdout: Callable[[bytes], None] | None = None,
              env: Mapping[str, str] | None = None,
              cap_bytes: int = OUTPUT_CAP_BYTES) -> Process:
        self.asked.append(tuple(argv))
        return Process(self.local.start(argv, deadline_s=deadline_s, on_stdout=on_stdout))

    def write_file(self, path: str, data: bytes, *, mode: int = 0o600) -> None:
        Path(path).write_bytes(data)

    def read_file(self, path: str, *, cap_bytes: int = OUTPUT_CAP_BYTES) -> bytes:
        try:
            return Path(path).read_bytes()
        except OSError as err:
            raise CommandError("box", str(err)) from err

    def close(self) -> None:
        pass


@dataclasses.dataclass
class Bench:
    """A witness, its transport, and the evidence that was kept."""

    witness: Witness
    transport: ThisMachine
    kept: dict[EvidenceRef, Evidence]
    scratch: Path


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Return a bench of this machine with a scratch folder of its own."""
    kept: dict[EvidenceRef, Evidence] = {}
    transport = ThisMachine()
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    def keep(piece: Evidence) -> EvidenceRef:
        ref = hashlib.sha256(repr(piece).encode()).hexdigest()
        kept[ref] = piece
        return ref

    host = Host(roles=[Role.SERVING], transport="local", scratch=str(scratch), name="box")
    return Bench(Witness(host, transport, keep), transport, kept, scratch)
