"""A judged run → the report's files, in the formats asked for. Same run, same bytes."""

from __future__ import annotations

from pathlib import Path

import jinja2

from kvgate.engine.workspace import Setup, frozen_setup
from kvgate.errors import HarnessError, UsageError
from kvgate.model.finding import RunResult
from kvgate.report import document, junit, page
from kvgate.report.sources import RunRecords, Sources
from kvgate.report.text import markdown
from kvgate.report.views import Page

FILES = {"html": "report.html", "md": "report.md", "json": "report.json", "junit": "junit.xml"}
"""Format → file name."""


def render(
    run: RunRecords,
    result: RunResult,
    *,
    formats: tuple[str, ...],
    templates: Path,
    setup: Setup | None = None,
) -> dict[str, bytes]:
    """Return file name → bytes of the report on `run` in each of `formats` (keys of FILES).

    `setup` is what was judged by where that is not what the run froze. Raises UsageError for an
    unknown format, StoreError for damaged records, HarnessError for a template that is at fault.
    """
    unknown = [name for name in formats if name not in FILES]
    if unknown:
        raise UsageError(
            f"'{unknown[0]}' is not a format of a report",
            hint=f"one or more of: {', '.join(FILES)}",
        )
    used = setup if setup is not None else frozen_setup(run)  # type: ignore[arg-type]  # reads only
    view = page.build(Sources.read(run, result, used))
    return {FILES[name]: _render(view, name, templates) for name in formats}


def _render(view: Page, name: str, templates: Path) -> bytes:
    if name == "json":
        return document.render(view)
    if name == "junit":
        return junit.render(view)
    template = {"html": "report.html.j2", "md": "summary.md.j2"}[name]
    try:
        return _environment(templates, name).get_template(template).render(page=view).encode()
    except jinja2.TemplateError as err:
        raise HarnessError(
            f"{templates / template}: {type(err).__name__}: {err}",
            hint="compare it with the template that came with kvgate",
        ) from err


def _environment(templates: Path, name: str) -> jinja2.Environment:
    """Return the environment of one format: all it is given is escaped, nothing may be unknown."""
    html = name == "html"
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates),
        autoescape=html,  # noqa: S701  Markdown is escaped by `finalize`, everything that is put in
        finalize=None if html else markdown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
