"""Opens what is to be verified, a run's folder or an exported archive, and checks either."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kvgate.errors import DamagedRunError, StoreError
from kvgate.store.registered import Registered, registered
from kvgate.store.signature import NoKeygenError
from kvgate.store.statement import ARCHIVE, Statement, is_archive_sig
from kvgate.store.timestamp import NoOpensslError
from kvgate.store.unpack import Unpacked, unpacked
from kvgate.store.verification import Problem
from kvgate.store.verify_signed import check_signature
from kvgate.store.verify_steps import Outcome, Result, Step, add_step, verify_steps

ABOUT = ("archive", "these are the very bytes that were handed over, and hold one run's files only")


@contextlib.contextmanager
def opened(
    path: Path,
    signers: Path | None,
    required: Sequence[str],
    authority: Path | None = None,
) -> Iterator[tuple[Path, Outcome]]:
    """Yield the run's folder and what verifying found; an archive is unpacked meanwhile.

    An archive's own signatures stand beside it (``<archive>.<role>.json`` and ``.sig``): the
    compressed bytes can change without changing a file in them. Raises StoreError.
    """
    if path.is_dir():
        yield (
            path,
            verify_steps(path, signers=signers, required=required, authority=authority),
        )
        return
    if not path.is_file():
        raise StoreError(f"{path}: there is no such run or archive")
    with unpacked(path) as found:
        outcome = verify_steps(found.run, signers=signers, required=required, authority=authority)
        keys = functools.partial(registered, found.run, signers, authority)
        yield found.run, add_step(outcome, _archive_step(path, found, outcome.run, keys))


def _archive_step(
    path: Path, found: Unpacked, run: str, registered: Callable[[], Registered | None]
) -> Step:
    told = [f"{path.name}: {found.files} files, {found.bytes} bytes, SHA-256 {found.sha256}"]
    stems = sorted(
        each.name[: -len(".json")]
        for each in path.parent.iterdir()
        if each.name.startswith(f"{path.name}.") and is_archive_sig(each.name[len(path.name) + 1 :])
    )
    problems: list[Problem] = []
    try:
        keys = registered()
        for stem in stems:
            if keys is None:
                problems.append(Problem(stem, "unproven", "the run's plan names no parties"))
                continue
            statement, line, wrong = check_signature(keys, path.parent, stem)
            wrong = wrong or _of_these_bytes(statement, stem, found, run)
            problems += [wrong] if wrong else []
            told += [] if wrong else [line]
    except (NoKeygenError, NoOpensslError) as err:
        return Step(0, *ABOUT, "not done", (*told, f"{err.message}; {err.hint}"))
    except DamagedRunError as err:
        problems.append(Problem("signatures", "altered", err.message))
    if not stems:
        told.append("nobody signed this archive's digest; the run's own signatures follow above")
    result: Result = "FAILED" if problems else "ok"
    return Step(0, *ABOUT, result, tuple(told), tuple(problems))


def _of_these_bytes(
    statement: Statement | None, stem: str, found: Unpacked, run: str
) -> Problem | None:
    if statement is None:
        return None
    signed = statement.of.get("sha256")
    if statement.purpose != ARCHIVE or statement.run != run:
        return Problem(f"{stem}.json", "unproven", f"it is not under an archive of run '{run}'")
    if signed != found.sha256:
        detail = f"the archive has SHA-256 {found.sha256}; {statement.role} signed {signed}"
        return Problem(stem.rpartition(".")[0], "altered", detail)
    return None
