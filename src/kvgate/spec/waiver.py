"""Waivers, deviations and open items: what people agree to accept, where, why, and until when.

A waiver accepts a nonconformity that a run found; a deviation permits one before the run (ISO 9000:
concession, deviation permit). An open item promises to bring a class-B criterion to its end.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic

from kvgate.spec import yamlfile
from kvgate.spec.base import Strict, Text
from kvgate.spec.load import Loaded, validate
from kvgate.spec.yamlfile import YamlFile

APPROVERS = ("buyer", "supplier")
"""The two parties that have to approve a waiver or a deviation, each with a signature."""

WaiverId = Annotated[str, pydantic.StringConstraints(pattern=r"^W-\d{4}$")]
WaiverKind = Literal["waiver", "deviation", "open_item"]


def day(value: Any) -> Any:
    """Refuse what is no calendar day such as 2026-12-31."""
    try:
        good = datetime.date.fromisoformat(str(value)).isoformat() == value
    except ValueError:
        good = False
    if not good:
        raise ValueError(f"{value!r} is no day; write it as 2026-12-31")
    return value


def moment(value: Any) -> Any:
    """Refuse what is no time in UTC to the second such as 2026-12-01T08:00:00Z."""
    try:
        good = parsed(str(value)).strftime(_MOMENT) == value
    except ValueError:
        good = False
    if not good:
        raise ValueError(f"{value!r} is no time in UTC; write it as 2026-12-01T08:00:00Z")
    return value


_MOMENT = "%Y-%m-%dT%H:%M:%SZ"


def parsed(text: str) -> datetime.datetime:
    """Return the time that `told` wrote; raises ValueError for any other spelling."""
    return datetime.datetime.strptime(text, _MOMENT).replace(tzinfo=datetime.UTC)


def told(when: datetime.datetime) -> str:
    """Return `when` as a claimed time is written: UTC, to the second, 2026-12-01T08:00:00Z."""
    return when.astimezone(datetime.UTC).strftime(_MOMENT)


Day = Annotated[str, pydantic.BeforeValidator(day)]
Moment = Annotated[str, pydantic.BeforeValidator(moment)]


class Scope(Strict):
    """One place that a waiver speaks of: a host, the unit by serial number, an item on it."""

    host: Text
    serial: Text | None = None
    item: Text | None = None


class Waiver(Strict):
    """One waiver, deviation or open item: for one criterion, in the places it names.

    ``run`` is the run whose finding it accepts, ``finding`` that finding's own words. It holds
    through the day ``expires`` (UTC); ``owner`` brings what is open to its end by then.
    """

    waiver: WaiverId
    kind: WaiverKind = "waiver"
    criterion: Annotated[str, pydantic.StringConstraints(pattern=r"^G\d+(\.\d+)?$")]
    scope: list[Scope] = pydantic.Field(default_factory=list)
    run: Text | None = None
    finding: Text | None = None
    requester: Text
    owner: Text
    justification: Text
    risk: Text
    expires: Day

    @pydantic.model_validator(mode="after")
    def _of_a_run(self) -> Waiver:
        if (self.run is None) != (self.kind == "deviation"):
            raise ValueError(
                "a deviation is agreed before any run and names none; "
                "a waiver or an open item names the 'run' whose finding it accepts"
            )
        return self

    @property
    def ends(self) -> datetime.datetime:
        """Return when it ends: after the last second of the day it expires on, in UTC."""
        last = datetime.date.fromisoformat(self.expires) + datetime.timedelta(days=1)
        return datetime.datetime.combine(last, datetime.time(), datetime.UTC)


class Approval(Strict):
    """One party's approval: an SSH signature over the waiver's whole text, beside its file.

    ``at`` is the time the signatory claims; a signature proves who signed, not when.
    """

    waiver: WaiverId
    role: Literal["buyer", "supplier"]
    principal: Text
    at: Moment
    signature: Annotated[str, pydantic.StringConstraints(min_length=1)]  # armour, to the byte


def load_waiver(path: Path, *, name: str | None = None) -> Loaded[Waiver]:
    """Load one waiver; raises SpecError, also where its file is not named by its id."""
    return waiver_of(yamlfile.read(path, name=name))


def waiver_of(file: YamlFile) -> Loaded[Waiver]:
    """Check one waiver; raises SpecError."""
    found = validate(Waiver, file)
    if Path(file.name).name != f"{found.waiver}.yaml":
        raise file.error(("waiver",), f"{found.waiver} belongs in a file {found.waiver}.yaml")
    return Loaded(found, (file,))


def approval_of(file: YamlFile) -> Approval:
    """Check one approval; raises SpecError."""
    return validate(Approval, file)
