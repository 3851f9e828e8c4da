"""Makes the golden run of the current run format: ``golden.py FOLDER``, once a format version.

A released golden run is never made again: every later kvgate has to judge and verify it as it is
(tests/golden). Its hosts, people and answers are made up, its clock is a counter, so that it is
the same bytes wherever it is made.
"""

from __future__ import annotations

import datetime
import hashlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from kvgate.engine import judging
from kvgate.engine.finish import finish_run
from kvgate.engine.workspace import frozen_setup
from kvgate.model.finding import RunResult
from kvgate.model.quantity import Quantity
from kvgate.model.record import ALL_HOSTS, Evidence, Measurement, Value
from kvgate.report.write import write_reports
from kvgate.store.layout import LOCK
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter

SITE = Path(__file__).resolve().parents[1] / "tests" / "golden" / "site"
BEGAN = datetime.datetime(2026, 12, 31, 23, 59, 30, tzinfo=datetime.UTC)  # over a year's end
TICK_S = 0.25
NAME = "20261231T235930Z-golden-0001"


class Clock:
    """A wall clock and a monotonic one that go on by TICK_S whenever they are looked at."""

    def __init__(self) -> None:
        self.ticks = 0

    def now(self, _zone: datetime.tzinfo | None = None) -> datetime.datetime:
        """Return the wall clock's time."""
        self.ticks += 1
        return BEGAN + datetime.timedelta(seconds=self.ticks * TICK_S)

    def monotonic(self) -> float:
        """Return the monotonic clock's time, without going on."""
        return 1000 + self.ticks * TICK_S


@contextmanager
def stopped_clock() -> Iterator[Clock]:
    """Give the store a made-up clock and boot."""
    clock = Clock()
    times = SimpleNamespace(
        datetime=SimpleNamespace(now=clock.now), UTC=datetime.UTC, timezone=datetime.timezone
    )
    with ExitStack() as patches:
        for name, value in (
            ("datetime", times),
            ("time", SimpleNamespace(monotonic=clock.monotonic)),
            ("_boot", lambda: "00000000-0000-4000-8000-000000000001"),
        ):
            patches.enter_context(mock.patch(f"kvgate.store.run.{name}", value))
        yield clock


class Bench:
    """Measures as a suite does, from made-up answers."""

    def __init__(self, run: RunWriter, clock: Clock) -> None:
        self.run = run
        self.clock = clock

    def taken(
        self,
        name: str,
        value: Value | None,
        *,
        host: str = "node1",
        item: str = "",
        phase: str = "inspection",
        problem: str = "",
        block: str = "",
        inputs: str = "",
        **labels: str,
    ) -> None:
        """Record one measurement with a piece of evidence that says the same."""
        at = self.clock.now()
        ref = self.run.evidence(
            Evidence(
                host=host,
                command=("ask", name, *([item] if item else [])),
                exit_status=1 if problem else 0,
                stdout=b"" if problem else f"{name} = {value}\n".encode(),
                stderr=f"{problem}\n".encode() if problem else b"",
                started_at=at,
                ended_at=at + datetime.timedelta(milliseconds=20),
                notes=("made up",),
            )
        )
        self.run.measure(
            Measurement(
                name=name,
                value=value,
                host=host,
                phase=phase,
                taken_at=at,
                item=item,
                labels=labels,
                evidence=(ref,),
                problem=problem,
                block=block,
                inputs=inputs,
            )
        )

    def attempt(self, outcome: str, *criteria: str, reasons: tuple[str, ...] = ()) -> None:
        """Journal how the test of `criteria` ended."""
        for each in criteria:
            self.run.event(
                "attempt", criterion=each, outcome=outcome, reasons=list(reasons), test="test_x"
            )


def q(text: str) -> Quantity:
    """Return a quantity."""
    return Quantity.parse(text)


def arrival(bench: Bench) -> None:
    """Measure for G1: every verdict and every form of a limit once."""
    run = bench.run
    run.begin_block("survey")
    for host, release in (("node1", "6.8.0-45-generic"), ("node2", "6.5.0-9-generic")):
        bench.taken("kernel.release", release, host=host, block="survey")
        bench.taken("cpu.sockets", q("2"), host=host, block="survey")
        bench.taken("iommu.mode", "passthrough", host=host, block="survey")
    bench.taken("disk.present", True, item="SN0001", block="survey")
    bench.taken("disk.present", True, item="SN0002", block="survey")
    bench.taken("disk.size", q("7681501126656 B"), item="SN0001", block="survey")
    bench.taken("disk.size", q("7.68 TB"), item="SN0002", block="survey")
    bench.taken("clock.offset", q("0.98 ms"), block="survey")
    bench.taken("clock.offset", q("-120 us"), host="node2", block="survey")
    bench.taken("disk.wear", q("3 %"), item="SN0001", block="survey")
    problem = "nvme smart-log: Permission denied <&> \u0007"
    bench.taken("disk.wear", None, item="SN0002", problem=problem, block="survey")
    run.end_block("survey")
    run.begin_block("torn")
    bench.taken("clock.offset", q("9 s"), block="torn")  # never counts
    run.discard_block("torn", "the link was lost")
    bench.attempt("ran", "G1.1", "G1.2", "G1.3", "G1.4", "G1.5", "G1.6")
    bench.attempt("not_run", "G1.7", reasons=("needs ethtool on node1: apt install ethtool",))
    bench.attempt("error", "G1.8", reasons=("KeyError: 'x'",))


