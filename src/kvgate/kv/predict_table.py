"""Predicted against published: the parameters fitted for each report, and every row's errors."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from kvgate.kv.predict import Work
from kvgate.kv.predict_data import Loaded, Report, Row
from kvgate.kv.predict_fit import Fitted, fit

BAR = 0.15
"""How far a judged figure may be off."""

JUDGED = ("ttft_p50", "ttft_p90", "throughput")
"""The figures that the model is held to; others are told with their errors."""


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """One figure: as published and as predicted, in s or tok/s.

    ``left_out``: as predicted by a fit without this row, for a row that was fitted on; None where
    the others don't tell enough.
    """

    figure: str
    published: float
    predicted: float
    judged: bool
    left_out: float | None = None

    @property
    def error(self) -> float:
        """Return predicted ÷ published − 1."""
        return self.predicted / self.published - 1

    @property
    def left_out_error(self) -> float | None:
        """Return the error of a fit without this row; None where there is none."""
        return None if self.left_out is None else self.left_out / self.published - 1

    @property
    def within(self) -> bool:
        """Tell whether the figure keeps the bar; one that is not judged always does."""
        return not self.judged or abs(self.error) <= BAR


@dataclasses.dataclass(frozen=True, slots=True)
class TableRow:
    """One published row; ``lacks`` names parameters that nothing was fitted on: no prediction."""

    row: Row
    cells: tuple[Cell, ...]
    lacks: tuple[str, ...]

    @property
    def within(self) -> bool:
        """Tell whether it was predicted, and every judged figure keeps the bar."""
        return not self.lacks and all(cell.within for cell in self.cells)


@dataclasses.dataclass(frozen=True, slots=True)
class Section:
    """One report: its one set of parameters, and its rows."""

    report: Report
    work: Work
    fitted: Fitted
    rows: tuple[TableRow, ...]

    @property
    def held_out(self) -> tuple[str, ...]:
        """Return the rows that nothing was fitted on, by name."""
        return tuple(each.row.named for each in self.rows if each.row.use == "check")

    def worst(self) -> float | None:
        """Return the largest error of a judged figure; None where none is judged."""
        errors = [abs(c.error) for each in self.rows for c in each.cells if c.judged]
        return max(errors, default=None)

    def accuracy(self) -> str:
        """Return how far the model is from the report as a sentence."""
        worst = self.worst()
        if worst is None:
            return "no figure of it is judged"
        return f"the model misses its judged figures by at most {worst:.1%}"


def tables(loaded: Loaded) -> tuple[Section, ...]:
    """Return a section for each report, fitted on its rows marked ``fit``."""
    return tuple(
        section(report, work, left_out=True)
        for report, work in zip(loaded.value.reports, loaded.works, strict=True)
    )


def within(sections: tuple[Section, ...]) -> bool:
    """Tell whether every row keeps the bar."""
    return all(row.within for section in sections for row in section.rows)


def section(report: Report, work: Work, *, left_out: bool = False) -> Section:
    """Return one report's; with `left_out` each fitted row is also predicted without it."""
    used = [row for row in report.rows if row.use == "fit"]
    fitted = fit(work, used)
    rows = []
    for row in report.rows:
        lacks = fitted.lacks(work, row)
        others = [each for each in used if each is not row]
        without = fit(work, others) if left_out and row in used and others else None
        cells = () if lacks else tuple(_cells(work, fitted, without, row))
        rows.append(TableRow(row, cells, lacks))
    return Section(report, work, fitted, tuple(rows))


def _cells(work: Work, fitted: Fitted, without: Fitted | None, row: Row) -> Iterator[Cell]:
    """Yield a cell for each published figure of a row."""
    outcome = fitted.outcome(work, row)
    other = without.outcome(work, row) if without and not without.lacks(work, row) else None
    for figure, published in row.figures().items():
        yield Cell(
            figure=figure,
            published=published,
            predicted=outcome.value(figure),
            judged=row.judged and figure in JUDGED,
            left_out=other.value(figure) if other else None,
        )
