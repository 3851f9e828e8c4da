"""The finished views: everything the templates place, decided, and nothing they must decide."""

from __future__ import annotations

import dataclasses
import enum

from markupsafe import Markup

from kvgate.model.finding import LEFT_OUT
from kvgate.model.verdict import Disposition, Verdict
from kvgate.report.show import Shown
from kvgate.report.views_signoff import SignOff


@dataclasses.dataclass(frozen=True, slots=True)
class Mark:
    """A verdict as it is shown: a shape (by `key`), a symbol for plain text, and a word."""

    key: str
    word: str
    symbol: str


MARKS = {
    Verdict.PASS: Mark("pass", "Pass", "✓"),
    Verdict.FAIL: Mark("fail", "Fail", "✕"),
    Verdict.INCONCLUSIVE: Mark("inconclusive", "Inconclusive", "?"),
    Verdict.NOT_RUN: Mark("not_run", "Not run", "–"),
}
SCOPED_OUT = Mark("scoped_out", "Scoped out", "○")
DISPOSITIONS = {
    None: "none yet",
    Disposition.ACCEPTED: "accepted",
    Disposition.ACCEPTED_WITH_CONDITIONS: "accepted with conditions",
    Disposition.REJECTED: "rejected",
}


FOLDED_BEYOND = 24
"""So many clear passes of a gate stand open."""


class Look(enum.StrEnum):
    """How a fact's text is set."""

    PLAIN = "plain"
    CODE = "code"


@dataclasses.dataclass(frozen=True, slots=True)
class Fact:
    """A labelled text; `exact` is shown on hovering, and in JSON."""

    label: str
    text: str
    look: Look = Look.PLAIN
    exact: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Count:
    """How many criteria ended with one mark."""

    mark: Mark
    number: int


@dataclasses.dataclass(frozen=True, slots=True)
class EvidenceLink:
    """A reference to a piece of evidence: its short name and where it stands on the page."""

    short: str
    anchor: str
    sha256: str


