"""`nvme self-test-log`: is a self-test running, and how the last ones ended (log page 06h)."""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import Any

from kvgate.parse.ending import reads
from kvgate.parse.text import json_object, refuse
from kvgate.parse.typed import count, rows

TOOL = "nvme self-test-log"
NEVER = 0xF
"""The result of an entry that holds no self-test (NVMe Base Specification, log page 06h)."""

RESULTS = {
    0: "completed without error",
    1: "aborted by a self-test command",
    2: "aborted by a controller reset",
    3: "aborted as a namespace was removed",
    4: "aborted by a format command",
    5: "ended by a fatal or unknown error",
    6: "a segment failed, it is not known which",
    7: "segments failed, the first is told",
    8: "aborted for an unknown reason",
    9: "aborted by a sanitize operation",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One self-test. ``result`` as in `RESULTS`; ``kind`` 1 short, 2 extended, 14 vendor's."""

    result: int
    kind: int | None
    power_on_hours: int | None

    @property
    def passed(self) -> bool:
        """Tell whether it completed without error."""
        return self.result == 0

    @property
    def text(self) -> str:
        """Return the result in words."""
        return RESULTS.get(self.result, f"reserved result {self.result}")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SelfTestLog:
    """The log. ``running``: 0 none, 1 short, 2 extended; ``done_pct`` of the running one."""

    running: int
    done_pct: int | None
    entries: tuple[Entry, ...]  # newest first


def self_test_log(answer: bytes) -> SelfTestLog:
    """Parse ``nvme self-test-log -o json`` (1.x, 2.x: keys differ in blanks and case)."""
    told = {_key(name): value for name, value in json_object(answer, TOOL).items()}
    running = count(told.get("currentdeviceselftestoperation"), TOOL, "current operation")
    if running is None:
        refuse(TOOL, "it does not tell the current operation")
    listed = rows(told.get("listofvalidreports", []), TOOL, "reports")
    entries = tuple(_entry(index, row) for index, row in enumerate(listed))
    return SelfTestLog(
        running=running & 0xF,
        done_pct=count(told.get("currentdeviceselftestcompletion"), TOOL, "completion"),
        entries=tuple(each for each in entries if each.result != NEVER),
    )


@functools.lru_cache(maxsize=64)  # names are few, and the same in every report
def _key(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())


def _entry(index: int, row: dict[str, Any]) -> Entry:
    told = dict(zip(map(_key, row), row.values(), strict=True))
    result = count(told.get("selftestresult"), TOOL, f"result {index}")
    if result is None:
        refuse(TOOL, f"report {index} tells no result")
    return Entry(
        result=result & 0xF,
        kind=count(told.get("selftestcode"), TOOL, f"code {index}"),
        power_on_hours=count(told.get("poweronhourspoh", told.get("poweronhours")), TOOL, "hours"),
    )


TOOLS = {"nvme_self_test_log": reads(TOOL, self_test_log)}
