"""Long diagnostics of the makers: started, watched, cancelled, judged by their own words.

rvs and agfhc levels for GPUs, stressapptest for memory (`drive_test` has the drives' own). They
load the hardware, so they are no probes. One call is one block of a suite: what was cut short
counts for nothing and is run again when the run goes on.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from kvgate.errors import HarnessError, NotRunError, ParseError
from kvgate.model.quantity import Quantity
from kvgate.model.record import EvidenceRef, Reading
from kvgate.spec.diagnostics import AgfhcRecipe, DiagnosticsWorkload, MemoryTest, RvsLevel
from kvgate.spec.inventory import Host
from kvgate.transport.base import CommandResult
from kvgate.witness import Answer, Witness, as_evidence
from kvgate.workloads.base import Estimate, OnProgress

Around = Callable[[], AbstractContextManager[object]]
"""Makes the context in which the tool works (``bench.child``)."""

PLAIN = {"LC_ALL": "C"}
_ASK_S = 20.0
_WATCH_S = 1.0
_LOOK_S = 0.1
_GRACE_S = 10.0
_FREE = ("cat", "/proc/meminfo")
_AVAILABLE = re.compile(rb"^MemAvailable: {1,20}([0-9]{1,15}) kB$", re.MULTILINE)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a tool's own words say. ``passed`` None: neither its pass nor its fail was said."""

    passed: bool | None
    findings: tuple[str, ...]  # the lines that say what failed, at most `MOST_FINDINGS`


MOST_FINDINGS = 20
Read = Callable[[CommandResult], Outcome]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """A diagnostic: its command, how long it takes, and what it says when all is well.

    ``needs`` is the tool that must be there, ``package`` where it comes from, ``mebibytes`` how
    much memory it takes.
    """

    name: str  # "rvs.level-4"
    argv: tuple[str, ...]
    needs: str
    package: str
    seconds: float
    read: Read
    mebibytes: int = 0

    @property
    def deadline_s(self) -> float:
        """Return after what time it hangs."""
        return given_up_after_s(self.seconds)


def given_up_after_s(seconds: float) -> float:
    """Return after what time something hangs that should take `seconds`."""
    return 3 * seconds + 600


# what the tools say

_RVS_FAILS = re.compile(
    r"met:\s*(?i:FALSE)|pass:\s*(?i:FALSE)|\[ERROR\s*\]|\b(?:FAIL|FAILED|FAILURE)\b|\bCouldn't\b"
)
_RVS_PASSES = re.compile(r"met:\s*TRUE|pass:\s*TRUE", re.IGNORECASE)
_AGFHC_PASS = "code AGFHC_SUCCESS"  # noqa: S105  no password
_AGFHC_FAILS = re.compile(r"FAIL|ERROR|ABORT")
_STRESS = re.compile(r"^Status: (PASS|FAIL)\b", re.MULTILINE)
_STRESS_FINDINGS = re.compile(r"miscompare|hardware incident|error", re.IGNORECASE)


def rvs_outcome(result: CommandResult) -> Outcome:
    """Read rvs: passed if an action met its target, none failed, and it exited 0."""
    text = _text(result)
    bad = _lines(text, _RVS_FAILS)
    good = bool(_RVS_PASSES.search(text))
    return _outcome(result, bad=bad, good=good)


def agfhc_outcome(result: CommandResult) -> Outcome:
    """Read agfhc: passed by ``code AGFHC_SUCCESS`` with no FAIL, ERROR or ABORT anywhere."""
    text = _text(result)
    return _outcome(result, bad=_lines(text, _AGFHC_FAILS), good=_AGFHC_PASS in text)


def stress_outcome(result: CommandResult) -> Outcome:
    """Read stressapptest: its last word is ``Status: PASS`` or ``Status: FAIL``."""
    text = _text(result)
    said = _STRESS.findall(text)
    bad = _lines(text, _STRESS_FINDINGS) if "FAIL" in said else ()
    found = _outcome(result, bad=bad, good="PASS" in said)
    return dataclasses.replace(found, passed=False) if "FAIL" in said else found


def _text(result: CommandResult) -> str:
    return (result.stdout + b"\n" + result.stderr).decode("utf-8", "replace")


def _lines(text: str, bad: re.Pattern[str]) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.splitlines() if bad.search(line))


