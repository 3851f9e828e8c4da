"""A witness of this machine for the workloads' tests, over the local transport."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvgate.model.record import Evidence, EvidenceRef
from kvgate.spec.inventory import Host, Role
from kvgate.transport.base import CommandResult, HostProcess
from kvgate.transport.local import LocalTransport
from kvgate.witness import Witness


class ThisMachine(LocalTransport):
    """The local transport, watched.

    `answers` changes what a command (its first word) answered, `started` what is started instead.
    """

    def __init__(self) -> None:
        super().__init__("box")
        self.asked: list[tuple[str, ...]] = []
        self.answers: dict[str, Callable[[CommandResult], CommandResult]] = {}
        self.started: dict[str, Callable[[Sequence[str]], Sequence[str]]] = {}

    def run(self, argv: Sequence[str], **options: Any) -> CommandResult:
        self.asked.append(tuple(argv))
        return self.answers.get(argv[0], lambda same: same)(super().run(argv, **options))

    def start(self, argv: Sequence[str], **options: Any) -> HostProcess:
        self.asked.append(tuple(argv))
        return super().start(self.started.get(argv[0], lambda same: same)(argv), **options)


@dataclasses.dataclass
class Bench:
    """A witness, its transport, and the evidence that was kept."""

    witness: Witness
    transport: ThisMachine
    kept: dict[EvidenceRef, Evidence]
    scratch: Path


@pytest.fixture(scope="session")
def fill() -> Callable[[Path, int, int], Path]:
    """Return what fills a folder with files of so many bytes, and blocks that are there again."""

    def make(top: Path, files: int, size: int) -> Path:
        draw = np.random.default_rng(11)
        blocks = [draw.bytes(4096) for _ in range(50)]
        for number in range(files):
            (top / f"d{number % 5}").mkdir(parents=True, exist_ok=True)
            data = draw.bytes(size) + b"".join(blocks[number % 40 : number % 40 + 9])
            (top / f"d{number % 5}" / str(number)).write_bytes(data)
        return top

    return make


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Yield a bench of this machine with a scratch folder of its own."""
    kept: dict[EvidenceRef, Evidence] = {}
    transport = ThisMachine()
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    def keep(piece: Evidence) -> EvidenceRef:
        ref = hashlib.sha256(repr(piece).encode()).hexdigest()
        kept[ref] = piece
        return ref

    host = Host(roles=[Role.SERVING], transport="local", scratch=str(scratch), name="box")
    yield Bench(Witness(host, transport, keep), transport, kept, scratch)
    transport.close()