@dataclasses.dataclass(frozen=True, slots=True)
class HostRow:
    """One host's (and item's) part of a finding."""

    host: str
    item: str
    mark: Mark
    marginal: bool
    measured: Shown
    because: str
    evidence: tuple[EvidenceLink, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CriterionView:
    """One judged criterion with everything a reader needs to dispute it."""

    id: str
    text: str
    mark: Mark
    marginal: bool
    limit: str
    claim: str
    measured: Shown
    because: str
    hint: tuple[str, ...]  # lines
    facts: tuple[Fact, ...]  # deployment, statistic, phase, basis
    hosts: tuple[HostRow, ...]
    hosts_told: str  # "3 hosts", "12 items on 3 hosts"
    has_items: bool
    hosts_open: bool  # some host did not pass: its rows are not folded away
    evidence: tuple[EvidenceLink, ...]
    more_evidence: int  # pieces beyond those linked
    waiver: str = dataclasses.field(default="", metadata=LEFT_OUT)  # what people agreed beside it


@dataclasses.dataclass(frozen=True, slots=True)
class LeftOut:
    """A criterion that was not judged or not run, and why."""

    criterion: str
    text: str
    mark: Mark
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Chart:
    """A finished drawing, or the reason why there is none; `rows` are its values as a table."""

    id: str
    title: str
    note: str
    svg: Markup | None
    wide: bool = False
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """A table's cell; `shade` is 0 (none) to 5."""

    text: str
    shade: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Grid:
    """A finished table; the first cell of a row is its heading."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PtsView:
    """One of SNIA's tests on one target: header, ruling, how it was determined, results."""

    id: str
    title: str
    label: str  # what the results may be called: "quick, not PTS"
    departures: tuple[str, ...]
    facts: tuple[Fact, ...]
    ruling: str
    determination: tuple[Grid, ...]
    grids: tuple[Grid, ...]
    charts: tuple[Chart, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GateView:
    """One gate: its verdict, its criteria, its charts and what was left out."""

    id: str
    title: str
    question: str
    mark: Mark
    because: str
    counts: tuple[Count, ...]
    criteria_total: int
    disposition: str
    forced: str
    took: str
    took_s: float
    began: str
    criteria: tuple[CriterionView, ...]
    scoped_out: tuple[LeftOut, ...]
    charts: tuple[Chart, ...]
    # stored only where there is any: older reports read as they always did
    pts: tuple[PtsView, ...] = dataclasses.field(default=(), metadata=LEFT_OUT)

    @property
    def shown(self) -> tuple[CriterionView, ...]:
        """Return the criteria that stand open: of many, those that are no clear pass."""
        folded = {each.id for each in self.folded}
        return tuple(each for each in self.criteria if each.id not in folded)

    @property
    def folded(self) -> tuple[CriterionView, ...]:
        """Return the clear passes, where there are many of them."""
        clear = tuple(e for e in self.criteria if e.mark.key == "pass" and not e.marginal)
        return clear if len(clear) > FOLDED_BEYOND else ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One thing that did not pass, on one host where it has one, and what to do next."""

    gate: str
    criterion: str
    text: str
    mark: Mark
    host: str
    item: str
    measured: Shown
    limit: str
    because: str
    hint: str
    waiver: str = dataclasses.field(default="", metadata=LEFT_OUT)  # what people agreed beside it


@dataclasses.dataclass(frozen=True, slots=True)
class TroublesOf:
    """What did not pass on one host; ``host`` is "" where all is told in one list."""

    host: str
    troubles: tuple[Trouble, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class GlanceCell:
    """How one area fared on a host: the worst verdict, and how many criteria had it."""

    area: str
    mark: Mark | None  # None: nothing of it is judged there
    text: str
    title: str


@dataclasses.dataclass(frozen=True, slots=True)
class GlanceRow:
    """One host: its worst verdict, and how many of its criteria failed."""

    host: str
    mark: Mark
    failed: int
    judged: int
    cells: tuple[GlanceCell, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Glance:
    """One gate's hosts by areas."""

    gate: str
    areas: tuple[str, ...]
    rows: tuple[GlanceRow, ...]
    note: str


@dataclasses.dataclass(frozen=True, slots=True)
class FactRow:
    """One fact measured on a host."""

    name: str
    item: str
    value: Shown


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostView:
    """A host of the inventory: what it is for, who it is, and what it reported."""

    name: str
    roles: str
    way: str
    serials: tuple[Fact, ...]
    key_facts: tuple[Fact, ...]
    facts: tuple[FactRow, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Deviation:
    """Something that departed from an undisturbed run of the plan."""

    when: str
    kind: str
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class SpentRow:
    """Where one gate's time went; the two shares are of the longest row, in percent."""

    name: str
    total: str
    own: str
    children: str
    by_child: str
    own_share: float
    child_share: float


@dataclasses.dataclass(frozen=True, slots=True)
class Spent:
    """Where the run's time went; `own_s` is kvgate's own time."""

    total: str
    own: str
    own_s: float
    rows: tuple[SpentRow, ...]
    note: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceView:
    """A piece of evidence: the command, how it ended, and its first lines."""

    sha256: str
    short: str
    anchor: str
    host: str
    command: str
    ended: str
    when: str
    notes: tuple[str, ...]
    stdout: tuple[str, ...]
    stdout_note: str
    stderr: tuple[str, ...]
    stderr_note: str
    cited_by: tuple[str, ...]
    disputed: bool  # cited by something that did not pass: printed in full
    unreadable: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The whole report."""

    title: str
    run: str
    banner: str
    footer_css: str
    facts: tuple[Fact, ...]
    mark: Mark
    conclusion: tuple[str, ...]
    counts: tuple[Count, ...]
    gates: tuple[GateView, ...]
    troubles: tuple[Trouble, ...]
    marginal: tuple[Trouble, ...]
    hosts: tuple[HostView, ...]
    left_out: tuple[LeftOut, ...]
    deviations: tuple[Deviation, ...]
    spent: Spent
    evidence: tuple[EvidenceView, ...]
    evidence_note: str
    provenance: tuple[Fact, ...]
    verify: tuple[Fact, ...]
    # which of very many hosts are told of
    hosts_note: str = dataclasses.field(default="", metadata=LEFT_OUT)
    signoff: SignOff | None = dataclasses.field(default=None, metadata=LEFT_OUT)
    glances: tuple[Glance, ...] = ()
    troubles_by_host: tuple[TroublesOf, ...] = ()
