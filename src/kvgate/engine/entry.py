"""Whether a gate may open: the gates before it accepted, on the same serial numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kvgate.engine.decided import decided
from kvgate.engine.fanout import Tell, asked_again, fan_out
from kvgate.engine.workspace import Setup
from kvgate.errors import (
    DamagedRunError,
    GateClosedError,
    HostUnreachableError,
    KvgateError,
    StoreError,
)
from kvgate.probes import devices
from kvgate.probes.identity import identity
from kvgate.spec.bom import Bom
from kvgate.spec.inventory import Host
from kvgate.store.layout import belongs_to_run
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter
from kvgate.store.verify import verify
from kvgate.transport.connect import AT_ONCE, Connections
from kvgate.untrusted import mask
from kvgate.witness import Witness

Identities = dict[str, tuple[str, ...]]
"""Host → its serial numbers; empty where the host could not be asked."""


def identify(
    run: RunWriter,
    gate: str,
    hosts: Sequence[Host],
    witness: Callable[[Host], Witness],
    bom: Bom | None = None,
    *,
    connections: Connections | None = None,
    progress: Tell | None = None,
) -> Identities:
    """Ask every host for its serial numbers, in parallel, and journal them.

    Parts that a bill of materials orders by serial number, for that host or for any, count too.
    """

    def ask(host: Host) -> tuple[tuple[str, ...], str]:
        try:
            try:
                return asked_again(lambda: _told(witness(host), host, bom)), ""
            finally:
                if connections is not None:
                    connections.rest(host)
        except KvgateError as err:
            return (), err.message
        except Exception as err:  # noqa: BLE001  our own fault over one host's answer
            return (), mask(f"{host.name}: kvgate broke: {type(err).__name__}: {err}")

    answers: dict[str, tuple[tuple[str, ...], str]] = {}
    at_once = connections.at_once if connections else AT_ONCE
    for group in fan_out(
        hosts, ask, at_once=at_once, name=lambda host: host.name, tell=progress or _silent
    ):
        answers |= {host.name: answer for host, answer in group}
    for host in hosts:
        serials, problem = answers[host.name]
        run.event("identity", gate=gate, host=host.name, serials=list(serials), problem=problem)
    return {host.name: answers[host.name][0] for host in hosts}


def _told(asked: Witness, host: Host, bom: Bom | None) -> tuple[str, ...]:
    if host.is_device:
        return devices.identity(asked)
    return identity(asked, _ordered_kinds(bom, host.name))


def _ordered_kinds(bom: Bom | None, host: str) -> frozenset[str]:
    """Return the kinds of part that `bom` orders by serial number, for `host` or for any."""
    ordered = bom.judged() if bom else ()
    return frozenset(each.kind for each in ordered if each.serial and each.host in ("", host))


def _silent(text: str, awaits: str) -> None:
    """Tell nobody."""


def refuse_closed(setup: Setup, gate: str, run: RunWriter, identities: Identities) -> None:
    """Raise GateClosedError unless every entry gate was accepted on these serial numbers.

    1. A gate before it that was judged in this run decides.
    2. Else the newest sealed run of the same profile beside this one that judged it does, if it
    is as it was sealed.
    A run that was forced opens nothing. What opened the gate is journalled.
    """
    for entry in setup.gates[gate].value.entry:
        here = RunReader(run.path)
        own = _decided(here, entry)  # 1
        where = here if own else _sound(gate, run.path.parent, here, entry)  # 2
        if where is None:
            raise _closed(gate, f"{entry} was not run yet on this inventory")
        disposition, because = decided(where, entry)
        if not disposition.opens_next:
            raise _closed(gate, f"{entry} is {disposition} in run {where.path.name}{because}")
        if where is not here:
            _same_criteria(setup, gate, entry, where)
        _same_serials(gate, entry, where, identities)
        run.event("note", text=f"{gate} opens on {entry}, {disposition} in run {where.path.name}")


def refuse_lost(setup: Setup, gate: str, run: RunWriter, identities: Identities) -> None:
    """Raise HostUnreachableError for a host that can't be asked and that `gate` can't do without.

    That is one that answered earlier in this run, or any where the gate opens on earlier ones. The
    run then waits for it, unsealed, instead of being judged by a host's absence.
    """
    earlier, problems = set(), {}
    for event in RunReader(run.path).events("identity"):
        host = str(event.fields["host"])
        problems[host] = str(event.fields["problem"])
        if event.fields["serials"]:
            earlier.add(host)
    for host, serials in identities.items():
        if serials or not problems[host]:
            continue
        if host in earlier or setup.gates[gate].value.entry:
            raise HostUnreachableError(
                host,
                f"could not be asked who it is: {problems[host]}",
                hint="make it reachable, then go on with --resume; what was finished is kept",
            )


def _closed(gate: str, because: str) -> GateClosedError:
    return GateClosedError(
        f"{gate} stays closed: {because}",
        hint=f"run and accept it first, or diagnose with --gate {gate} --force-gate REASON (such a "
        "run can't be accepted)",
    )


def _same_criteria(setup: Setup, gate: str, entry: str, where: RunReader) -> None:
    """Raise GateClosedError if `entry` was accepted by another gate file than this run's."""
    file = setup.gates[entry].files[0]
    name = f"gates/{Path(file.name).name}"
    if where.manifest["inputs"].get(name) != file.sha256:
        raise _closed(
            gate,
            f"{entry} was accepted in run {where.path.name} by other criteria ({name} differs)",
        )


