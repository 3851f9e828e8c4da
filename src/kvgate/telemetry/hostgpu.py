"""What amd-smi tells of GPUs while it watches: one process, its output read as it comes.

A part of the sampler (`telemetry.source`): standard library only, Python 3.8. Versions differ in
options, forms and columns, so forms are tried one after the other until one tells rows, and a
column is named as the tool names it. Every number is kept to a thousandth; N/A is a missing value.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kvgate.telemetry.hostread import FINITE  # joined by `source`

if TYPE_CHECKING:
    from kvgate.telemetry.hostread import Values

FORMS = (
    ("--csv", "-p", "-t", "-u", "-m", "-e", "-v", "-r"),
    ("--csv",),
    ("--json",),
    (),  # a table for people
)
LONGEST_LINE = 65536
MOST_JSON = 1 << 20
MOST_A_TICK = 1 << 20  # bytes: more is no monitor, and it is ended
MOST_SERIES = 1500
MOST_GPUS, MOST_COLUMNS = 256, 100
SILENT_S = 30.0  # amd-smi takes seconds to begin where there are many GPUs
WELL_S = 60.0
MOST_WAIT_S = 60.0
NUMBER = re.compile(r"([-+]?\d{1,18}(?:\.\d{1,9})?|N/A)(?: ?([^\d\s/,.][^\s,]{0,9}))?")
UNITS = {"%": "pct", "\N{DEGREE SIGN}C": "c", "C": "c"}
BLANK = re.compile(r"[^a-z0-9_%]+")
APART = re.compile(r"\s{2,}|\t+")
OTHERS = frozenset(("pid", "name"))  # columns of a table of processes, which follows that of GPUs


class Rows:
    """Makes samples of lines in whichever form they come: a CSV, a table, or JSON.

    A sample is over when its header comes again, a GPU comes again, or its JSON ends.
    """

    def __init__(self) -> None:
        self.columns: list[str] = []
        self.commas = False
        self.units: dict[str, str] = {}
        self.held: dict[str, dict[str, str]] = {}
        self.json: list[str] = []
        self.json_size = 0
        self.odd = ""  # the last line that was no row: why a tool ended, maybe

    def line(self, text: str) -> Iterator[Values]:
        """Take a line; yield the samples that are whole by it."""
        text = text.lstrip("\ufeff").rstrip()
        if self.json or text[:1] in ("[", "{"):
            yield from self._json(text)
            return
        words = self._words(text)
        lower = [BLANK.sub("_", word.strip().lower()).strip("_") for word in words]
        if len(words) > 1 and "gpu" in lower[:2] and ("," in text or text.isupper()):
            yield from self._whole()
            self.columns = [] if OTHERS & set(lower) or len(lower) > MOST_COLUMNS else lower
            self.commas = "," in text
        elif self.columns and len(words) == len(self.columns):
            yield from self._row({name: words[at] for at, name in enumerate(self.columns)})
        elif text:
            self.odd = text[:200]

    def _words(self, text: str) -> list[str]:
        if "," in text and (self.commas or not self.columns):
            return next(csv.reader([text]), [])
        words = APART.split(text.strip())
        return text.split() if len(words) == 1 else words

    def _row(self, row: dict[str, str]) -> Iterator[Values]:
        gpu, part = row.pop("gpu").strip(), row.pop("xcp", "").strip()
        row.pop("timestamp", None)
        if not gpu.isdigit() or len(gpu) > 4:
            return
        key = gpu + (".xcp" + part if part.isdigit() and len(part) < 4 else "")
        if key in self.held or len(self.held) >= MOST_GPUS:
            yield from self._whole()
        self.held[key] = row

    def _json(self, text: str) -> Iterator[Values]:
        self.json.append(text)
        self.json_size += len(text)
        ends = text[-1:] in ("]", "}") and (len(self.json) == 1 or text[:1] in ("]", "}"))
        if not ends and self.json_size < MOST_JSON:
            return
        whole, self.json, self.json_size = "\n".join(self.json), [], 0
        try:
            told = json.loads(whole)
        except (ValueError, RecursionError):
            self.odd = whole[:200]
            return
        rows = told.get("gpu_data", [told]) if isinstance(told, dict) else told
        for row in rows if isinstance(rows, list) else []:
            if isinstance(row, dict) and "gpu" in row:
                yield from self._row(dict(flat(row, "")))
        yield from self._whole()

    def _whole(self) -> Iterator[Values]:
        """Yield what is held as a sample."""
        held, self.held = self.held, {}
        found: Values = {}
        for key, row in held.items():
            for column, text in row.items():
                if column and len(found) < MOST_SERIES:
                    name, value = self._value(column, text.strip())
                    found["amdsmi." + key + "." + name] = ("l1000", value)
        if any(value is not None for _, value in found.values()):
            yield found

    def _value(self, column: str, text: str) -> tuple[str, int | None]:
        """Return the column's name with its unit, if there ever was one, and its thousandths."""
        match = NUMBER.fullmatch(text)
        if match is not None and match.group(2):
            unit = UNITS.get(match.group(2), match.group(2).lower())
            self.units[column] = "_" + BLANK.sub("_", unit)
        number = None
        if match is not None and match.group(1) != "N/A":
            number = round(float(match.group(1)) * 1000)
        fits = number is not None and abs(number) < FINITE
        return column[:60] + self.units.get(column, ""), number if fits else None


