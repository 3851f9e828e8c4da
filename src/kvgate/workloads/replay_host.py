"""The program that replays KV traffic on a host: a job in, a line of JSON for each level out.

``python3 replay.pyz JOB``: JOB is JSON as `workloads.replay.Spec.job` makes it, or @FILE that holds
it. It works in ``folder``, which whoever sent it has made, marked and removes. Runs on hosts: the
standard library of Python 3.8.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvgate.kv.content import Content, maker
from kvgate.workloads.replay_crew import Crew, Outcome, Work, threads_of
from kvgate.workloads.replay_place import (
    Counted,
    Place,
    PlaceRefusedError,
    counted,
    hold,
    make_cold,
    place_of,
    refuse_buffers,
    remove_left,
)
from kvgate.workloads.replay_tier import Shape, Tier, checker, plants

if TYPE_CHECKING:
    Following = Callable[[Crew], Work | None]

GO_LOOK_S = 0.005
_SYNCING = 16  # files at once
_AHEAD = 2  # sessions under way while storing: no reader waits at a session's end


class Replay:
    """One job under way. `say` is told each line of the answer."""

    def __init__(self, job: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> None:
        self.job, self.say = job, say
        self.folder = Path(job["folder"])
        self.place: Place = place_of(self.folder, direct=job["direct"])
        most = max([job["store_readers"], *(level["readers"] for level in job["levels"])])
        refuse_buffers(threads_of(most) * job["ranks"] * job["chunk_bytes"])
        shape = Shape(
            job["places"],
            job["chunk_bytes"],
            job["block_bytes"],
            shared=job["shared"],
            extents=job["extents"],
            direct=job["direct"],
            checked=job["checked"],
            first=job["first"],
        )
        content = Content(job["seed"], compressed_pct=job["compressed_pct"])
        self.tier = Tier(self.folder, shape, content)
        self.new = 0  # the next session's number
        self._gates = 0
        self._random = random.Random(job["seed"])  # noqa: S311  reproducible, guards nothing

    def run(self) -> None:
        """Do all that the job asks for, in its order; ends early where the path is lost."""
        self.say(self._told())
        for step in self._steps():
            if step["lost"]:
                return

    def _steps(self) -> Iterator[dict[str, Any]]:
        job = self.job
        yield self._store("store", job["sessions"], sync=True)
        for number, level in enumerate(job["levels"]):
            yield self._restore(number, level)
        for pct in job["fill"]:
            yield self._filled(pct)
        if job["full"]:
            yield self._full()
        if job["plant"]:
            yield self._planted()

    def _told(self) -> dict[str, Any]:
        return {
            "begin": 1,
            "file_system": self.place.file_system,
            "source": self.place.source,
            "device": self.place.device,
            "content_by": maker(),
            "checked_by": checker() if self.job["checked"] else "nothing",
            "python": "{}.{}.{}".format(*sys.version_info[:3]),
            "removed": remove_left(self.folder),
        }

    # the phases

    def _restore(self, number: int, level: dict[str, Any]) -> dict[str, Any]:
        order = list(self.tier.sessions)
        random.Random(f"{self.job['seed']}/{number}").shuffle(order)  # noqa: S311  as above
        if level.get("arrivals"):
            works = [
                Work(order[n % len(order)], due_s=due, chunks=chunks)
                for n, (due, chunks) in enumerate(level["arrivals"])
            ]
            return self._level("restore", level, works)
        if level.get("store_pct"):
            return self._level("mixed", level, self._mixed(level["store_pct"], len(order), None))
        return self._level("restore", level, _in_order([Work(session) for session in order]))

    def _filled(self, pct: int) -> dict[str, Any]:
        """Fill the tier to `pct` % of its capacity, and use it while it evicts to stay there."""
        limit = self.job["capacity"] * pct // 100
        many = (limit - self._used()) // self.tier.session_bytes
        if many > 0:
            found = self._store("fill", many, pct=pct, sync=True)
            if found["lost"] or found["full"]:
                return found
        works = self._mixed(50, self.job["sessions"], limit)
        return self._level("filled", self.job["levels"][-1], works, pct=pct)

    def _full(self) -> dict[str, Any]:
        """Store until there is no room, evict, and see that all that is left is still right."""
        found = self._until_full()
        if not (found["lost"] or found["full"]):
            return self._say({"phase": "full", "lost": "", "reached": False})
        evicted = min(2, len(self.tier.sessions))
        for session in list(self.tier.sessions)[:evicted]:
            self.tier.evict(session)
        again = self._store("after_full", 1)
        after = self._restore_all("restore_after_full")
        recovered = bool(again["stored"]) and not after["damaged"]
        told = {"phase": "full", "reached": True, "recovered": recovered, "evicted": evicted}
        return self._say({**told, "lost": after["lost"], "free": self._free()})

    def _until_full(self) -> dict[str, Any]:
        """Store one session after the other until one finds no room, or the capacity is used."""

        def following(crew: Crew) -> Work | None:
            done = crew.total.full or self._used() >= self.job["capacity"]
            return None if done else self._another()

        level = {"concurrency": 1, "readers": self.job["store_readers"]}
        return self._level("until_full", level, following, cold=False)

    def _planted(self) -> dict[str, Any]:
        """Damage five chunks, restore everything, and tell which were found and named."""
        planted = list(plants(self.tier))
        found = self._restore_all("planted")
        named = {(each[0], each[1]): each[2] for each in found["damages"]}
        rows = [
            [kind, session, place, named.get((session, place), "")]
            for kind, session, place in planted
        ]
        return self._say(
            {
                "phase": "plants",
                "rows": rows,
                "lost": found["lost"],
                "others": found["damaged"] - len(rows),
            }
        )

    # what phases share

    def _store(self, phase: str, many: int, *, pct: int = 0, sync: bool = False) -> dict[str, Any]:
        """Store `many` new sessions; ``sync``: until the device has them."""
        works = _in_order([self._another() for _ in range(many)])
        level = {"concurrency": _AHEAD, "readers": self.job["store_readers"]}
        return self._level(phase, level, works, pct=pct, cold=False, sync=sync)

    def _another(self) -> Work:
        """Return the storing of a session that was never there."""
        self.new += 1
        return Work(self.new - 1, store=True)

    def _restore_all(self, phase: str) -> dict[str, Any]:
        """Restore every session once, in the order they were stored, as the last level reads."""
        works = _in_order([Work(session) for session in self.tier.sessions])
        return self._level(phase, self.job["levels"][-1], works)

    def _mixed(self, store_pct: int, many: int, limit: int | None) -> Following:
        """Return what draws `many` sessions, that part of them stores, evicting the oldest."""
        stores = min(many - 1, -(-many * store_pct // 100))  # at least one is restored
        kinds = [True] * stores + [False] * (many - stores)
        self._random.shuffle(kinds)

        def following(crew: Crew) -> Work | None:
            if not kinds:
                return None
            idle = [each for each in self.tier.sessions if each not in crew.busy]
            if not kinds.pop() and idle:
                return Work(self._random.choice(idle))
            while limit is not None and idle and self._used() + self.tier.session_bytes > limit:
                self.tier.evict(idle.pop(0))
                crew.evicted += 1
            return self._another()

        return following

    def _used(self) -> int:
        return len(self.tier.sessions) * self.tier.session_bytes

    def _free(self) -> int:
        return place_of(self.folder, direct=False).free_bytes

    def _level(
        self,
        phase: str,
        level: dict[str, Any],
        works: Sequence[Work] | Following,
        *,
        pct: int = 0,
        cold: bool = True,
        sync: bool = False,
    ) -> dict[str, Any]:
        """Do one level's works, counters read before and after, and say what came of it."""
        emptied = self._cold() if cold else []
        crew = Crew(self.tier, ranks=self.job["ranks"], readers=level["readers"])
        with crew:
            started = self._gate(phase)
            before = counted(self.place)
            if callable(works):
                crew.closed(works, level["concurrency"])
            else:
                crew.by_arrival(works)
            if sync and not crew.total.lost:
                self._sync()
            after = counted(self.place)
        told = {"phase": phase, "pct": pct, "cold": emptied, "started": started}
        told.update(concurrency=level["concurrency"], readers=level["readers"])
        told.update(evicted=crew.evicted, allocated=self._allocated())
        return self._say({**told, **_of_counters(before, after), **_of_outcome(crew.total)})

    def _cold(self) -> list[str]:
        files = [path for session in self.tier.sessions for path in self.tier.files(session)]
        how = make_cold(files, drop_caches=self.job["drop_caches"])
        return ["O_DIRECT", *how] if self.tier.shape.direct else how

    def _sync(self) -> None:
        """Have all that was stored on the device, whatever caches lie between.

        Files at once: a file system then waits for the medium once for many of them.
        """
        files = [path for session in list(self.tier.sessions) for path in self.tier.files(session)]
        with ThreadPoolExecutor(_SYNCING) as pool:
            for _ in pool.map(_synced, files):
                pass

    def _allocated(self) -> int:
        return sum(
            path.stat().st_blocks * 512
            for session in self.tier.sessions
            for path in self.tier.files(session)
        )

    def _gate(self, phase: str) -> float:
        """Wait for the others' start, where there are others; return when it was, by this clock."""
        if self.job["barrier_s"]:
            self._gates += 1
            self.say({"ready": self._gates, "phase": phase, "now": time.time()})
            go, until = self.folder / f"go-{self._gates}", time.monotonic() + self.job["barrier_s"]
            while not go.exists():
                if time.monotonic() > until:
                    raise PlaceRefusedError(f"nobody gave the start of '{phase}'", "run it again")
                time.sleep(GO_LOOK_S)
            at = float(go.read_text("ascii"))
            time.sleep(max(0.0, at - time.time()))
        return time.time()

    def _say(self, told: dict[str, Any]) -> dict[str, Any]:
        self.say(told)
        return told


