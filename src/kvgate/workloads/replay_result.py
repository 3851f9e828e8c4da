"""What a replay's lines say, as types: levels with their rates, times, CPU, and proof of cold."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from kvgate.errors import NotRunError, ParseError
from kvgate.judge.percentile import SampleTooSmallError, least_sample, percentile, rank
from kvgate.model.quantity import Quantity
from kvgate.model.record import Reading
from kvgate.untrusted import plain
from kvgate.workloads.replay_hist import Histogram
from kvgate.workloads.replay_lines import Line, line_of

COLD_LEAST = 0.98
"""What the device and this process must have read of what was delivered, at least."""

OTHERS_MOST = 1.10
"""Above so much of what was delivered, others have read from the device too."""


@dataclasses.dataclass(frozen=True, slots=True)
class Level:
    """One level of a replay; ``line`` is what the host said of it."""

    line: Line

    @property
    def phase(self) -> str:
        """Return store, restore, mixed, fill, filled, until_full, …."""
        return str(self.line["phase"])

    @property
    def seconds(self) -> float:
        """Return the wall time from the first session's start to the last one's end."""
        return float(self.line["seconds"])

    def rate(self, what: str) -> float | None:
        """Return bytes a second ``read`` or ``written``; None where nothing was."""
        count = int(self.line[f"bytes_{what}"])
        return count / self.seconds if count and self.seconds > 0 else None

    def times(self, what: str = "restored") -> list[float]:
        """Return each session's seconds, rising: from when it was due to its last chunk."""
        return sorted(float(seconds) for _, seconds in self.line[what])

    def time(self, pct: float, what: str = "restored") -> float | None:
        """Return the nearest-rank percentile of the sessions' seconds; None where they are few."""
        try:
            return percentile(self.times(what), pct)
        except SampleTooSmallError:
            return None

    def chunk_s(self, pct: float, what: str = "reads") -> float | None:
        """Return a percentile of the chunks' seconds, to 0.8 %."""
        found = Histogram((int(low), int(count)) for low, count in self.line[what])
        total = found.total
        return found.at(rank(total, pct)) / 1e9 if total >= least_sample(pct) else None

    @property
    def moved(self) -> int:
        """Return the bytes read and written."""
        return int(self.line["bytes_read"]) + int(self.line["bytes_written"])

    def cpu_per_gb(self, what: str = "cpu_s") -> float | None:
        """Return CPU seconds a GB: of all (cpu_s), checks (check_cpu_s) or content."""
        return float(self.line[what]) / (self.moved / 1e9) if self.moved else None

    @property
    def cold_share(self) -> float | None:
        """Return which part of what was delivered storage gave; None where nobody counted."""
        delivered, device = int(self.line["bytes_read"]), int(self.line["device_read"])
        process = int(self.line["process_read"])
        if not delivered or device < 0:
            return None
        return min([device, *([process] if process >= 0 else [])]) / delivered

    @property
    def not_cold(self) -> str:
        """Return why the level's reads are not proven cold; "" where they are."""
        if not int(self.line["bytes_read"]):
            return "nothing was restored"
        share = self.cold_share
        if share is None:
            return "no block device below counts bytes: that reads were cold is not proven"
        if share < COLD_LEAST:
            return f"storage gave only {100 * share:.1f} % of the bytes delivered: not cold"
        return ""

    @property
    def disturbed(self) -> str:
        """Return that others read from the device meanwhile; "" where nobody did, or who knows."""
        share = self.device_share
        if share is None or share <= OTHERS_MOST:
            return ""
        return f"the device gave {100 * share:.0f} % of the bytes delivered: others read too"

    @property
    def device_share(self) -> float | None:
        """Return the bytes counted at the device over those delivered; None: nobody counted."""
        delivered, device = int(self.line["bytes_read"]), int(self.line["device_read"])
        return device / delivered if delivered and device >= 0 else None

    @property
    def name(self) -> str:
        """Return the level as people call it: ``restore, 8 sessions at once, 4 readers``."""
        line = self.line
        readers = int(line["readers"])
        how = "serial" if readers == 1 else f"parallel:{readers}"
        full = f" at {line['pct']} % full" if line["pct"] else ""
        return f"{self.phase}{full}, {line['concurrency']} at once, {how}"


