"""Attestations in a run folder: one file an answer, written whole, and photos by their digest.

They lie beside the sealed run (``attestations/0001.json``) and are covered by its next seal layer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kvgate.errors import DamagedRunError, RunLockedError, StoreError
from kvgate.model.attested import Answer, Photo
from kvgate.model.record import ALL_HOSTS, Evidence
from kvgate.store import disk, manifest
from kvgate.store.canonical import laid_out, parse, sha256, utc_text, utc_time
from kvgate.store.layout import read_bytes, refuse_links, unknown_format

FORMAT = "kvgate-attestation/1"
FOLDER = "attestations"
PHOTOS = "photos"
_NAME = re.compile(r"\d{4,6}\.json", re.ASCII)


@contextlib.contextmanager
def writing(run: Path) -> Iterator[Path]:
    """Hold the run's attestations for writing; raises RunLockedError where somebody else does.

    Raises StoreError where a link in the run would lead what is written out of it.
    """
    refuse_links(run)
    folder = run / FOLDER
    disk.make_folder(folder)
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as err:
            raise RunLockedError(
                f"{run.name}: somebody else is attesting it", hint="wait until they are done"
            ) from err
        yield folder
    finally:
        os.close(fd)


def write(run: Path, answer: Answer) -> Answer:
    """Store `answer` as the run's next one and return it with its number and digest.

    The caller holds `writing`. Whole or not at all: what returned survives a power cut.
    """
    numbers = [int(path.stem) for path in _files(run)]
    number = max(numbers, default=0) + 1
    data = laid_out(
        {
            "format": FORMAT,
            "run": _run_name(run),
            "key": answer.key,
            "criterion": answer.criterion,
            "asked": answer.asked,
            "ok": answer.ok,
            "note": answer.note,
            "by": answer.by,
            "at": utc_text(answer.at),
            "typed_by": answer.typed_by,
            "photos": [dataclasses.asdict(photo) for photo in answer.photos],
        }
    )
    disk.replace(run / FOLDER / f"{number:04}.json", data)
    return dataclasses.replace(answer, number=number, sha256=sha256(data))


def file_photo(run: Path, content: bytes, suffix: str) -> str:
    """Keep a photo's bytes in the run, named by their SHA-256, and return that."""
    digest = sha256(content)
    path = run / FOLDER / PHOTOS / f"{digest}{suffix}"
    if not path.exists():
        disk.make_folder(path.parent)
        disk.replace(path, content)
    return digest


def photo_path(run: Path, digest: str) -> Path | None:
    """Return where the photo of that digest lies in the run; None: it doesn't."""
    return next(iter((run / FOLDER / PHOTOS).glob(f"{digest}.*")), None)


def answers(run: Path) -> tuple[Answer, ...]:
    """Return every answer of the run in the order they were given; raises DamagedRunError."""
    return tuple(_read(run, path) for path in _files(run))


def _run_name(run: Path) -> str:
    return str(manifest.read(run)[0]["run"])


def _files(run: Path) -> list[Path]:
    folder = run / FOLDER
    found = [path for path in folder.glob("*.json") if _NAME.fullmatch(path.name)]
    return sorted(found, key=lambda path: int(path.stem))


def _read(run: Path, path: Path) -> Answer:
    data = read_bytes(path)
    try:
        stored = parse(data)
        version = stored.pop("format")
        if version == FORMAT:
            if stored.pop("run") != _run_name(run):
                raise DamagedRunError(f"{path}: is an answer about another run")
            return _answer(stored, int(path.stem), sha256(data))
    except (ValueError, KeyError, TypeError, AttributeError) as err:
        raise DamagedRunError(f"{path}: is no attestation: {err!r}") from err
    raise unknown_format(str(path), version, FORMAT)


def _answer(stored: dict[str, Any], number: int, digest: str) -> Answer:
    ok, photos = stored.pop("ok"), stored.pop("photos")
    if not isinstance(ok, bool):
        raise TypeError(f"'ok' is {ok!r}")
    return Answer(
        ok=ok,
        at=utc_time(stored.pop("at")),
        photos=tuple(Photo(**photo) for photo in photos),
        number=number,
        sha256=digest,
        **{key: str(value) for key, value in stored.items()},
    )


def evidence(run: Path, ref: str) -> Evidence:
    """Return the answer whose record has the SHA-256 `ref` as a piece of evidence.

    Raises StoreError where the run has none.
    """
    for path in _files(run):
        data = read_bytes(path)
        if sha256(data) == ref:
            answer = _read(run, path)
            return Evidence(
                host=ALL_HOSTS,
                command=("kvgate", "attest", run.name, answer.key),
                exit_status=0,
                stdout=data,
                stderr=b"",
                started_at=answer.at,
                ended_at=answer.at,
                notes=(f"attested by {answer.by}",),
            )
    raise StoreError(f"{run}: holds no attestation {ref[:16]}")
