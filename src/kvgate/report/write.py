"""Writes a run's reports into its folder, never over one that a seal covers."""

from __future__ import annotations

from pathlib import Path

from kvgate.engine.workspace import Setup
from kvgate.errors import StoreError
from kvgate.model.finding import RunResult
from kvgate.report.render import FILES, render
from kvgate.store import disk
from kvgate.store.reader import RunReader

FORMATS = tuple(FILES)
_MOST_EDITIONS = 1000


def write_reports(
    run: Path,
    result: RunResult,
    *,
    templates: Path,
    formats: tuple[str, ...] = FORMATS,
    setup: Setup | None = None,
) -> tuple[Path, ...]:
    """Write the reports and return their paths: in ``report/``, or in ``report-2/`` and so on.

    A sealed run's report stays as it was sealed; the same bytes again are no change, others go
    into a new folder beside it. Judged by other gates (`setup`), it goes to a folder of its own,
    ``report-by-DIGEST/``.
    """
    reader = RunReader(run)
    made = render(reader, result, formats=formats, templates=templates, setup=setup)
    if setup is None:
        folder = _folder(run, made, sealed=reader.sealed())
    else:
        folder = run / f"report-by-{result.criteria_digest[:12]}"
    disk.make_folder(folder)
    for name, content in made.items():
        path = folder / name
        if not path.is_file() or path.read_bytes() != content:
            disk.replace(path, content)  # whole or not at all: a killed report is never sealed torn
    return tuple(folder / name for name in made)


def _folder(run: Path, made: dict[str, bytes], *, sealed: bool) -> Path:
    for number in range(1, _MOST_EDITIONS):
        folder = run / ("report" if number == 1 else f"report-{number}")
        kept = {name: folder / name for name in made if (folder / name).is_file()}
        if not (sealed and kept) or all(
            path.read_bytes() == made[name] for name, path in kept.items()
        ):
            return folder
    raise StoreError(f"{run.name}: has {_MOST_EDITIONS} editions of its report already")