def paths(bench: Bench) -> None:
    """Measure for G2: numbers near their limits, rounds in blocks, a computed value."""
    run = bench.run
    for number, (rate, p99) in enumerate((("12.1 GB/s", "1.44 ms"), ("11.9 GB/s", "1.5 ms")), 1):
        key = f"fio/round={number}"
        run.event("child_begin", id=key, what="fio", host="node1")
        run.begin_block(key)
        for host in ("node1", "node2"):
            job = {"job": "kv-restore", "round": str(number)}
            steady = {"host": host, "phase": "steady_state", "block": key}
            bench.taken("fio.read_bandwidth", q(rate), **steady, **job)
            bench.taken("fio.read_clat_p99", q(p99), **steady, **job)
            bench.taken("fio.errors", q("0"), **steady, **job)
        run.end_block(key)
        run.event("child_end", id=key)
        run.telemetry({"host": "node1", "cpu_busy": 0.25 * number, "utc": "2027-01-01T00:00:00Z"})
    bench.taken(
        "kv.speedup",
        q("3.999999 x"),
        host=ALL_HOSTS,
        phase="steady_state",
        inputs="median of 2 rounds",
    )
    bench.attempt("ran", "G2.1", "G2.2", "G2.3", "G2.4")


def gate(run: RunWriter, name: str, measure: object, clock: Clock) -> None:
    """Run one gate as the engine does."""
    run.event("gate_begin", gate=name)
    for host in ("node1", "node2", "client1"):
        run.event("identity", gate=name, host=host, serials=[f"MADE-UP-{host}"], problem="")
    seq = run.event("step_begin", id=f"{name}.1", text="Ask every host", host="", awaits="answers")
    assert seq > 0  # noqa: S101  a made-up run is no place for surprises
    measure(Bench(run, clock))  # type: ignore[operator]  # a function of this module
    run.event("step_end", id=f"{name}.1", outcome="done")
    run.event("gate_end", gate=name, outcome="done")
    run.sync()
    reader = RunReader(run.path)
    judging.journal(run, judging.judge_gate_of(reader, frozen_setup(reader), name))


def criteria_digest(inputs: Mapping[str, bytes]) -> str:
    """Return the digest of what is judged by, as `Setup.criteria_digest` does."""
    whole = hashlib.sha256()
    for name, content in sorted(inputs.items()):
        if not name.startswith("suites/"):
            whole.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
    return whole.hexdigest()


def manifest(inputs: Mapping[str, bytes]) -> dict[str, object]:
    """Return what the engine would write, of nobody and nowhere."""
    return {
        "run": NAME,
        "created": BEGAN.isoformat(timespec="seconds"),
        "who": {"user": "tester", "host": "controller"},
        "kvgate": "0.1.0",
        "python": "3.11.0",
        "platform": "Linux-made-up",
        "git": {"head": "0" * 40, "dirty": False},
        "command": ["kvgate", "run", "--inventory", "inventory/golden.yaml"],
        "plan": "golden",
        "title": "The golden run",
        "profile": "acceptance",
        "seed": 1,
        "inventory": "golden",
        "inventory_file": "inventory/golden.yaml",
        "plan_file": "gates/plans/golden.yaml",
        "gates": ["G1", "G2"],
        "criteria_digest": criteria_digest(inputs),
    }


def make(folder: Path) -> RunResult:
    """Make the golden run in `folder`."""
    inputs = {
        path.relative_to(SITE).as_posix(): path.read_bytes()
        for path in sorted(SITE.rglob("*"))
        if path.is_file()
    }
    with stopped_clock() as clock:
        with RunWriter.create(folder, manifest(inputs), inputs) as run:
            run.event(
                "run_begin",
                command=["kvgate", "run"],
                version="0.1.0",
                git={"head": "0" * 40, "dirty": False},
                who={"user": "tester", "host": "controller"},
            )
            run.event("forced", gate="G2", reason="to see every verdict in one run")
            gate(run, "G1", arrival, clock)
            gate(run, "G2", paths, clock)

        def render(path: Path, result: RunResult) -> None:
            templates = SITE.parents[2] / "templates"
            write_reports(path, result, templates=templates, formats=("json", "junit"))

        result = finish_run(folder, render=render)
    (folder / LOCK).unlink()
    return result


if __name__ == "__main__":
    made = make(Path(sys.argv[1]))
    for each in made.gates:
        print(each.gate, each.verdict, each.because)
