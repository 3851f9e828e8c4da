"""Sealing a run, layer by layer; `verify` (from `store.verify`) is offered here too."""

from __future__ import annotations

from pathlib import Path

from kvgate.errors import DamagedRunError, StoreError
from kvgate.store import disk, sums
from kvgate.store.canonical import sha256
from kvgate.store.layout import (
    LOCK,
    Listing,
    belongs_to_run,
    is_sealed,
    is_sums_name,
    listing,
    plain,
    sums_name,
)
from kvgate.store.lock import RunLock
from kvgate.store.run import RunWriter
from kvgate.store.verification import Layer, Problem, Verification
from kvgate.store.verify import verify

__all__ = ["Layer", "Problem", "Verification", "seal", "verify"]


def seal(path: Path) -> str:
    """Add the next seal layer to the run and return its digest (the SHA-256 of its file).

    The first layer covers the run itself; later ones all that no layer covers yet (findings,
    report, attestations) and the layer before.

    1. For the first layer, open and close the run: what a crash tore off is cut and journalled.
    2. Take the lock: nothing is written to the run meanwhile. Remove what a crash left of files
       that were being written: a layer that covered one would never verify again.
    3. Verify the run as it stands; a damaged one is not sealed.
    4. Bring every covered file to the medium and hash it.
    5. Write the layer's file whole (temporary name, fsync, rename, fsync of the folder).
    6. Read it back and verify the run against it.

    Raises RunLockedError, DamagedRunError, and StoreError where there is nothing new to seal.
    """
    if not is_sealed(path):
        RunWriter.open(path).close()  # 1
    lock = RunLock(path)  # 2
    try:
        _tidy(path)
        return _seal(path)
    finally:
        lock.release()


def _tidy(path: Path) -> None:
    files = listing(path).files
    try:
        covered = {name for _, _, data in sums.layers(path, files) for name in sums.read(data)}
    except DamagedRunError:
        return  # `verify` says it, and nothing is sealed
    for name in files:
        torn = name.rpartition("/")[2].startswith(disk.TEMPORARY)
        if torn and not (name in covered or belongs_to_run(name)):
            disk.remove(path / name)


def _seal(path: Path) -> str:
    before = verify(path)  # 3
    found = listing(path)
    _refuse_damaged(path, found, before)
    layer = len(before.layers)
    entries = {}
    for name in _to_cover(path, found, layer):
        disk.sync_file(path / name)  # 4
        entries[name] = sums.hash_file(path / name)
    if not any(not is_sums_name(name) for name in entries):
        raise StoreError(
            f"{path}: nothing new to seal: {before.layers[-1].name} and those before "
            "it cover everything"
        )
    data = sums.text(entries)
    disk.replace(path / sums_name(layer), data)  # 5
    after = verify(path)  # 6
    digest = sha256(data)
    if len(after.layers) != layer + 1 or after.layers[-1].digest != digest:
        raise DamagedRunError(f"{path / sums_name(layer)}: does not read back as it was written")
    _refuse_damaged(path, listing(path), after)
    return digest


def _to_cover(path: Path, found: Listing, layer: int) -> list[str]:
    if not layer:
        return [name for name in found.files if belongs_to_run(name)]
    covered = {name for _, _, data in sums.layers(path, found.files) for name in sums.read(data)}
    return [
        name
        for name in found.files
        if name == sums_name(layer - 1)
        or not (name in covered or name == LOCK or is_sums_name(name))
    ]


def _refuse_damaged(path: Path, found: Listing, state: Verification) -> None:
    """Raise DamagedRunError unless all that `state` found is that something is not sealed yet."""
    waiting = {plain(name) for name in found.files if not belongs_to_run(name)}
    damage = [
        problem
        for problem in state.problems
        if problem.kind != "unsealed" and not (problem.kind == "added" and problem.path in waiting)
    ]
    if damage:
        raise DamagedRunError(
            f"{path}: can't be sealed: {damage[0]}"
            + (f", and {len(damage) - 1} more" if len(damage) > 1 else ""),
            hint="`kvgate verify` names them all",
        )