def _in_order(works: Iterable[Work]) -> Following:
    """Return what hands over `works` one by one."""
    left = iter(works)
    return lambda _: next(left, None)


def _synced(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fdatasync(fd)
    finally:
        os.close(fd)


def _of_counters(before: Counted, after: Counted) -> dict[str, Any]:
    def more(name: str) -> int:
        first, last = getattr(before, name), getattr(after, name)
        return last - first if 0 <= first <= last else -1

    return {
        "seconds": after.wall_s - before.wall_s,
        "cpu_s": after.cpu_s - before.cpu_s,
        "device_read": more("device_read"),
        "device_written": more("device_written"),
        "process_read": more("process_read"),
    }


def _of_outcome(out: Outcome) -> dict[str, Any]:
    return {
        "restored": out.restored,
        "stored": out.stored,
        "reads": out.reads.pairs(),
        "writes": out.writes.pairs(),
        "bytes_read": out.bytes_read,
        "bytes_written": out.bytes_written,
        "checked": out.checked,
        "damaged": out.damaged,
        "damages": [list(each) for each in out.damages],
        "full": out.full,
        "lost": out.lost,
        "check_cpu_s": out.check_cpu_s,
        "make_cpu_s": out.make_cpu_s,
        "late_s": out.late_s,
    }


def main() -> int:
    """Run the job of the command line; 0: said all, 2: refused, and said why."""
    told = sys.argv[1]
    job = json.loads(Path(told[1:]).read_text("utf-8") if told.startswith("@") else told)

    def say(told: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(told, separators=(",", ":")) + "\n")
        sys.stdout.flush()

    lock = hold(Path(job["folder"]))
    try:
        Replay(job, say).run()
    except PlaceRefusedError as err:
        say({"refused": err.why, "hint": err.hint})
        return 2
    say({"end": 1, "lock": lock})
    return 0
