"""The scanner as a program of its own: lines of JSON on standard output, the result the last."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from kvgate.workloads.scanner.course import Settings
from kvgate.workloads.scanner.engine import Asked, Progress, jobs_of, scan
from kvgate.workloads.scanner.errors import ScanError
from kvgate.workloads.scanner.frames import serve
from kvgate.workloads.scanner.pool import Processes

if TYPE_CHECKING:
    from collections.abc import Sequence

REFUSED = 65
"""Exit status for what can't be scanned; its reason is in the last line of standard output."""


def main(words: Sequence[str] | None = None) -> int:
    """Scan what the JSON object ``words[0]`` asks for, or be a worker (``--worker SETTINGS``)."""
    argv = sys.argv[1:] if words is None else words
    if argv[0] == "--worker":
        settings = Settings.from_json(json.loads(argv[1]))
        serve(sys.stdin.buffer, sys.stdout.buffer, settings)
        return 0
    asked = Asked(**json.loads(argv[0]))
    try:
        _say({"result": scan_here(asked, [sys.executable, *_flags(), sys.argv[0]])})
    except ScanError as err:
        _say({"error": err.message, "hint": err.hint})
        return REFUSED
    return 0


def scan_here(asked: Asked, entry: Sequence[str], told: Any = None) -> dict[str, Any]:
    """Scan with worker processes that `entry` starts; raises ScanError."""
    jobs = jobs_of(asked)

    def pool(settings: Settings) -> Processes:
        return Processes(entry, jobs, settings)

    return scan(asked, pool, told or _progress)


def _flags() -> list[str]:
    """Return the options that workers need to find the same libraries as we do."""
    return ["-I"] * sys.flags.isolated + ["-S"] * sys.flags.no_site


def _progress(progress: Progress) -> None:
    _say({"progress": progress})


def _say(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
