"""Checks a run's folder of telemetry: logs by their own chain, other files by the journal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from kvgate.errors import StoreError
from kvgate.store import disk
from kvgate.store.layout import SERIES
from kvgate.store.sums import hash_file
from kvgate.store.telemetry_log import LogWalk
from kvgate.store.verification import Problem

BOUND = "telemetry_file"
"""The kind of the journal records that bind the SHA-256 of a file of telemetry."""


def check_series(
    run: Path, files: Mapping[str, int], bound: Mapping[str, str]
) -> Iterator[Problem]:
    """Yield what is wrong with the telemetry of `run`; `bound` maps names to SHA-256 digests.

    The end of a log that a crash cut short is no problem: nothing behind it was acknowledged. What
    was being made of a log that is still there is none either.
    """
    there = [name for name in files if name.startswith(f"{SERIES}/")]
    logs = {name[: -len(".log")] for name in there if name.endswith(".log")}
    for name in there:
        stem = name.partition(".")[0]
        leaf = name.rpartition("/")[2]
        if name.endswith(".log"):
            yield from _log(run, name)
        elif name in bound:
            if (actual := hash_file(run / name)) != bound[name]:
                detail = f"SHA-256 is {actual}; the journal binds {bound[name]}"
                yield Problem(name, "altered", detail)
        elif stem not in logs and not (leaf.startswith(disk.TEMPORARY) and logs):
            yield Problem(name, "added", "the journal binds no such file of telemetry")
    for name in bound.keys() - files.keys():
        if name.partition(".")[0] not in logs:
            yield Problem(name, "missing", "the journal binds it")


def _log(run: Path, name: str) -> Iterator[Problem]:
    walk = LogWalk(run / name)
    try:
        for _ in walk:
            pass
    except StoreError as err:
        yield Problem(name, "altered", err.message)
    else:
        if walk.torn and not walk.cut_short:
            yield Problem(name, "altered", f"byte {walk.end}: {walk.torn}")
