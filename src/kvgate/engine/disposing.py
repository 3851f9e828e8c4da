"""Disposes of a run: what the judge proposes from findings and waivers, frozen as a sealed layer.

``dispositions/0001.json`` says what was proposed at which claimed time and from which waivers; the
waivers lie beside it (``waivers/``). It can be computed again from the run's folder alone.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kvgate.engine import waivers
from kvgate.engine.lineage import Lineage, lineage
from kvgate.engine.waivers import Held
from kvgate.errors import DamagedRunError, StoreError
from kvgate.judge.dispose import Case, dispose
from kvgate.judge.waived import concerns
from kvgate.model.disposed import Disposed
from kvgate.spec.gate import Criterion
from kvgate.store import attested, disk
from kvgate.store.canonical import laid_out, parse, sha256, utc_text, utc_time
from kvgate.store.layout import read_bytes, refuse_links, unknown_format
from kvgate.store.seal import seal

FORMAT = "kvgate-disposition/1"
FOLDER = "dispositions"
_NAME = re.compile(r"\d{4,6}\.json", re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True)
class Disposal:
    """A disposition as it was frozen in a run: its number there, and what its file says."""

    number: int
    at: datetime.datetime
    stored: Mapping[str, Any]

    @property
    def disposition(self) -> str:
        """Return the disposition of the run."""
        return str(self.stored["disposed"]["disposition"])


def propose(
    run: Path, held: Sequence[Held], at: datetime.datetime, *, known: Lineage | None = None
) -> Disposed:
    """Return the disposition of `run` with these waivers at the claimed time `at`."""
    found = known or lineage(run)
    control = found.setup.plan.value.control
    granted = [
        waivers.granted(each, control)
        for each in held
        if concerns(each.waiver, found.setup.gates.keys(), found.names)
    ]
    case = Case(
        runs=found.names,
        began=found.began,
        at=at,
        criteria=_criteria(found),
        attempts=found.attempts,
        serials=found.serials,
    )
    return dispose(found.result, granted, case)


def _criteria(found: Lineage) -> dict[str, Criterion]:
    gates = found.setup.gates.values()
    return {each.id: each for gate in gates for each in gate.value.criteria}


def freeze(run: Path, folder: Path, at: datetime.datetime) -> tuple[Disposal, str]:
    """Freeze the disposition of the sealed `run` with the waivers in `folder`, and seal it.

    Returns it and the digest of the new layer. Waivers that speak of other runs stay where they
    are. Raises StoreError where the run isn't sealed, or a waiver in it is another by that name.
    """
    refuse_links(run)
    found = lineage(run)
    if not found.runs[-1].sealed():
        raise StoreError(
            f"{run.name}: is not sealed: what it found may still change",
            hint="finish the run first (kvgate run --resume)",
        )
    held = [
        each
        for each in waivers.read(folder).held
        if concerns(each.waiver, found.setup.gates.keys(), found.names)
    ]
    disposed = propose(run, held, at, known=found)
    for each in held:
        _copy(run / waivers.FOLDER, each)
    number = max((each.number for each in disposals(run)), default=0) + 1
    stored = {
        "format": FORMAT,
        "at": utc_text(at),
        "lineage": list(found.names),
        "attestations": _attested(found),
        "waivers": {name: sha256(data) for each in held for name, data in each.files().items()},
        "disposed": told(disposed),
    }
    disk.make_folder(run / FOLDER)
    disk.replace(run / FOLDER / f"{number:04}.json", laid_out(stored))
    return Disposal(number, at, stored), seal(run)


def _attested(found: Lineage) -> dict[str, int]:
    """Return run → how many answers of people it had."""
    return {str(run.manifest["run"]): len(attested.answers(run.path)) for run in found.runs}


def _copy(folder: Path, held: Held) -> None:
    disk.make_folder(folder)
    for name, content in held.files().items():
        path = folder / name
        if not path.exists():
            disk.replace(path, content)
        elif path.read_bytes() != content:
            raise StoreError(
                f"{path}: is not the one in gates/waivers, and what was frozen stays",
                hint="to accept something else, draft another waiver (kvgate waive)",
            )


def told(disposed: Disposed) -> dict[str, Any]:
    """Return a disposition as it is stored: plain values, times as texts."""
    stored: dict[str, Any] = dataclasses.asdict(disposed)
    stored["at"] = utc_text(disposed.at)
    for effect in stored["effects"]:
        for signed in effect["signed"]:
            signed["at"] = utc_text(signed["at"])
    return stored


def plain(stored: Mapping[str, Any]) -> Any:
    """Return `stored` as it comes back from its file, to be compared with what did."""
    return parse(laid_out(stored))


def disposals(run: Path) -> tuple[Disposal, ...]:
    """Return the dispositions frozen in `run`, the first one first; raises DamagedRunError."""
    found = []
    for path in sorted((run / FOLDER).glob("*.json"), key=lambda each: each.name):
        if _NAME.fullmatch(path.name):
            found.append(_read(path))
    return tuple(sorted(found, key=lambda each: each.number))


def _read(path: Path) -> Disposal:
    try:
        stored = parse(read_bytes(path))
        version = stored["format"]
        if version == FORMAT:
            return Disposal(int(path.stem), utc_time(stored["at"]), stored)
    except (ValueError, KeyError, TypeError) as err:
        raise DamagedRunError(f"{path}: is no disposition: {err!r}") from err
    raise unknown_format(str(path), version, FORMAT)


def altered(run: Path) -> tuple[str, ...]:
    """Return what in the run's newest disposition isn't what its findings and waivers give.

    Empty where it is computed again to the same, or where there is none. Earlier ones rest on
    fewer answers and waivers than lie there now; the seals hold them.
    """
    every = disposals(run)
    if not every:
        return ()
    last = every[-1]
    if last.stored["attestations"] != _attested(lineage(run)):
        return ()  # people answered since: it stands for its own time
    frozen = last.stored["waivers"]
    held = [
        dataclasses.replace(
            each,
            approvals={k: v for k, v in each.approvals.items() if frozen.get(k) == sha256(v[1])},
        )
        for each in waivers.read(run / waivers.FOLDER).held
        if frozen.get(f"{each.waiver.waiver}.yaml") == each.sha256
    ]
    again = plain(told(propose(run, held, last.at)))
    stored = last.stored["disposed"]
    wrong = sorted(key for key in again.keys() | stored.keys() if again.get(key) != stored.get(key))
    return tuple(
        f"{FOLDER}/{last.number:04}.json: {key} is not what the findings and waivers give"
        for key in wrong
    )
