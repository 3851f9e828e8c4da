"""Runs a plan: one child pytest a gate, watched, until the run is judged, sealed and reported.

The children write the run (each holds its lock in turn); the supervisor only watches, and writes
between them.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from kvgate.engine import judging, soak, terminated
from kvgate.engine.countersign import controller, countersign
from kvgate.engine.finish import Render, finish_run, half_finished, show_state
from kvgate.engine.gate import finished, note_interruption, open_for_soak
from kvgate.engine.logs import make_harmless
from kvgate.engine.progress import Message, read_messages
from kvgate.engine.start import refuse_changed_suite
from kvgate.engine.workspace import Setup, Workspace, frozen_setup
from kvgate.errors import GateClosedError, KvgateError
from kvgate.model.finding import RunResult
from kvgate.model.verdict import Disposition
from kvgate.store import disk, hostlock
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter
from kvgate.transport import secret

Tell = Callable[[Message], None]

GAVE_UP = 1000
"""What `watch_child` returns where the plan's time limit ended the child."""

_GRACE_S = 45.0  # for a child to repair faults and stop engines after SIGINT


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: its folder, what was judged, and what broke it off, if anything did."""

    run: Path
    result: RunResult
    broke: str = ""

    @property
    def exit_code(self) -> int:
        """Return the promised exit code: the verdict's, or 3 where the harness broke."""
        return 3 if self.broke else self.result.verdict.exit_code


@dataclasses.dataclass(frozen=True, slots=True)
class _Ended:
    """How one gate's processes ended: ``done``, ``refused`` or ``broken``, and why."""

    how: str
    because: str = ""


def run_gates(
    workspace: Workspace, setup: Setup, run: Path, *, tell: Tell, render: Render | None
) -> Outcome:
    """Run every gate of `run` that is not finished, then finish the run.

    Stops at a gate that doesn't open the next one. A harness that broke leaves the run unsealed,
    judged as far as it came, and ready for ``--resume``.
    """
    broke = ""
    secret.learn(setup.inventory.value.hosts.values())
    with terminated.as_interrupt():
        try:
            broke = "" if half_finished(run) else _all_gates(workspace, setup, run, tell)
        except KeyboardInterrupt:
            broke = "interrupted"
    if broke:
        note_interruption(run, broke)
        return Outcome(run, show_state(run, render=render), broke)
    tell(_message("progress", "sealing, judging and reporting the run"))
    return Outcome(run, finish_run(run, render=render))


def _all_gates(workspace: Workspace, setup: Setup, run: Path, tell: Tell) -> str:
    """Run the gates in order; return what broke, or "" when the run came to its end."""
    for gate in RunReader(run).manifest["gates"]:
        if not finished(RunReader(run), gate):
            tell(_message("gate", gate, awaits="its process to start"))
            _countersign(run, f"the opening of {gate}")
            ended = _one_gate(workspace, setup, run, str(gate), tell)
            if ended.how == "broken":
                return f"{gate}: {ended.because}"
            if ended.how == "refused":
                tell(_message("verdict", ended.because, host=gate))
                return ""
        verdict, disposition = _judged(run, str(gate)) or _judge_now(run, setup, str(gate))
        tell(_message("verdict", f"{verdict}, {disposition}", host=str(gate)))
        if not Disposition(disposition).opens_next:
            return ""
    return ""


def _countersign(run: Path, at: str) -> None:
    if controller(run):
        with RunWriter.open(run) as writer:
            countersign(writer, at)


def _judged(run: Path, gate: str) -> tuple[str, str] | None:
    for name, verdict, disposition in reversed(list(judging.verdicts(RunReader(run)))):
        if name == gate:
            return verdict, disposition
    return None


def _judge_now(run: Path, setup: Setup, gate: str) -> tuple[str, str]:
    """Judge a gate that was closed by a process which ended before it had judged it."""
    with RunWriter.open(run) as writer:
        result = judging.judge_gate_of(RunReader(run), setup, gate)
        judging.journal(writer, result)
    return str(result.verdict), str(result.disposition)