def _outcome(result: CommandResult, *, bad: tuple[str, ...], good: bool) -> Outcome:
    if bad:
        return Outcome(passed=False, findings=bad[:MOST_FINDINGS])
    if not result.ok:
        return Outcome(passed=None, findings=(result.describe(),))
    return Outcome(passed=True if good else None, findings=())


# which diagnostics there are


def rvs(asked: RvsLevel) -> Diagnostic:
    """Return ROCm Validation Suite at a level (``rvs -r``), 1 quick to 5 thorough."""
    return Diagnostic(
        name=f"rvs.{asked.part}",
        argv=("rvs", "-r", str(asked.level)),
        needs="rvs",
        package="rocm-validation-suite",
        seconds=asked.duration.to("s"),
        read=rvs_outcome,
    )


def agfhc(asked: AgfhcRecipe) -> Diagnostic:
    """Return AMD's field health check with a recipe: ``all_lvl1``, ``hbm_lvl5``, ``xgmi_lvl1``."""
    return Diagnostic(
        name=f"agfhc.{asked.part}",
        argv=("agfhc", "-r", asked.recipe),
        needs="agfhc",
        package="agfhc, from AMD",
        seconds=asked.duration.to("s"),
        read=agfhc_outcome,
    )


def memory_test(asked: MemoryTest) -> Diagnostic:
    """Return stressapptest on a piece of memory for a time."""
    seconds = math.ceil(asked.duration.to("s"))
    return Diagnostic(
        name=f"memory.{asked.part}",
        argv=("stressapptest", "-W", "-s", str(seconds), "-M", str(asked.mebibytes)),
        needs="stressapptest",
        package="stressapptest",
        seconds=seconds,
        read=stress_outcome,
        mebibytes=asked.mebibytes,
    )


def of_plan(asked: DiagnosticsWorkload, tool: str) -> dict[str, Diagnostic]:
    """Return the diagnostics of `tool` (rvs, agfhc, memory) that a plan asks for, by their part."""
    found: dict[str, dict[str, Diagnostic]] = {
        "rvs": {each.part: rvs(each) for each in asked.rvs},
        "agfhc": {each.part: agfhc(each) for each in asked.agfhc},
        "memory": {each.part: memory_test(each) for each in asked.memory},
    }
    return found[tool]


def estimate(asked: DiagnosticsWorkload) -> Estimate:
    """Return what a plan's diagnostics take: hosts and drives at once, all else in turn.

    They write nothing to file systems.
    """
    return Estimate(sum(seconds for _, seconds in durations(asked)), 0)


def durations(asked: DiagnosticsWorkload) -> tuple[tuple[str, float], ...]:
    """Return every part that a plan asks for (``rvs level-4``), and how many seconds it takes."""
    found = [("rvs", each.part, each.duration) for each in asked.rvs]
    found += [("agfhc", each.part, each.duration) for each in asked.agfhc]
    found += [("memory", each.part, each.duration) for each in asked.memory]
    found += [("nvme self-test", each.part, each.duration) for each in asked.nvme_self_test]
    return tuple((f"{tool} {part}", duration.to("s")) for tool, part, duration in found)


# running one


def run(
    witness: Witness,
    diagnostic: Diagnostic,
    *,
    on_progress: OnProgress | None = None,
    around: Around = contextlib.nullcontext,
    cancel: threading.Event | None = None,
) -> Answer:
    """Run `diagnostic` to its end and return diagnostic.passed, .findings and .seconds.

    Raises NotRunError where the tool or the memory is missing, HarnessError where it was
    cancelled (the tool is ended, and its output kept), TransportError where the host can't be
    asked. A tool that said neither that it passed nor that it failed leaves a problem.
    """
    refs = [require(witness, diagnostic.needs, diagnostic.package)]
    if diagnostic.mebibytes:
        refs.append(_require_memory(witness, diagnostic.mebibytes))
    watch = _Watch(diagnostic.name, on_progress)
    process = witness.transport.start(
        _long_as_root(witness.host, diagnostic.argv),
        deadline_s=diagnostic.deadline_s,
        on_stdout=watch.hear,
        env=PLAIN,
    )
    try:
        with around():
            for _ in _until(process.poll, cancel):
                watch.tell()
    finally:
        result = process.wait(_GRACE_S) if process.poll() else process.stop(_GRACE_S)
        refs.append(witness.keep(as_evidence(result)))
    if cancel is not None and cancel.is_set():
        raise HarnessError(f"{witness.host.name}: {diagnostic.name} was cancelled")
    return Answer(_readings(diagnostic.name, diagnostic.read(result), result), tuple(refs))


