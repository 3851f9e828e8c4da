"""A load that was recorded: the rows of then, read back from what was kept of them."""

from __future__ import annotations

import datetime
import json
from typing import Any

from kvgate.errors import ParseError
from kvgate.load.rows import Failure, LoadResult, Row, command
from kvgate.load.watch import Watched
from kvgate.transport.base import CommandResult
from kvgate.witness import Witness


def replayed(witness: Witness, base_url: str, *, concurrency: int) -> LoadResult:
    """Return the next load that was recorded at `base_url`; sends nothing.

    Raises TransportError where none is in the recording, ParseError where it is none of ours.
    """
    argv = command(base_url, concurrency)
    told = witness.transport.run(argv, timeout_s=60).expect_ok()
    try:
        return of_lines(told)
    except (ValueError, KeyError, TypeError) as err:
        raise ParseError(f"{witness.host.name}: a recorded load can't be read: {err!r}") from err


def of_lines(told: CommandResult) -> LoadResult:
    """Return the load whose evidence (`rows.as_evidence`) `told` is: the same, to the last digit.

    Raises ValueError, KeyError or TypeError for anything else.
    """
    facts, *lines = (json.loads(line) for line in told.stdout.decode().splitlines())
    if facts["rows"] != len(lines):
        raise ValueError(f"{len(lines)} rows of {facts['rows']}")
    more = _since_it_watches(facts) if "watched" in facts else {}
    rows, warm_up = [_row(line) for line in lines], int(more.pop("warm_up", 0))
    return LoadResult(
        base_url=facts["base_url"],
        model=facts["model"],
        concurrency=facts["concurrency"],
        started_at=told.started_at,
        elapsed_s=facts["elapsed_s"],
        lag_max_s=facts["lag_max_s"],
        rows=tuple(rows[warm_up:]),
        warm_up=tuple(rows[:warm_up]),
        **more,
    )


def _since_it_watches(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts that loads have since their client watches itself."""
    watched = facts["watched"]
    return {
        "warm_up": facts["warm_up"],
        "warm_up_s": facts["warm_up_s"],
        "held_back": facts["held_back"],
        "unsent": facts["unsent"],
        "watched": None if watched is None else Watched(**watched),
    }


def _row(line: dict[str, Any]) -> Row:
    return Row(
        **{
            **line,
            "sent_at": datetime.datetime.fromisoformat(line["sent_at"]),
            "token_times_s": tuple(line["token_times_s"]),
            "failure": None if line["failure"] is None else Failure(line["failure"]),
        }
    )
