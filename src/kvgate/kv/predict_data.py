"""Published or measured figures as data: what the model is fitted on, and what it is checked on."""

from __future__ import annotations

import dataclasses
import importlib.resources
import itertools
from pathlib import Path
from typing import Annotated, Literal

import pydantic

from kvgate.kv.geometry import Geometry
from kvgate.kv.models import known
from kvgate.kv.predict import MOST_CONCURRENCY, Work
from kvgate.spec import yamlfile
from kvgate.spec.base import AnyQuantity, Duration, Rate, Strict, Text, within
from kvgate.spec.load import nearest, validate
from kvgate.spec.yamlfile import YamlFile

Arm = Literal["recompute", "local", "device"]

FIGURES = ("ttft_p50", "ttft_p90", "ttft_p99", "tpot_p50", "throughput")
"""What a row may tell, in the order it is shown in."""


Seconds = Annotated[Duration, within("1 us", "1000 h")]
Bandwidth = Annotated[Rate, within("1 B/s", "1 PB/s")]
TokenRate = Annotated[AnyQuantity, within("0.001 tok/s", "1e12 tok/s")]
Count = Annotated[int, pydantic.Field(ge=1, le=10_000_000)]


class Row(Strict):
    """One measured point of one arm; ``bandwidth`` where it was measured beside it, not fitted.

    ``use``: whether the parameters may be fitted on it, or are only checked by it. ``judged``:
    whether the model is held to it, or its error is only told.
    """

    arm: Arm
    label: Text | None = None
    concurrency: Annotated[int, pydantic.Field(ge=1, le=MOST_CONCURRENCY)]
    use: Literal["fit", "check"]
    judged: bool = True
    bandwidth: Bandwidth | None = None
    ttft_p50: Seconds
    ttft_p90: Seconds | None = None
    ttft_p99: Seconds | None = None
    tpot_p50: Seconds | None = None
    throughput: TokenRate | None = None

    @pydantic.model_validator(mode="after")
    def _ordered(self) -> Row:
        if self.arm == "recompute" and self.bandwidth is not None:
            raise ValueError("arm recompute restores nothing: it has no bandwidth")
        rising = [each for each in (self.ttft_p50, self.ttft_p90, self.ttft_p99) if each]
        if any(a > b for a, b in itertools.pairwise(rising)):
            raise ValueError(f"percentiles fall: {', '.join(map(str, rising))}")
        return self

    def figures(self) -> dict[str, float]:
        """Return what the row tells by name, in s and tok/s."""
        told = {name: getattr(self, name) for name in FIGURES}
        return {name: float(value.base) for name, value in told.items() if value is not None}

    @property
    def named(self) -> str:
        """Return what the row is called: ``device 16 (own pool)``."""
        return f"{self.arm} {self.concurrency}" + (f" ({self.label})" if self.label else "")


class Report(Strict):
    """Rows of one deployment: one set of parameters."""

    report: Text
    deployment: Text
    model: Text
    dtype: Literal["bf16", "fp16", "fp8"]
    tokens: Count
    output_tokens: Count
    instances: Annotated[int, pydantic.Field(ge=1, le=64)]
    rows: Annotated[list[Row], pydantic.Field(min_length=1)]


class Published(Strict):
    """A file of reports, where they come from and under which licence."""

    source: Text
    licence: Text
    attribution: Text
    notes: list[Text] = pydantic.Field(default_factory=list)
    reports: Annotated[list[Report], pydantic.Field(min_length=1)]


@dataclasses.dataclass(frozen=True, slots=True)
class Loaded:
    """A checked file, and the work of each of its reports."""

    value: Published
    works: tuple[Work, ...]


def published(own_models: Path | None = None) -> Loaded:
    """Return the published rows that are shipped."""
    content = importlib.resources.files("kvgate.kv").joinpath("published.yaml").read_bytes()
    return _loaded(yamlfile.parse(content, "published.yaml (shipped)"), known(own_models))


def load(path: Path, own_models: Path | None = None) -> Loaded:
    """Load the file at `path`; raises SpecError with file and line.

    Models of the folder `own_models` are known beside the shipped ones.
    """
    return _loaded(yamlfile.read(path), known(own_models))


def _loaded(file: YamlFile, models: dict[str, Geometry]) -> Loaded:
    value = validate(Published, file)
    works = []
    seen: dict[str, int] = {}
    for place, report in enumerate(value.reports):
        where = ("reports", place)
        if report.report in seen:
            first = file.line(("reports", seen[report.report]))
            raise file.error(where, f"'{report.report}' stands twice, first in line {first}")
        seen[report.report] = place
        if report.model not in models:
            told = f"'{report.model}' is no model that is known{nearest(report.model, models)}"
            raise file.error((*where, "model"), told)
        if not any(row.use == "fit" for row in report.rows):
            raise file.error((*where, "rows"), "no row has 'use: fit': nothing to fit on")
        works.append(
            Work(
                geometry=models[report.model],
                dtype=report.dtype,
                tokens=report.tokens,
                output_tokens=report.output_tokens,
                instances=report.instances,
            )
        )
    return Loaded(value, tuple(works))
