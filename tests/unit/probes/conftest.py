"""A host that answers what a test has written down, and nothing else."""

import datetime
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from composing import server as composed_server
from composing import whole
from kvgate.model.record import Evidence
from kvgate.spec.inventory import Host
from kvgate.transport.base import CommandResult
from kvgate.transport.local import LocalTransport
from kvgate.witness import Witness

RECORDED = Path(__file__).parents[2] / "recorded"
Say = bytes | tuple[int, bytes, bytes]


def result_of(argv: Sequence[str], say: Say, elapsed_s: float = 0.01) -> CommandResult:
    status, out, err = (0, say, b"") if isinstance(say, bytes) else say
    began = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=elapsed_s)
    return CommandResult(
        host="h1",
        argv=tuple(argv),
        exit_status=status,
        stdout=out,
        stderr=err,
        started_at=began,
        elapsed_s=elapsed_s,
    )


class Scripted:
    """Answers a command by the first text in `says` that stands in it; 127 for any other."""

    name = "h1"

    def __init__(self, says: Mapping[str, Say]) -> None:
        self.says = says
        self.asked: list[tuple[str, ...]] = []

    def run(self, argv: Sequence[str], **_: Any) -> CommandResult:
        self.asked.append(tuple(argv))
        line = " ".join(argv)
        say = next((say for part, say in self.says.items() if part in line), (127, b"", b""))
        return result_of(argv, say)


def host_of(declared: Mapping[str, Any], **fields: Any) -> Host:
    entry = {"roles": ["serving"], "transport": "local", "declared": dict(declared), **fields}
    return Host.model_validate(entry).model_copy(update={"name": "h1"})


def keep(evidence: Evidence) -> str:
    return hashlib.sha256(repr(evidence.command).encode() + evidence.stdout).hexdigest()


MakeWitness = Callable[..., Witness]


@pytest.fixture
def scripted() -> MakeWitness:
    """Return witness(says, declared, **host fields) for a scripted host."""

    def make(says: Mapping[str, Say], declared: Mapping[str, Any], **fields: Any) -> Witness:
        return Witness(host_of(declared, **fields), Scripted(says), keep)  # type: ignore[arg-type]

    return make


@pytest.fixture
def here() -> Iterator[MakeWitness]:
    """Yield witness(declared) for this machine."""
    transport = LocalTransport("h1")

    def make(declared: Mapping[str, Any], **fields: Any) -> Witness:
        return Witness(host_of(declared, **fields), transport, keep)

    yield make
    transport.close()


@pytest.fixture
def recorded() -> Callable[[str], bytes]:
    return lambda name: (RECORDED / name).read_bytes()


@pytest.fixture
def told() -> Callable[[Any], dict[tuple[str, str], Any]]:
    """Return the readings of an answer by (measure, item): the value, or else the problem."""
    return lambda answer: {
        (r.name, r.item): r.problem if r.value is None else r.value for r in answer.readings
    }


@pytest.fixture(scope="session")
def composed() -> Any:
    """Return the answers of a made-up server with 8 GPUs, 12 drives and 4 NICs."""
    return composed_server


class Server(Scripted):
    """Answers a whole command by what `answers` holds for it; 127 for any other."""

    def __init__(self, answers: Mapping[tuple[str, ...], Say]) -> None:
        super().__init__({})
        self.answers = answers

    def run(self, argv: Sequence[str], **_: Any) -> CommandResult:
        self.asked.append(tuple(argv))
        return result_of(argv, self.answers.get(tuple(argv), (127, b"", b"not found")))


@pytest.fixture
def server(composed: Any) -> MakeWitness:
    """Return witness(changed answers, **declared) of the composed server, parts and all."""

    def make(changed: Mapping[tuple[str, ...], Say] | None = None, **declared: Any) -> Witness:
        answers = whole.answers() | dict(changed or {})
        host = host_of(composed.DECLARED | declared)
        return Witness(host, Server(answers), keep)  # type: ignore[arg-type]

    return make