def flat(node: dict[str, Any], at: str, deep: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the values of amd-smi's JSON by where they stand; ``{value, unit}`` is one."""
    for key, inner in node.items():
        name = at + BLANK.sub("_", str(key).lower())
        if isinstance(inner, dict) and set(inner) == {"value", "unit"}:
            yield name, "{} {}".format(inner["value"], inner["unit"]).strip()
        elif isinstance(inner, dict) and deep < 4:
            yield from flat(inner, name + "_", deep + 1)
        elif isinstance(inner, (int, float, str)) and not isinstance(inner, bool):
            yield name, str(inner)


class Monitor:
    """Keeps one amd-smi that watches; it is started again when it ends, ever more seldom.

    `read` is called when there is something to read and at each tick. What happens to the tool is
    told in ``events``: that it ended, and that it is given up, as no form of it tells anything.
    """

    def __init__(self, every_s: float) -> None:
        self.watch = str(max(1, round(every_s)))
        self.child: subprocess.Popen[bytes] | None = None
        self.form = 0
        self.events: list[str] = []
        self.why = "" if shutil.which("amd-smi") else "not installed"
        self.due = self.began = self.heard = 0.0
        self.wait = 1.0
        self.told = self.tick_bytes = 0
        self.works = False  # this form has told something: another will not do better
        self.rest = b""
        self.rows = Rows()

    def fd(self) -> int | None:
        """Return what to wait for, if it runs."""
        return (
            None if self.child is None or self.child.stdout is None else self.child.stdout.fileno()
        )

    def tend(self) -> None:
        """Start it where it is due, and end it where it is silent; at each tick."""
        self.tick_bytes = 0
        now = time.monotonic()
        if self.child is None and not self.why and now >= self.due:
            self._start(now)
        elif self.child is not None and now - self.heard > SILENT_S:
            self._ended(f"was silent for {now - self.heard:.0f} s")

    def _start(self, now: float) -> None:
        argv = ["amd-smi", "monitor", "-w", self.watch, *FORMS[self.form]]
        self.rows, self.rest, self.told = Rows(), b"", 0
        self.began = self.heard = now
        try:
            self.child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=dict(os.environ, PYTHONUNBUFFERED="1", LC_ALL="C.UTF-8"),
            )
        except OSError as err:
            self._ended(f"can't be started: {err.strerror}")
            return
        os.set_blocking(self.child.stdout.fileno(), False)  # type: ignore[union-attr]

    def read(self) -> Iterator[Values]:
        """Yield the samples that have come by now; never waits."""
        fd = self.fd()
        while fd is not None and self.child is not None:
            try:
                piece = os.read(fd, 65536)
            except BlockingIOError:
                return
            if not piece:
                self._ended("ended")
                return
            self.tick_bytes += len(piece)
            *lines, self.rest = (self.rest + piece).split(b"\n")
            for line in lines:
                for sample in self.rows.line(line.decode("utf-8", "replace")):
                    self.told, self.heard, self.works = self.told + 1, time.monotonic(), True
                    yield sample
            if len(self.rest) > LONGEST_LINE or self.tick_bytes > MOST_A_TICK:
                self._ended("prints without end")

    def cpu_us(self) -> int | None:
        """Return the CPU time that the running tool has used."""
        try:
            with open(f"/proc/{self.child.pid if self.child else 0}/stat") as file:
                words = file.read().rpartition(")")[2].split()
        except OSError:
            return None
        return (int(words[11]) + int(words[12])) * 1000000 // os.sysconf("SC_CLK_TCK")

    def _ended(self, how: str) -> None:
        """Take it that it ended, or end it; the next start is later each time it was not well."""
        status = self.stop()
        now = time.monotonic()
        if not self.works:
            self.form += 1
        well = now - self.began >= WELL_S and self.told
        self.wait = 1.0 if well else min(2 * self.wait, MOST_WAIT_S)
        self.due = now + self.wait
        said = "; it said: " + self.rows.odd if self.rows.odd else ""
        text = f"amd-smi {how} after {self.told} samples{status}{said}"
        if self.form == len(FORMS):
            self.form, self.why = 0, "no form of its monitor tells anything"
            text += "; given up: " + self.why
        else:
            text += f"; started again in {self.wait:.0f} s"
        self.events.append(text)

    def stop(self) -> str:
        """End it; return how it had ended by itself, if so."""
        child, self.child = self.child, None
        if child is None:
            return ""
        try:
            status = child.wait(0.05)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            status = None
        if child.stdout is not None:
            child.stdout.close()
        return "" if status is None else f" with status {status}"
