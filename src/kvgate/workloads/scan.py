"""`kvgate scan`: the scanner as processes of this machine, or as one file sent to a host."""

from __future__ import annotations

import dataclasses
import importlib.resources
import json
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from kvgate.errors import CommandError, KvgateError, ParseError, UsageError
from kvgate.witness import Witness
from kvgate.workloads.host_runner import HostRunner
from kvgate.workloads.scanner.engine import Asked, Progress
from kvgate.workloads.scanner.errors import ScanError
from kvgate.workloads.scanner.main import REFUSED, scan_here
from kvgate.workloads.scanner.result import FORMAT
from kvgate.workloads.travel import program_of, travelled

PACKAGE = "kvgate.workloads.scanner"
_DEADLINE_S = 14 * 86400.0

Told = Callable[[Progress], None]


def program() -> bytes:
    """Return the scanner as one file that Python >= 3.8 runs; the same bytes each time."""
    modules = {
        f"{PACKAGE}.{each.name.removesuffix('.py')}": each.read_bytes()
        for each in importlib.resources.files(PACKAGE).iterdir()
        if each.name.endswith(".py") and each.name != "__init__.py"
    }
    return program_of(modules, f"{PACKAGE}.main")


def scan(asked: Asked, told: Told) -> dict[str, Any]:
    """Scan folders here and return the result document; raises UsageError for what can't be."""
    try:
        return scan_here(asked, [sys.executable, "-m", f"{PACKAGE}.main"], told)
    except ScanError as err:
        raise UsageError(err.message, hint=err.hint) from err


def scan_on(witness: Witness, asked: Asked, told: Told) -> dict[str, Any]:
    """Scan folders of a host and return the result document; nothing is left there.

    A state file, where one is asked for, is a file of that host and stays. Raises NotRunError (no
    scratch folder, no Python), UsageError (paths that can't be), CommandError, ParseError.
    """
    host = witness.host.name
    with travelled(witness, program(), name="scan.pyz", purpose="scan") as there:
        heard = _Lines(told)
        words = [there.python, there.path, json.dumps(asked._asdict())]
        running = HostRunner(witness).start(words, deadline_s=_DEADLINE_S, on_stdout=heard.take)
        try:
            while (ended := running.wait(3600)) is None:
                pass
        except BaseException:
            running.stop()
            raise
        last = heard.last()
        if ended.exit_status == REFUSED and "error" in last:
            raise UsageError(f"{host}: {last['error']}", hint=str(last.get("hint", "")))
        if ended.exit_status != 0:
            complaint = ended.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
            raise CommandError(
                host, f"the scanner ended with {ended.exit_status}: {' '.join(complaint)[:300]}"
            )
        return checked(host, last.get("result"))


def checked(where: str, document: object) -> dict[str, Any]:
    """Return a result document of the format that is known; raises ParseError."""
    if not isinstance(document, dict) or document.get("scan_format") != FORMAT:
        raise ParseError(f"{where}: the scanner's answer is no result of format {FORMAT}")
    return document


class _Lines:
    """Takes the scanner's output as it comes: tells progress, keeps the last line."""

    def __init__(self, told: Told) -> None:
        self._told = told
        self._lock = threading.Lock()
        self._open = b""
        self._last = b""

    def take(self, piece: bytes) -> None:
        with self._lock:
            *lines, self._open = (self._open + piece).split(b"\n")
            for line in filter(None, lines):
                self._last = line
                self._progress(line)

    def _progress(self, line: bytes) -> None:
        if not line.startswith(b'{"progress": [') or len(line) > 500:
            return
        try:
            files, done, total, elapsed = json.loads(line)["progress"]
            self._told(Progress(int(files), int(done), int(total), float(elapsed)))
        except (ValueError, TypeError):
            return  # only for eyes

    def last(self) -> Mapping[str, Any]:
        """Return the last line's object; empty where it is none."""
        with self._lock:
            try:
                found = json.loads(self._last)
            except ValueError:
                return {}
        return found if isinstance(found, dict) else {}


@dataclasses.dataclass(frozen=True, slots=True)
class Scanned:
    """What a place gave: a result document, or why there is none."""

    where: str
    document: dict[str, Any] | None
    problem: KvgateError | None = None
