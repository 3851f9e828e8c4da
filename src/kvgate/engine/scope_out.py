"""What a run leaves out: what its plan scopes out, and in a retest all that it doesn't repeat."""

from __future__ import annotations

from kvgate.engine.workspace import Setup
from kvgate.store.reader import RunReader

KEY = "retest"
"""The manifest's key of a retest: which run it repeats criteria of, and which."""


def retested(reader: RunReader) -> tuple[str, ...]:
    """Return the criteria that a retest repeats; empty where the run is none."""
    told = reader.manifest.get(KEY)
    return tuple(str(each) for each in told["criteria"]) if told else ()


def parent(reader: RunReader) -> str:
    """Return the name of the run that a retest repeats criteria of; "" where it is none."""
    told = reader.manifest.get(KEY)
    return str(told["of"]) if told else ""


def left_out(reader: RunReader, setup: Setup) -> dict[str, str]:
    """Return criterion → why it is not judged in this run."""
    out = setup.plan.value.scoped_out()
    again = retested(reader)
    if again:
        because = f"not part of this retest: see run {parent(reader)}"
        for gate in setup.gates.values():
            for each in gate.value.criteria:
                if each.id not in again:
                    out.setdefault(each.id, because)
    return out