def _one_gate(workspace: Workspace, setup: Setup, run: Path, gate: str, tell: Tell) -> _Ended:
    """Run one gate: its soak, if it has one, then its tests, each in a process of its own."""
    planned = setup.planned(gate)
    give_up_s = planned.give_up_after.to("s")
    if soak.needed(setup.plan.value, gate) and not soak.finished(RunReader(run)):
        try:
            open_for_soak(workspace, run, gate)
        except GateClosedError as err:
            return _Ended("refused", err.message)
        except KvgateError as err:
            return _Ended("broken", err.message)
        command = soak.command(run, gate)
        code = watch_child(command, run=run, log=f"{gate}-soak", give_up_s=give_up_s, tell=tell)
        if code != 0 or not soak.finished(RunReader(run)):
            return _Ended("broken", _why(run, f"{gate}-soak", code))
    command = [
        *pytest_command(workspace, workspace.root / planned.suite),
        "--kvgate-run",
        str(run),
        "--kvgate-gate",
        gate,
    ]
    code = watch_child(command, run=run, log=gate, give_up_s=give_up_s, tell=tell)
    reader = RunReader(run)
    if finished(reader, gate):
        return _Ended("done")
    refused = [e for e in reader.events("gate_refused") if e.fields["gate"] == gate]
    if refused and code == GateClosedError.exit_code:
        return _Ended("refused", str(refused[-1].fields["because"]))
    return _Ended("broken", _why(run, gate, code))


def pytest_command(workspace: Workspace, suite: Path) -> list[str]:
    """Return the command that runs a suite, by this Python and without any other plugin."""
    return [
        sys.executable,
        "-m",
        "pytest",
        str(suite),
        "-p",
        "kvgate.suite.entry",
        "-c",
        os.devnull,
        "--rootdir",
        str(workspace.root),
        "--import-mode=importlib",
        "-p",
        "no:cacheprovider",
        "-q",
        "-ra",
        "--color=no",
    ]


def watch_child(
    command: Sequence[str], *, run: Path, log: str, give_up_s: float, tell: Tell
) -> int:
    """Run a child of the supervisor to its end; return its exit code, -signal, or GAVE_UP.

    Its output goes to ``logs/``, its progress to `tell`. It ends when we do: it reads a pipe whose
    other end only we hold. At `give_up_s`, or when we are interrupted, it is asked to stop in
    order, and killed after a grace time.
    """
    progress_out, progress_in = os.pipe()
    alive_out, alive_in = os.pipe()
    environment = {k: v for k, v in os.environ.items() if k != "PYTEST_ADDOPTS"}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    disk.make_folder(run / "logs")
    path = run / "logs" / f"{log}.log"
    with disk.told(path, "opening it for writing"):
        output = path.open("ab")
    with output:
        begun = output.tell()
        child = subprocess.Popen(
            [*command, "--progress-fd", str(progress_in), "--alive-fd", str(alive_out)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=(progress_in, alive_out, *hostlock.inherited()),
            start_new_session=True,
            env=environment,
        )
    os.close(progress_in)
    os.close(alive_out)
    reader = threading.Thread(target=read_messages, args=(progress_out, tell), daemon=True)
    reader.start()
    try:
        return _wait(child, give_up_s)
    finally:
        os.close(alive_in)
        reader.join(5)
        with disk.told(path, "masking secrets in it"):
            make_harmless(path, begun)


def _wait(child: subprocess.Popen[bytes], give_up_s: float) -> int:
    try:
        return child.wait(give_up_s)
    except subprocess.TimeoutExpired:
        _stop(child)
        return GAVE_UP
    except KeyboardInterrupt:
        _stop(child)
        raise


def _stop(child: subprocess.Popen[bytes]) -> None:
    """Ask a child to stop in order; kill it if it doesn't, or if we are interrupted again."""
    child.send_signal(signal.SIGINT)
    try:
        child.wait(_GRACE_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        child.kill()
        child.wait()


def _why(run: Path, log: str, code: int) -> str:
    """Return why a child ended as it did: its signal or code, and its log's last line."""
    how = (
        "was given up at the plan's time limit (give_up_after)"
        if code == GAVE_UP
        else f"was ended by {signal.Signals(-code).name}"
        if code < 0
        else f"exited {code}"
    )
    lines = (run / "logs" / f"{log}.log").read_text("utf-8", "replace").strip().splitlines()
    last = next((line for line in reversed(lines) if line.strip()), "")
    return f"its process {how}; logs/{log}.log ends: {last[:300]}"


def _message(kind: str, text: str, *, host: str = "", awaits: str = "") -> Message:
    return {"t": kind, "text": text, "host": host, "awaits": awaits, "at": time.monotonic()}


def resume(workspace: Workspace, run: Path) -> Setup:
    """Journal that a run goes on and return its frozen setup.

    Raises StoreError if the run is sealed, locked or damaged, or if a suite that is still to be
    run is not the one the run began with.
    """
    reader = RunReader(run)
    setup = frozen_setup(reader)
    for gate in reader.manifest["gates"]:
        if not finished(reader, gate):
            refuse_changed_suite(workspace, reader, setup.planned(gate).suite)
    if not half_finished(run):  # a sealed one is refused, but for what its end still lacks
        with RunWriter.open(run) as writer:
            writer.event("resumed", because="by the command line")
    return setup