@dataclasses.dataclass(frozen=True, slots=True)
class Replayed:
    """All that one host said of a replay, in order."""

    host: str
    begin: Line
    levels: tuple[Level, ...]
    plants: Line | None
    full: Line | None
    whole: bool  # it came to its end

    @property
    def problems(self) -> tuple[str, ...]:
        """Return what makes nothing of it count: the path was lost, or it did not end."""
        lost = [str(each.line["lost"]) for each in self.levels if each.line["lost"]]
        if not lost and not self.whole:
            lost = ["the replay ended before it was done"]
        full = sum(int(each.line["full"]) for each in self.levels if each.phase in _MUST_FIT)
        if full:
            lost.append(f"{full} sessions were not stored: no space was left on the file system")
        return tuple(f"{self.host}: {each}" for each in lost)

    def of_phase(self, *phases: str) -> tuple[Level, ...]:
        """Return the levels of these phases."""
        return tuple(each for each in self.levels if each.phase in phases)

    @property
    def missed(self) -> int:
        """Return how many planted faults were not found, or not named as what they are.

        What was found beyond them counts too.
        """
        if self.plants is None:
            return 0
        rows: Sequence[Sequence[str]] = self.plants["rows"]
        others = abs(int(self.plants["others"]))
        return others + sum(kind != named for kind, _, _, named in rows)

    @property
    def damages(self) -> list[str]:
        """Return what came back wrong, without what was planted; the first of each level."""
        found = []
        for level in self.levels:
            if level.phase != "planted":
                for session, place, _, told in level.line["damages"]:
                    found.append(f"{level.name}: session {session}, chunk {place}: {told}")
        return found

    @property
    def damaged(self) -> int:
        """Return how many chunks came back wrong, without what was planted."""
        return sum(int(e.line["damaged"]) for e in self.levels if e.phase != "planted")


_MUST_FIT = ("store", "mixed", "fill", "filled")


def parsed(host: str, stdout: bytes) -> Replayed:
    """Return what a host's lines say; raises ParseError, and NotRunError where it was refused."""
    begin: Line | None = None
    levels, plants, full, whole = [], None, None, False
    for text in filter(None, stdout.decode("utf-8", "replace").split("\n")):
        line = line_of(host, text)
        if "refused" in line:
            raise NotRunError((f"{host}: {plain(line['refused'])}",), hint=plain(line["hint"]))
        if "begin" in line:
            begin = line
        elif line.get("phase") == "plants":
            plants = line
        elif line.get("phase") == "full":
            full = line
        elif "seconds" in line:
            levels.append(Level(line))
        whole = whole or "end" in line
    if begin is None:
        raise ParseError(f"{host}: the replay said nothing")
    return Replayed(host, begin, tuple(levels), plants, full, whole)


def readings(level: Level) -> Iterator[Reading]:
    """Yield the readings of a level of restores (and of stores, where it has any)."""
    cold = level.not_cold if level.phase in ("restore", "filled") else ""
    yield _reading("replay.restore_bw", level.rate("read"), "B/s", cold)
    yield _reading("replay.restore_time", level.time(50), "s", cold)
    yield _reading("replay.restore_time_p90", level.time(90), "s", cold)
    yield _reading("replay.chunk_p50", level.chunk_s(50), "s", cold)
    yield _reading("replay.chunk_p99", level.chunk_s(99), "s", cold)
    yield _reading("replay.cpu_per_gb", level.cpu_per_gb(), "s", "")
    share = level.cold_share
    why = "" if share is not None else level.not_cold
    yield _reading("replay.cold_share", None if share is None else 100 * share, "%", why)
    device = level.device_share
    why = "" if device is not None else level.not_cold
    yield _reading("replay.device_share", None if device is None else 100 * device, "%", why)
    yield Reading(name="replay.damaged", value=Quantity.of(int(level.line["damaged"]), ""))


def stored_readings(level: Level) -> Iterator[Reading]:
    """Yield the readings of a level that stores: rate, and bytes by who counts them."""
    line = level.line
    yield _reading("replay.store_bw", level.rate("written"), "B/s", "")
    yield _reading("replay.stored_bytes", int(line["bytes_written"]), "B", "")
    yield _reading("replay.allocated_bytes", int(line["allocated"]), "B", "")
    device = int(line["device_written"])
    why = "" if device >= 0 else "no block device below counts bytes"
    yield _reading("replay.device_bytes", device if device >= 0 else None, "B", why)


def _reading(name: str, value: float | None, unit: str, problem: str) -> Reading:
    if value is None or problem:
        return Reading(name=name, value=None, problem=problem or "nothing of it was done")
    number: float | str = value if isinstance(value, int) else f"{value:.6g}"
    return Reading(name=name, value=Quantity.of(number, unit))


def missed_plants(found: Replayed) -> tuple[Reading, ...]:
    """Return how many planted faults were missed."""
    name = "replay.plants_missed"
    if found.plants is None:
        return (Reading(name=name, value=None, problem="nothing was planted"),)
    return (Reading(name=name, value=Quantity.of(found.missed, "")),)
