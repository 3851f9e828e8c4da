"""Where the time went: kvgate's own time is run time less the spans in which a child ran.

One sweep over the journal: the time between two records belongs to the gate that is open and
to the children that are running (a soak runs before its gate's tests: its child's id, ``G4.soak``,
says whose it is). Time in which no process of kvgate lived (between an interruption and its
resumption, or across a reboot) belongs to nobody.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator

from kvgate.report import show
from kvgate.report.sources import JournalEvent
from kvgate.report.views import Spent, SpentRow

BETWEEN = "between gates"

_GATE = re.compile(r"G\d+", re.ASCII)


@dataclasses.dataclass(slots=True)
class Span:
    """Seconds of one gate: all, kvgate's own, and by what was running."""

    total_s: float = 0.0
    own_s: float = 0.0
    by_child_s: dict[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(slots=True)
class _State:
    """What is open at one moment of the sweep."""

    gate: str = BETWEEN
    children: dict[str, tuple[str, str]] = dataclasses.field(default_factory=dict)  # what, gate

    def see(self, event: JournalEvent) -> None:
        """Open and close what `event` says."""
        match event.kind:
            case "gate_begin":
                self.gate = str(event.fields.get("gate", "?"))
            case "gate_end":
                ended, self.gate = self.gate, BETWEEN
                # no child outlives its gate, whether its end was still written or not
                self.children = {
                    id_: child for id_, child in self.children.items() if child[1] != ended
                }
            case "child_begin":
                what = str(event.fields.get("what", "child")).partition(":")[0]
                id_ = str(event.fields.get("id"))
                self.children[id_] = (what, self._owner(id_))
            case "child_end":
                self.children.pop(str(event.fields.get("id")), None)
            case "resumed" | "run_end":
                self.gate, self.children = BETWEEN, {}

    def _owner(self, id_: str) -> str:
        """Return the gate a child works for: the open one, else the one its id begins with."""
        named = _GATE.fullmatch(id_.partition(".")[0])
        return named[0] if named and self.gate == BETWEEN else self.gate

    @property
    def owner(self) -> str:
        """Return whom the time belongs to: the open gate, else the one that a child works for."""
        owners = {gate for _, gate in self.children.values()} - {BETWEEN}
        return min(owners) if self.gate == BETWEEN and owners else self.gate


def spans(events: Iterable[JournalEvent]) -> dict[str, Span]:
    """Return seconds by gate (and BETWEEN), in the order in which the gates began."""
    found: dict[str, Span] = {}
    for gate, children, seconds in _stretches(events):
        span = found.setdefault(gate, Span())
        span.total_s += seconds
        if not children:
            span.own_s += seconds
        for what in children:
            span.by_child_s[what] = span.by_child_s.get(what, 0.0) + seconds
    return found


def _stretches(events: Iterable[JournalEvent]) -> Iterator[tuple[str, frozenset[str], float]]:
    """Yield (gate, what was running, seconds) for the time between each two records."""
    state = _State()
    before: JournalEvent | None = None
    for event in events:
        if before is not None and before.boot != event.boot:
            state.children = {}
        elif before is not None and event.kind != "resumed" and event.mono > before.mono:
            running = frozenset(what for what, _ in state.children.values())
            yield state.owner, running, event.mono - before.mono
        before = event
        state.see(event)


def view(found: dict[str, Span]) -> Spent:
    """Return the table of where the time went; gates first, what lies between them last."""
    names = [name for name in found if name != BETWEEN]
    names += [BETWEEN] if BETWEEN in found else []
    longest = max((span.total_s for span in found.values()), default=0.0) or 1.0
    total, own = (
        sum(each)
        for each in (
            [span.total_s for span in found.values()],
            [span.own_s for span in found.values()],
        )
    )
    return Spent(
        total=show.duration(total),
        own=show.duration(own),
        own_s=round(own, 3),
        rows=tuple(_row(name, found[name], longest) for name in names),
        note="" if names else "The journal holds no two records between which time went by.",
    )


def _row(name: str, span: Span, longest: float) -> SpentRow:
    child = span.total_s - span.own_s
    parts = sorted(span.by_child_s.items(), key=lambda part: (-part[1], part[0]))
    return SpentRow(
        name=name,
        total=show.duration(span.total_s),
        own=show.duration(span.own_s),
        children=show.duration(child) if child else "none",
        by_child=", ".join(f"{what} {show.duration(seconds)}" for what, seconds in parts),
        own_share=round(100 * span.own_s / longest, 2),
        child_share=round(100 * child / longest, 2),
    )
