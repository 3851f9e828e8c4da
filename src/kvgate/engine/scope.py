"""Where something is asked: the gate or block, noted with each answer, and told to recordings."""

from __future__ import annotations

import collections
import dataclasses
import threading
from collections.abc import Sequence

from kvgate.engine.workspace import Setup
from kvgate.errors import CommandError
from kvgate.model.record import Evidence, EvidenceRef
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter
from kvgate.transport.connect import Connections
from kvgate.transport.recorded import Scope
from kvgate.witness import Keep

_NOTE = "asked in "


HOST_BYTES = 2**29
"""The most that is kept of one host in one process of a gate: a host can't fill the disk."""


def kept_in(run: RunWriter, scope: Scope, *, most_bytes: int = HOST_BYTES) -> Keep:
    """Return what keeps evidence in `run`, with a note of the scope it was asked in.

    It raises CommandError for a host that has told more than `most_bytes`: what can't be kept is
    not used either.
    """
    told: collections.Counter[str] = collections.Counter()
    counting = threading.Lock()

    def keep(piece: Evidence) -> EvidenceRef:
        size = len(piece.stdout) + len(piece.stderr)
        with counting:
            if told[piece.host] + size > most_bytes:
                before = told[piece.host]
                raise CommandError(
                    piece.host,
                    f"has told {before / 1e6:.0f} MB; {size / 1e6:.0f} MB more are not kept",
                    hint="see in the evidence what answers so much; no gate asks for that",
                )
            told[piece.host] += size
        return run.evidence(dataclasses.replace(piece, notes=(*piece.notes, _NOTE + scope())))

    return keep


def asked_in(notes: Sequence[str]) -> str:
    """Return the scope that `notes` of a piece of evidence tell, "" where they tell none."""
    return next((note.removeprefix(_NOTE) for note in notes if note.startswith(_NOTE)), "")


def connect(setup: Setup, reader: RunReader, *, scope: Scope) -> Connections:
    """Return the connections of a run's hosts, recorded ones as the run's manifest has them."""
    return Connections(
        setup.inventory.value,
        setup.recordings,
        scope=scope,
        timing=reader.manifest.get("timing") is True,
        logins={name: each.value.login for name, each in setup.adapters.items()},
        shared=True,
    )