def _decided(reader: RunReader, gate: str) -> str | None:
    """Return the disposition of `gate` in that run, if it was judged there."""
    last = None
    for event in reader.events("gate_judged"):
        if event.fields["gate"] == gate:
            last = str(event.fields["disposition"])
    return last


def _earlier(runs: Path, here: RunReader, gate: str) -> RunReader | None:
    """Return the newest other run that counts for `gate`: sealed, same profile, not forced.

    What recorded hosts answered opens a gate on recorded hosts only.
    """
    for reader in _readers(sorted(runs.iterdir(), reverse=True)):
        same = ("profile", "inventory", "recorded")
        if reader.path == here.path or any(
            reader.manifest.get(key) != here.manifest.get(key) for key in same
        ):
            continue
        if reader.sealed() and not any(reader.events("forced")) and _decided(reader, gate):
            return reader
    return None


def _sound(gate: str, runs: Path, here: RunReader, entry: str) -> RunReader | None:
    """Return the earlier run that counts for `entry`; raises GateClosedError if it was altered."""
    try:
        found = _earlier(runs, here, entry)
        problems = verify(found.path).problems if found else ()
    except DamagedRunError as err:
        raise _closed(gate, f"whether {entry} was accepted can't be told: {err.message}") from err
    for each in problems:
        if each.kind != "added" or belongs_to_run(each.path):  # what is beside a run is no part
            raise _closed(gate, f"{found and found.path.name} is not as it was sealed: {each}")
    return found


def _readers(paths: Sequence[Path]) -> Iterator[RunReader]:
    for path in paths:
        if path.is_dir() and (path / "manifest.json").is_file():
            try:
                yield RunReader(path)
            except (StoreError, DamagedRunError):
                continue  # a damaged run opens nothing


def _same_serials(gate: str, entry: str, where: RunReader, now: Identities) -> None:
    then = {
        str(event.fields["host"]): tuple(str(each) for each in event.fields["serials"])
        for event in where.events("identity")
        if event.fields["gate"] == entry
    }
    for host, serials in now.items():
        if not serials:
            raise _closed(
                gate,
                f"{host} gave no serial number (no machine id, product serial, declared disk by "
                "serial, or MAC address), so that it can't be known again",
            )
        if then.get(host) != serials:
            gone = sorted(set(then.get(host, ())) - set(serials))
            new = sorted(set(serials) - set(then.get(host, ())))
            raise _closed(
                gate,
                f"{host} is not what {entry} accepted in run {where.path.name}: "
                f"gone {', '.join(gone) or 'nothing'}, new {', '.join(new) or 'nothing'}",
            )