class _Watch:
    """Tells what a tool said last, and for how long it has been at it."""

    def __init__(self, name: str, on_progress: OnProgress | None) -> None:
        self._name = name
        self._on_progress = on_progress
        self._begin = time.monotonic()
        self._last = ""

    def hear(self, piece: bytes) -> None:
        """Take a piece of its stdout (from the transport's thread)."""
        words = piece.decode("utf-8", "replace").strip().splitlines()
        if words:
            self._last = words[-1][:120]

    def tell(self) -> None:
        """Tell it, if anyone wants to know."""
        if self._on_progress:
            minutes = (time.monotonic() - self._begin) / 60
            self._on_progress(f"{self._name}, {minutes:.0f} min: {self._last}")


def _readings(name: str, found: Outcome, result: CommandResult) -> tuple[Reading, ...]:
    listed = "; ".join(found.findings)[:2000]
    silent = listed or f"{name} said neither that it passed nor that it failed"
    known = found.passed is not None
    return (
        Reading(
            name="diagnostic.passed",
            value=found.passed,
            problem="" if known else silent,
        ),
        Reading(name="diagnostic.findings", value=listed or "none"),
        Reading(name="diagnostic.seconds", value=Quantity.of(round(result.elapsed_s, 1), "s")),
    )


def _until(ended: Callable[[], bool], cancel: threading.Event | None) -> Iterator[None]:
    """Yield every `_WATCH_S` until it has `ended` or `cancel` is set."""
    waiting = cancel or threading.Event()
    due = time.monotonic() + _WATCH_S
    while not ended() and not waiting.wait(_LOOK_S):
        if time.monotonic() >= due:
            due = time.monotonic() + _WATCH_S
            yield


def require(witness: Witness, tool: str, package: str) -> EvidenceRef:
    """Return the evidence that `tool` is there; raises NotRunError where it is not."""
    path = witness.host.tools.get(tool, tool)
    there = witness.ask(["sh", "-c", 'command -v "$1"', "sh", path], timeout_s=_ASK_S, env=PLAIN)
    if not there.result.ok:
        raise NotRunError(
            (f"{witness.host.name}: '{path}' is not there",),
            hint=f"install {package}, or set the tool's path under 'tools' of the host",
        )
    return there.ref


def _require_memory(witness: Witness, mebibytes: int) -> EvidenceRef:
    """Return the evidence that so much memory is free; a host driven out of memory kills others.

    Raises NotRunError where it is not.
    """
    told = witness.ask(_FREE, timeout_s=_ASK_S, env=PLAIN)
    match = _AVAILABLE.search(told.stdout)
    if not match:
        raise ParseError(f"{witness.host.name}: /proc/meminfo does not tell MemAvailable")
    available = int(match[1]) // 1024
    if mebibytes > available:
        raise NotRunError(
            (f"{witness.host.name}: {available} MiB of memory are free, not {mebibytes} MiB",),
            hint="end what runs there, or set a smaller size in workloads.diagnostics.memory",
        )
    return told.ref


# What sudo runs is root's, and out of reach of the leash, which ends its group as the login: the
# shell in between lives as long as the leash lets it, and a second one, root's, watches that one.
# $@: the tool. `kill 0` is the group: the leash's own for this command, or the one of sudo's pty.
_WATCHED = r"""
sudo -n -- sh -c '
  watched=$1
  shift
  "$@" &
  tool=$!
  while kill -0 "$tool" 2>/dev/null; do
    kill -0 "$watched" 2>/dev/null || { trap "" TERM; kill -TERM 0; sleep 2; kill -KILL 0; }
    sleep 1
  done
  wait "$tool"
' sh "$$" "$@" &
wait "$!"
"""


def _long_as_root(host: Host, argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return `argv` as `Host.as_root` does, so that a long one ends there when it is ended here."""
    path = host.tools.get(argv[0], argv[0])
    if host.sudo != "passwordless":
        return (path, *argv[1:])
    return ("sh", "-c", _WATCHED, "sh", path, *argv[1:])
