"""Takes down what people answer to a run's manual checks: each answer is safe once it is given."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Sequence
from pathlib import Path

from kvgate.engine import attested as checks
from kvgate.engine import photos
from kvgate.engine.holding import user
from kvgate.engine.scope_out import parent
from kvgate.engine.workspace import frozen_setup
from kvgate.errors import UsageError
from kvgate.model.attested import Answer, Photo, Question
from kvgate.store import attested, sums
from kvgate.store.layout import listing, sums_name
from kvgate.store.reader import RunReader
from kvgate.store.seal import seal

LONGEST_NOTE = 2000
"""Characters of a note."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a person says to one question: as it should be or not, a note, photo files, a name."""

    question: Question
    ok: bool
    by: str
    note: str = ""
    photos: tuple[Path, ...] = ()


def asked_of(run: Path) -> tuple[Question, ...]:
    """Return every question of `run`; raises UsageError where it has none."""
    reader = RunReader(run)
    found = checks.questions(reader, frozen_setup(reader))
    if not found:
        of = parent(reader)
        raise UsageError(
            f"{run.name}: has no manual checks in its gates, or its plan scopes them all out",
            hint=f"it is a retest: kvgate attest {of} asks them, --again anew" if of else "",
        )
    return found


def open_of(run: Path, asked: Sequence[Question]) -> tuple[Question, ...]:
    """Return the questions that nobody has answered yet."""
    known = checks.counting(attested.answers(run))
    return tuple(each for each in asked if each.key not in known)


def record(run: Path, told: Told, *, strip: bool) -> Answer:
    """Store an answer with its photos and return it; the caller holds `attested.writing`.

    Raises UsageError for a no without a note, a name that is none, or a photo that can't be filed.
    """
    problem = wrong(told)
    if problem:
        raise UsageError(f"{told.question.key}: {problem}")
    pictures = [(path, *photos.read(path, strip=strip)) for path in told.photos]
    filed = tuple(
        Photo(
            name=path.name,
            sha256=attested.file_photo(run, content, suffix),
            stripped=strip,
        )
        for path, content, suffix in pictures
    )
    return attested.write(
        run,
        Answer(
            key=told.question.key,
            criterion=told.question.criterion,
            asked=told.question.text,
            ok=told.ok,
            by=told.by,
            at=datetime.datetime.now(datetime.UTC),
            typed_by=user(),
            note=told.note,
            photos=filed,
        ),
    )


def wrong(told: Told) -> str:
    """Return what is wrong with an answer; "" where nothing is."""
    if not told.by.strip():
        return "says not who looked"
    if not told.by.isprintable():
        return "the name of who looked holds characters that nobody sees (a line break, a mark)"
    if not told.ok and not told.note.strip():
        return "a no needs a note that says what is wrong"
    if len(told.note) > LONGEST_NOTE:
        return f"the note has more than {LONGEST_NOTE} characters"
    return ""


def record_all(run: Path, told: Iterable[Told], *, strip: bool) -> int:
    """Store those of `told` that don't stand in the run already; return how many were stored.

    So a sheet can be read again after a kill. Everything is looked at before anything is stored.
    """
    every = list(told)
    for each in every:
        if problem := wrong(each):
            raise UsageError(f"{each.question.key}: {problem}")
        for path in each.photos:
            photos.read(path, strip=strip)
    known = checks.counting(attested.answers(run))
    stored = 0
    for each in every:
        before = known.get(each.question.key)
        if before is None or not _same(each, before):
            record(run, each, strip=strip)
            stored += 1
    return stored


def _same(told: Told, before: Answer) -> bool:
    names = tuple(path.name for path in told.photos)
    then = tuple(photo.name for photo in before.photos)
    return (told.ok, told.by, told.note, names) == (before.ok, before.by, before.note, then)


def seal_answers(run: Path) -> str:
    """Seal answers that no layer covers yet as the run's next one, and return its digest.

    "" where there are none, or the run is not over: its own end seals them then.
    """
    files = listing(run).files
    layers = [data for _, _, data in sums.layers(run, files)]
    covered = {name for data in layers for name in sums.read(data)}
    new = any(name.startswith(f"{attested.FOLDER}/") and name not in covered for name in files)
    return seal(run) if new and sums_name(1) in files else ""
