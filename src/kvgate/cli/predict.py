"""The verb predict: the model against published rows, or what a site's bandwidths come to."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvgate.errors import UsageError

if TYPE_CHECKING:
    from kvgate.kv.predict import Work
    from kvgate.kv.predict_data import Loaded
    from kvgate.kv.predict_fit import Fitted
    from kvgate.report.predicted import Asked
    from kvgate.report.sheet import Sheet

LIMIT_FIGURE = "ttft_p90"
"""What --ttft-limit is a limit on."""

ASSUMED = "R2"
"""The published report that is assumed unless another is asked for: one instance, TP8."""


def predict_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Show predicted against published (1: beyond the bar), or a site's figures (2: unknown)."""
    chosen = [arguments.published, bool(arguments.fit or arguments.run)]
    if sum(chosen) != 1:
        raise UsageError(
            "predict takes --published, or --fit FILE, or --from RUN (with --fit FILE)"
        )
    return _forecast(arguments) if arguments.run else _published(arguments)


def _published(arguments: argparse.Namespace) -> int:
    from kvgate.kv.predict_table import tables, within
    from kvgate.report.predicted import published_document, published_sheet

    loaded = _rows(arguments)
    sections = tables(loaded)
    show(
        arguments,
        published_sheet(loaded.value, sections),
        published_document(loaded.value, sections),
    )
    return 0 if within(sections) else 1


def _rows(arguments: argparse.Namespace) -> Loaded:
    """Return the rows of --fit's file, else the published ones."""
    from kvgate.cli.places import own_models
    from kvgate.kv import predict_data

    own = own_models(arguments)
    if arguments.fit:
        return predict_data.load(Path(arguments.fit), own)
    return predict_data.published(own)


def _forecast(arguments: argparse.Namespace) -> int:
    from kvgate.cli.places import run_of
    from kvgate.kv import predict_run
    from kvgate.report.predicted import forecast_document, forecast_sheet
    from kvgate.store.reader import RunReader

    limit_s, levels = _limit_s(arguments.ttft_limit), _levels(arguments.concurrency)
    found = predict_run.measured(RunReader(run_of(arguments, arguments.run)))
    asked, fitted = _asked(arguments, limit_s)
    forecasts = predict_run.forecasts(
        found,
        asked.work,
        fitted.parameters,
        concurrencies=levels,
        limit_s=limit_s,
        figure=LIMIT_FIGURE,
    )
    show(
        arguments,
        forecast_sheet(found, asked, forecasts),
        forecast_document(found, asked, forecasts),
    )
    return 0


def _asked(arguments: argparse.Namespace, limit_s: float | None) -> tuple[Asked, Fitted]:
    """Return what is asked, and the parameters of the report that are assumed."""
    from kvgate.kv.predict_run import assumed
    from kvgate.kv.predict_table import section
    from kvgate.report.predicted import Asked
    from kvgate.spec.load import nearest

    loaded = _rows(arguments)
    reports = {each.report: place for place, each in enumerate(loaded.value.reports)}
    name = arguments.assume or (next(iter(reports)) if arguments.fit else ASSUMED)
    if name not in reports:
        raise UsageError(f"--assume: '{name}' is no report of these{nearest(name, reports)}")
    place = reports[name]
    report = loaded.value.reports[place]
    made = section(report, loaded.works[place])
    asked = Asked(
        work=_work(arguments, loaded.works[place]),
        limit=arguments.ttft_limit or "",
        limit_s=limit_s,
        limit_figure="TTFT p90",
        assumptions=assumed(made.fitted, name),
        source=f"fitted on report {report.report} ({report.deployment}; {loaded.value.source}, "
        f"{loaded.value.licence}, {loaded.value.attribution}); {made.accuracy()}",
    )
    return asked, made.fitted


def _work(arguments: argparse.Namespace, published: Work) -> Work:
    """Return the work asked for; what is not asked for is as in the report that is assumed."""
    import dataclasses

    changes: dict[str, Any] = {}
    for name in ("dtype", "tokens", "output_tokens"):
        if (value := getattr(arguments, name)) is not None:
            changes[name] = value
    for name in ("tokens", "output_tokens"):
        if not 1 <= changes.get(name, 1) <= 10_000_000:
            raise UsageError(f"--{name.replace('_', '-')}: from 1 to 10,000,000")
    return dataclasses.replace(published, **changes)


def _limit_s(text: str | None) -> float | None:
    from kvgate.cli.places import quantity_of

    if text is None:
        return None
    limit = quantity_of("--ttft-limit", text)
    if limit.dimension != "time" or not 0 < limit.base < 10**9:
        raise UsageError(f"--ttft-limit: '{text}' is no time above 0", hint="write e.g. '15 s'")
    return float(limit.base)


def _levels(text: str) -> tuple[int, ...]:
    from kvgate.kv.predict import MOST_CONCURRENCY

    levels = [int(word) if word.isdecimal() and len(word) < 6 else 0 for word in text.split(",")]
    if not all(1 <= each <= MOST_CONCURRENCY for each in levels):
        raise UsageError(
            f"--concurrency: '{text}': whole numbers from 1 to {MOST_CONCURRENCY}, by commas"
        )
    return tuple(sorted(set(levels)))


def show(arguments: argparse.Namespace, sheet: Sheet, document: Any) -> None:
    """Print `sheet` (or, with --json, `document`), and write it as a page where --out says.

    Raises UsageError where that file is there or can't be written.
    """
    from kvgate.cli.places import templates_of, write_new
    from kvgate.report.sheet import page, text

    if arguments.out:
        write_new(arguments.out, page(sheet, templates_of(arguments)))
    if arguments.json:
        print(json.dumps(document, indent=1, allow_nan=False))
    else:
        print("\n".join(text(sheet)))
