"""perftest (ib_write_bw, ib_read_bw) between two hosts: a server, a client, what was carried."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from kvgate.errors import CommandError, KvgateError, ParseError
from kvgate.model.quantity import Quantity
from kvgate.model.record import EvidenceRef, Reading
from kvgate.parse import perftest
from kvgate.probes.base import NOT_FOUND, PLAIN, reading, refusal, untold
from kvgate.spec.fabric_load import PerftestWorkload, Tool
from kvgate.witness import Answer, Testimony, Witness

MEASURES = ("perftest.rate", "perftest.of_line_rate")
_ANSWER_S = 60.0
"""How long a run may take beyond its runtime: to connect, and to print."""

_LISTENS_S = 30.0
"""For how long a client is started again while the server is not listening yet."""

_REFUSED = (b"Couldn't connect", b"Unable to init the socket")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One end: the host, its RDMA device, the GID's index there, and its address."""

    witness: Witness
    device: str
    gid_index: int
    address: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run for the pair `link`: data goes from `sender` to `receiver`, by `tool`.

    ``port`` is where the server listens; ``line_rate`` what the pair is held against, if known.
    """

    link: str
    tool: Tool
    sender: Side
    receiver: Side
    port: int
    line_rate: Quantity | None

    @property
    def client(self) -> Side:
        """Return who connects: who writes, or who reads."""
        return self.sender if self.tool == "ib_write_bw" else self.receiver

    @property
    def server(self) -> Side:
        """Return who listens."""
        return self.receiver if self.tool == "ib_write_bw" else self.sender


def argv(side: Side, run: Run, workload: PerftestWorkload) -> tuple[str, ...]:
    """Return the command of one side; the client's names the server's address."""
    common = (
        run.tool,
        "-d",
        side.device,
        "-x",
        str(side.gid_index),
        "-p",
        str(run.port),
        "-s",
        str(int(workload.size.base)),
        "-q",
        str(workload.queue_pairs),
        "-D",
        str(max(1, round(workload.runtime.to("s")))),
        "--report_gbits",
        "-F",
    )
    return (*common, run.server.address) if side is run.client else common


def together(runs: Sequence[Run], workload: PerftestWorkload) -> list[Answer]:
    """Do all `runs` at once, and return what each carried, in their order.

    A run that failed is a problem of its own. No two of them may have one port on one host.
    """
    with ThreadPoolExecutor(2 * len(runs)) as pool:
        servers = [pool.submit(_serve, run, workload) for run in runs]
        clients = [pool.submit(_connect, run, workload) for run in runs]
        found = []
        for run, server, client in zip(runs, servers, clients, strict=True):
            told = [each.result() for each in (client, server)]
            found.append(_answer(run, told))
    return found


_Told = Testimony | KvgateError


def _serve(run: Run, workload: PerftestWorkload) -> _Told:
    try:
        return run.server.witness.ask(
            argv(run.server, run, workload),
            timeout_s=workload.runtime.to("s") + _ANSWER_S,
            env=PLAIN,
        )
    except KvgateError as err:
        return err


def _connect(run: Run, workload: PerftestWorkload) -> _Told:
    """Start the client until the server takes it: there is no other sign that it listens."""
    try:
        until = time.monotonic() + _LISTENS_S
        while time.monotonic() < until:
            told = run.client.witness.ask(
                argv(run.client, run, workload),
                timeout_s=workload.runtime.to("s") + _ANSWER_S,
                env=PLAIN,
            )
            said = told.result.stdout + told.result.stderr
            if told.result.ok or not any(each in said for each in _REFUSED):
                return told
    except KvgateError as err:
        return err
    return CommandError(
        run.client.witness.host.name,
        f"{run.tool}: {run.server.address}:{run.port} on {run.server.witness.host.name} took no "
        f"connection within {_LISTENS_S:.0f} s",
        hint="a firewall, or the port is taken: see workloads.perftest.port",
    )


def _answer(run: Run, told: Sequence[_Told]) -> Answer:
    refs: tuple[EvidenceRef, ...] = tuple(each.ref for each in told if isinstance(each, Testimony))
    try:
        return Answer(_readings(run, told), refs)
    except KvgateError as err:
        return Answer(tuple(untold(MEASURES, err.message, [run.link])), refs)


def _sound(side: Side, told: _Told, *, whole: bool) -> Testimony:
    """Return what one side said; raises KvgateError where it has no tool, or failed (`whole`)."""
    if isinstance(told, KvgateError):
        raise told
    if told.result.exit_status == NOT_FOUND or (whole and not told.result.ok):
        raise CommandError(side.witness.host.name, refusal(told, "perftest"))
    return told


def _readings(run: Run, told: Sequence[_Told]) -> tuple[Reading, ...]:
    sides = zip((run.client, run.server), told, strict=True)
    client, _ = [_sound(side, each, whole=side is run.client) for side, each in sides]
    found = perftest.bandwidth(client.stdout)
    if len(found.rows) != 1:
        raise ParseError(f"{run.tool}: {len(found.rows)} rows for one size")
    if not found.rows[0].iterations:
        raise ParseError(f"{run.tool}: not one message ended within its time: no rate")
    rate = found.rate(found.rows[0])
    share = None
    if run.line_rate is not None and run.line_rate.base:
        share = Quantity.of(round(float(100 * rate.base / run.line_rate.base), 3), "%")
    why = f"no line rate of {run.link} is declared: set 'rate', or the port's 'speed'"
    return (
        reading(MEASURES[0], rate, item=run.link),
        reading(MEASURES[1], share, why, item=run.link),
    )
