"""Faults that may still stand: one file each, from before it is done until its repair is proven.

Whoever is killed in the midst of a fault leaves its file. The next run on the same host finds it,
undoes the fault and proves that, before it measures anything (a guard on the host may have undone
it long before; a device without a shell has no guard).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

from kvgate.errors import KvgateError, RepairError, StoreError
from kvgate.faults import guard
from kvgate.spec.faults import FaultTemplate
from kvgate.spec.inventory import Host
from kvgate.store import disk
from kvgate.witness import Witness

FOLDER = ".faults"
"""The folder of these files, in runs/."""

_HINT = "the bench is not as we found it: undo the fault by hand, then remove the file"


@dataclasses.dataclass(frozen=True, slots=True)
class Standing:
    """A fault that was begun on the host at `place`, by `run`, and is not known to be repaired."""

    path: Path
    fault: str
    place: str
    run: str
    undo: tuple[str, ...]
    proved_back: tuple[str, ...]
    within_s: float


def place_of(host: Host) -> str:
    """Return how a host is known over runs and inventories: the way to it."""
    if host.transport == "local":
        return "local"
    return f"{host.jump or ''}>{host.address}:{host.port}"


def note(folder: Path, template: FaultTemplate, host: Host, run: str) -> Path:
    """Write, to the medium, that the fault of `template` is about to be done; raises StoreError."""
    disk.make_folder(folder)
    path = folder / f"{run}-{template.fault}.json"
    told = {
        "fault": template.fault,
        "place": place_of(host),
        "run": run,
        "undo": template.undo,
        "proved_back": template.proved_back or [],
        "within_s": template.within.to("s"),
    }
    disk.replace(path, json.dumps(told, indent=1).encode())
    return path


def forget(path: Path) -> None:
    """Remove the file of a fault whose repair was proven; raises StoreError."""
    disk.remove(path)


def left(folder: Path) -> Iterator[Standing]:
    """Yield the faults that may still stand; raises StoreError for a file that can't be read."""
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        try:
            told = json.loads(path.read_bytes())
            yield Standing(
                path=path,
                fault=str(told["fault"]),
                place=str(told["place"]),
                run=str(told["run"]),
                undo=tuple(map(str, told["undo"])),
                proved_back=tuple(map(str, told["proved_back"])),
                within_s=float(told["within_s"]),
            )
        except (OSError, ValueError, KeyError, TypeError) as err:
            raise StoreError(
                f"{path}: is no fault that may still stand: {type(err).__name__}: {err}",
                hint=_HINT,
            ) from err


def undone(each: Standing, witness: Witness) -> None:
    """Undo a fault that may still stand and prove it; raises RepairError where that can't be."""
    where = f"{witness.host.name}: fault '{each.fault}' of run {each.run}"
    try:
        for words in filter(None, (each.undo, each.proved_back)):
            guard.run(witness, words, within_s=each.within_s).expect_ok()
    except KvgateError as err:
        raise RepairError(
            f"{where} may still stand, and its undo: {err.message}",
            hint=f"{_HINT} ({each.path})",
        ) from err
    forget(each.path)
