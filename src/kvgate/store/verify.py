"""Verifying a run: what is altered, missing or added, named as closely as its files allow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kvgate.errors import DamagedRunError, StoreError
from kvgate.store import sums
from kvgate.store.check_run import RunCheck
from kvgate.store.layout import (
    JOURNAL,
    LOCK,
    MANIFEST,
    Listing,
    belongs_to_run,
    is_sums_name,
    listing,
    sums_name,
)
from kvgate.store.story import Story
from kvgate.store.verification import Layer, Problem, Verification

_THREADS = 2
_SMALL_BYTES = 4 * 2**20  # read sooner than threads are started


class _Inline(Executor):
    """Does at once what it is given, in the caller's thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Return `fn`'s outcome."""
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as err:  # noqa: BLE001  the caller gets it, as from a thread
            done.set_exception(err)
        return done


def verify(path: Path) -> Verification:
    """Check the run in folder `path` as `inspect` does, and return what was found."""
    return inspect(path)[0]


def inspect(path: Path) -> tuple[Verification, Story]:
    """Check the run in folder `path`, sealed or not; only reads, follows no link.

    Returns what was found, and what the journal tells of gates and countersignatures.

    1. List the folder; whatever is neither file nor folder is reported and not looked into.
    2. Read the seal layers: whole, without a gap, each covering the one before.
    3. Hash every file that a layer covers and compare.
    4. Check what the run says of itself: manifest and inputs, the journal's chain, blocks and
       bindings, measurements, telemetry, every piece of evidence and every citation.
    5. Report what no layer covers; without a layer, that the run is not sealed.

    The caller MUST compare the layers' digests with those that were signed: whoever can rewrite
    the whole folder can seal it anew. Raises StoreError if `path` is no run folder or a file
    can't be read.
    """
    found = listing(path)  # 1
    if MANIFEST not in found.files and JOURNAL not in found.files:
        raise StoreError(f"{path}: is not a run folder: it has neither {MANIFEST} nor {JOURNAL}")
    problems = [
        Problem(name, "added", f"is {what}: not followed") for name, what in found.strange.items()
    ]
    layers, covered, broken = _layers(path, found.files)  # 2
    problems += broken
    small = sum(found.files.values()) < _SMALL_BYTES
    with _Inline() if small else ThreadPoolExecutor(_THREADS, "verify") as pool:
        hashes = {
            name: pool.submit(sums.hash_file, path / name)
            for name in covered
            if name in found.files
        }
        content = RunCheck(path, found.files)
        content.check(pool)  # 4, beside 3
        problems += content.problems
        problems += _compare(covered, hashes, {problem.path for problem in problems})  # 3
    problems += _uncovered(found, covered, sealed=bool(layers))  # 5
    return Verification(layers, tuple(sorted(set(problems)))), content.story


def _layers(
    path: Path, files: Mapping[str, int]
) -> tuple[tuple[Layer, ...], dict[str, tuple[str, str]], list[Problem]]:
    """Return the layers, name → (SHA-256, layer) of all they cover, and what is wrong with them."""
    layers: list[Layer] = []
    covered: dict[str, tuple[str, str]] = {}
    problems: list[Problem] = []
    for name, digest, data in sums.layers(path, files):
        try:
            entries = sums.read(data)
        except DamagedRunError as err:
            problems.append(Problem(name, "altered", err.message))
            entries = {}
        before = layers[-1].name if layers else None
        if entries and before is not None and before not in entries:
            problems.append(Problem(name, "altered", f"it does not cover {before}"))
        for file in covered.keys() & entries.keys():
            problems.append(
                Problem(name, "altered", f"it covers {file}, as {covered[file][1]} does")
            )
        covered = {**{file: (value, name) for file, value in entries.items()}, **covered}
        layers.append(Layer(name, digest, len(entries)))
    last = sums_name(len(layers))
    problems += [
        Problem(last, "missing", f"there is {name}, a later layer")
        for name in files
        if is_sums_name(name) and name not in {layer.name for layer in layers}
    ]
    return tuple(layers), covered, problems


def _compare(
    covered: Mapping[str, tuple[str, str]], hashes: Mapping[str, Future[str]], named: set[str]
) -> list[Problem]:
    """Return what is not as sealed; files in `named` had their problem told more closely."""
    problems = []
    for name, (sealed, layer) in covered.items():
        if name not in hashes:
            problems.append(Problem(name, "missing", f"{layer} covers it"))
            continue
        try:
            actual = hashes[name].result()
        except StoreError as err:
            problems.append(Problem(name, "altered", err.message))
            continue
        if actual != sealed and name not in named:
            problems.append(Problem(name, "altered", f"SHA-256 is {actual}; {layer} says {sealed}"))
    return problems


def _uncovered(
    found: Listing, covered: Mapping[str, tuple[str, str]], *, sealed: bool
) -> list[Problem]:
    if not sealed:
        return [Problem(".", "unsealed", "the run is not sealed: anyone may change it unseen")]
    rest = [
        name
        for name in found.files
        if name not in covered and name != LOCK and not is_sums_name(name)
    ]
    return [
        Problem(
            name,
            "added",
            "it came into the sealed run later"
            if belongs_to_run(name)
            else "no seal layer covers it",
        )
        for name in rest
    ]
