"""A run with the runs it retests: read together, with what changed on the hosts between them."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kvgate.engine import soak
from kvgate.engine.judging import judge_stored
from kvgate.engine.scope_out import KEY, parent, retested
from kvgate.engine.workspace import Setup, frozen_setup
from kvgate.errors import DamagedRunError, StoreError
from kvgate.judge.lineage import Change, Tested, merge, reach
from kvgate.model.finding import Attempt, RunResult
from kvgate.model.part import item_of, serial_key
from kvgate.model.record import Value
from kvgate.spec.inventory import Host, Inventory
from kvgate.store.layout import SUMS
from kvgate.store.reader import RunReader
from kvgate.store.sums import hash_file

_HOST_KINDS = frozenset({"machine-id", "product", "mac"})
FIRMWARE = ("firmware", "vbios")
"""How the names of measures end that tell a part's firmware."""

_LONGEST = 100  # runs in a lineage: more is a circle


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """A run and those it retests, the first one first, and what they have found together."""

    runs: tuple[RunReader, ...]
    result: RunResult
    found_in: Mapping[str, str]  # criterion → the run whose finding counts
    attempts: Mapping[str, Attempt]
    serials: Mapping[str, tuple[str, ...]]  # host → what it was known by last
    changes: tuple[Change, ...]
    setup: Setup  # of the newest run
    began: datetime.datetime  # when the first run did

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the runs, the first one first."""
        return tuple(str(run.manifest["run"]) for run in self.runs)

    def times(self, criterion: str) -> int:
        """Return how often a criterion was tested again, on the parts it had."""
        return sum(criterion in run.manifest[KEY]["asked"] for run in self.runs if parent(run))


class ParentAbsentError(StoreError):
    """The run that a retest cites does not lie beside it: what both found can't be told."""


def chain(run: Path) -> tuple[RunReader, ...]:
    """Return the readers of `run` and the runs it retests, the first one first.

    Raises ParentAbsentError where one is missing, DamagedRunError where it is not the one cited.
    """
    found = [RunReader(run)]
    while (of := parent(found[-1])) and len(found) < _LONGEST:
        above = run.parent / of
        if not (above / "manifest.json").is_file():
            raise ParentAbsentError(
                f"{found[-1].path.name}: retests {of}, which is not beside it",
                hint="put that run's folder back into runs/",
            )
        if hash_file(above / SUMS) != found[-1].manifest[KEY]["seal"]:
            raise DamagedRunError(f"{of}: is not as {found[-1].path.name} cites it: other seal")
        found.append(RunReader(above))
    return tuple(reversed(found))


def lineage(run: Path) -> Lineage:
    """Return what `run` and the runs it retests have found together, attestations included."""
    runs = chain(run)
    setups = [frozen_setup(each) for each in runs]
    newest = _newest_serials(runs)
    tested = []
    for number, (reader, setup) in enumerate(zip(runs, setups, strict=True)):
        tested.append(
            Tested(
                result=judge_stored(reader.path, attestations=True),
                again=retested(reader),
                changed_since=tuple(_changes(runs[number:], setup, newest)),
                soaked=frozenset(g for g in setup.gates if soak.needed(setup.plan.value, g)),
                by_people=frozenset(_manual(setup)),
            )
        )
    result, found_in = merge(tested)
    return Lineage(
        runs=runs,
        result=result,
        found_in=found_in,
        attempts=_attempts(runs, found_in),
        serials=newest,
        changes=tested[0].changed_since,
        setup=setups[-1],
        began=datetime.datetime.fromisoformat(str(runs[0].manifest["created"])),
    )


def _manual(setup: Setup) -> Iterator[str]:
    for gate in setup.gates.values():
        yield from (each.id for each in gate.value.criteria if each.method == "manual")


def _attempts(runs: Sequence[RunReader], found_in: Mapping[str, str]) -> dict[str, Attempt]:
    """Return criterion → how its test ended in the run whose finding counts."""
    return {
        each.criterion: each
        for run in runs
        for each in run.attempts()
        if found_in.get(each.criterion) == run.manifest["run"]
    }


def _newest_serials(runs: Sequence[RunReader]) -> dict[str, tuple[str, ...]]:
    """Return host → what it was known by when it was asked last."""
    found: dict[str, tuple[str, ...]] = {}
    for run in runs:
        found |= identities(run)
    return found


def identities(run: RunReader) -> dict[str, tuple[str, ...]]:
    """Return host → the serial numbers it told last in `run`; hosts that told none are absent."""
    return {
        str(event.fields["host"]): tuple(str(each) for each in event.fields["serials"])
        for event in run.events("identity")
        if event.fields["serials"]
    }


def _changes(
    since: Sequence[RunReader], setup: Setup, newest: Mapping[str, tuple[str, ...]]
) -> Iterator[Change]:
    """Yield the parts that are not what they were in the first of `since`."""
    if len(since) == 1:
        return
    inventory = setup.inventory.value
    for host, then in identities(since[0]).items():
        gone = sorted(set(then) - set(newest.get(host, then)))
        new = sorted(set(newest.get(host, then)) - set(then))
        if gone or new:
            yield _replaced(inventory, host, gone, new)
    yield from _updated(since, inventory)


def _replaced(inventory: Inventory, host: str, gone: Sequence[str], new: Sequence[str]) -> Change:
    told = f"{', '.join(gone) or 'nothing'} was replaced by {', '.join(new) or 'nothing'}"
    if not gone:
        told = f"{', '.join(new)} came in"
    parts = [each.partition(":")[::2] for each in (*gone, *new)]
    whole = any(kind in _HOST_KINDS for kind, _ in parts)
    items = {name for _, name in parts} | {item_of(kind, name) for kind, name in parts}
    return Change(
        host=host,
        items=reach(items, edges(inventory.hosts.get(host))),
        whole=whole,
        told=f"{host}: {told}",
    )


def _updated(since: Sequence[RunReader], inventory: Inventory) -> Iterator[Change]:
    """Yield the parts whose firmware reads otherwise in a run after the first of `since`."""
    then = _firmware(since[0])
    now: dict[tuple[str, str, str], Value] = {}
    for run in since[1:]:
        now |= _firmware(run)
    for (host, item, name), value in sorted(then.items(), key=lambda each: each[0]):
        after = now.get((host, item, name), value)
        if after != value:
            part = f"{host} ({item})" if item else host
            yield Change(
                host=host,
                items=reach([item] if item else [], edges(inventory.hosts.get(host))),
                whole=not item,
                told=f"{part}: {name} went from {value} to {after}",
            )


def _firmware(run: RunReader) -> dict[tuple[str, str, str], Value]:
    return {
        (each.host, each.item, each.name): each.value
        for each in run.measurements()
        if each.value is not None and each.name.endswith(FIRMWARE)
    }


def edges(host: Host | None) -> dict[str, set[str]]:
    """Return item → the items of `host` that depend on it, as the inventory declares them.

    A disk and its part on the packing list are one thing; a link and its paths depend on a port.
    """
    found: dict[str, set[str]] = {}

    def depends(on: str, *items: str) -> None:
        found.setdefault(on, set()).update(items)

    if host is None:
        return found
    for disk in host.declared.disks:
        if disk.serial:
            part = item_of("drive", serial_key(disk.serial))
            depends(disk.id, part)
            depends(part, disk.id)
    for subsystem in host.declared.nvmeof:
        paths = [subsystem.item(path) for path in subsystem.paths]
        depends(subsystem.name, *paths)
        for path in paths:
            depends(path, subsystem.name)
    for link in host.declared.fabric:
        depends(link.nic, link.name)
    return found
