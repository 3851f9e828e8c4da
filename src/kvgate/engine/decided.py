"""The disposition that a later gate opens on: as judged at the time, or as people made it since."""

from __future__ import annotations

import datetime

from kvgate.engine import disposing, waivers
from kvgate.engine.scope_out import parent
from kvgate.model.verdict import Disposition
from kvgate.store import attested
from kvgate.store.reader import RunReader


def decided(reader: RunReader, gate: str) -> tuple[Disposition, str]:
    """Return the disposition of a `gate` that was judged in that run, and why it is none better.

    A run that retests others, that people answered checks of, or whose disposition they froze, is
    computed again now: a conditional acceptance ends with its waivers.
    """
    acts = parent(reader) or disposing.disposals(reader.path) or attested.answers(reader.path)
    if not acts:
        judged = [e.fields for e in reader.events("gate_judged") if e.fields["gate"] == gate]
        return Disposition(str(judged[-1]["disposition"])), ""
    held = waivers.read(reader.path / waivers.FOLDER).held
    disposed = disposing.propose(reader.path, held, datetime.datetime.now(datetime.UTC))
    for each in disposed.gates:
        if each.gate == gate:
            return each.disposition, f": {each.because}"
    return Disposition.REJECTED, f": {gate} is none of its gates"
