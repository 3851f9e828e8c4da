"""A run with everything in it: every verdict, a forced gate, a resumption, hostile answers."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import hashlib
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kvgate.engine.workspace import Setup, frozen_setup
from kvgate.errors import StoreError
from kvgate.judge.gate import judge_gate
from kvgate.model.finding import Attempt, RunResult
from kvgate.model.quantity import Quantity
from kvgate.model.record import ALL_HOSTS, Evidence, Measurement, Value
from kvgate.model.verdict import Verdict

SAMPLE = Path(__file__).parent / "sample"
FORCED = "G2 to be diagnosed while the drive of G1.3 is replaced"
START = datetime.datetime(2026, 5, 12, 8, 15, tzinfo=datetime.UTC)
HOSTILE = (
    "</pre></details><script>alert('x')</script>{{ 7*7 }}\x1b[31mred\x07 | `code` "
    "[a](javascript:1) \u202egnp.exe\u202c \u200b\ufeff\ud800 &amp; ]]> \ufffe\x00 https://evil.test"
)


@dataclasses.dataclass(frozen=True, slots=True)
class FakeEvent:
    seq: int
    utc: datetime.datetime
    mono: float
    kind: str
    fields: Mapping[str, Any]
    boot: str = "b1"


@dataclasses.dataclass
class FakeRun:
    """What the report reads of a run, held in memory (see `report.sources.RunRecords`)."""

    path: Path
    manifest: dict[str, Any]
    inputs: dict[str, bytes] = dataclasses.field(default_factory=dict)
    journal: list[FakeEvent] = dataclasses.field(default_factory=list)
    taken: list[Measurement] = dataclasses.field(default_factory=list)
    pieces: dict[str, Evidence] = dataclasses.field(default_factory=dict)
    samples: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    ended: list[Attempt] = dataclasses.field(default_factory=list)
    now_s: float = 0.0

    def events(self, *kinds: str) -> Iterator[FakeEvent]:
        return (event for event in self.journal if not kinds or event.kind in kinds)

    def measurements(self) -> tuple[Measurement, ...]:
        return tuple(self.taken)

    def evidence(self, ref: str) -> Evidence:
        if ref not in self.pieces:
            raise StoreError(f"evidence {ref[:12]}: is missing")
        return self.pieces[ref]

    def telemetry(self) -> Iterator[dict[str, Any]]:
        return iter(self.samples)

    def attempts(self) -> tuple[Attempt, ...]:
        return tuple(self.ended)

    def input(self, name: str) -> bytes:
        return self.inputs[name]

    def journal_digest(self) -> str:
        return hashlib.sha256(repr(self.journal).encode()).hexdigest()

    def sealed(self) -> bool:
        return (self.path / "SHA256SUMS").exists()

    # making it

    def add(self, after_s: float, kind: str, **fields: Any) -> None:
        """Append an event `after_s` seconds after the last one."""
        self.now_s += after_s
        utc = START + datetime.timedelta(seconds=self.now_s)
        self.journal.append(FakeEvent(len(self.journal), utc, 4711 + self.now_s, kind, fields))

    def keep(
        self,
        host: str,
        *command: str,
        stdout: bytes = b"",
        stderr: bytes = b"",
        status: int | None = 0,
        notes: tuple[str, ...] = (),
    ) -> str:
        """Store a piece of evidence, as if it was asked now, and return its digest."""
        at = START + datetime.timedelta(seconds=self.now_s)
        ref = hashlib.sha256(repr((host, command, stdout, stderr)).encode()).hexdigest()
        self.pieces[ref] = Evidence(
            host=host,
            command=command,
            exit_status=status,
            stdout=stdout,
            stderr=stderr,
            started_at=at,
            ended_at=at + datetime.timedelta(milliseconds=38),
            notes=notes,
        )
        return ref

    def measure(
        self,
        name: str,
        value: Value | str | None,
        host: str,
        phase: str,
        *refs: str,
        item: str = "",
        problem: str = "",
        block: str = "",
        **labels: str,
    ) -> None:
        """Record a measurement; a text such as '5 ms' counts as a quantity if it is one."""
        self.taken.append(
            Measurement(
                name=name,
                value=value,
                host=host,
                phase=phase,
                item=item,
                problem=problem,
                taken_at=START + datetime.timedelta(seconds=self.now_s),
                labels=labels,
                evidence=refs or tuple(self.pieces)[:1],
                block=block,
            )
        )


def q(text: str) -> Quantity:
    return Quantity.parse(text)


def build_sample(path: Path, *, profile: str = "rehearsal") -> tuple[FakeRun, RunResult]:
    """Return the sample run and what the judge says about it."""
    inputs = {
        str(file.relative_to(SAMPLE)): file.read_bytes() for file in sorted(SAMPLE.rglob("*.yaml"))
    }
    run = FakeRun(
        path,
        {
            "run": "20260512T081500Z-sample-1f2e",
            "created": "2026-05-12T08:15:00+00:00",
            "inputs": {name: hashlib.sha256(data).hexdigest() for name, data in inputs.items()},
            "platform": "Linux-6.1.0-28-amd64-x86_64",
        },
        inputs,
    )
    run.add(0, "manifest", sha256="0" * 64)
    run.add(
        0.1,
        "run_begin",
        command=["kvgate", "run", "--plan", "gates/plans/sample.yaml"],
        git={"head": "307bc34d5a1f0e9c8b7a65544332211ffeeddcc0", "dirty": True},
        version="0.1.0",
        who={"user": "m.chen", "host": "load1"},
    )
    for fill in (_g1, _g2, _g3, _g4):
        fill(run)
    run.add(0.2, "run_end", outcome="fail")
    setup = frozen_setup(run)  # type: ignore[arg-type]
    return run, judged(run, setup, profile)


def judged(run: FakeRun, setup: Setup, profile: str) -> RunResult:
    gates = tuple(
        judge_gate(
            loaded.value,
            profile=profile,
            inventory=setup.inventory.value,
            expected=setup.expected,
            taken=run.measurements(),
            attempts=run.attempts(),
            scoped_out=setup.plan.value.scoped_out(),
            forced=FORCED if name == "G2" else "",
        )
        for name, loaded in setup.gates.items()
    )
    return RunResult(
        run=run.manifest["run"],
        profile=profile,
        gates=gates,
        verdict=Verdict.worst(gate.verdict for gate in gates),
        criteria_digest=setup.criteria_digest(),
        journal_digest=run.journal_digest(),
    )


def ran(run: FakeRun, *criteria: str) -> None:
    for criterion in criteria:
        run.ended.append(Attempt(criterion=criterion, outcome="ran"))
        run.add(0.01, "attempt", criterion=criterion, outcome="ran", reasons=[], test="t")


def _g1(run: FakeRun) -> None:
    run.add(0.4, "gate_begin", gate="G1", attempt=1)
    known = {"ini1": ["7CQ1X93", "S6XTNX0T100201"], "ini2": ["7CQ1X94"], "load1": []}
    for host, serials in known.items():
        run.add(0.2, "identity", gate="G1", host=host, serials=serials, problem="")
    kernels = {"ini1": "6.1.0-28-amd64", "ini2": "6.1.0-28-amd64", "load1": "6.8.0-48-generic"}
    for host, kernel in kernels.items():
        ref = run.keep(host, "uname", "-r", stdout=f"{kernel}\n".encode())
        run.measure("kernel.release", kernel, host, "inspection", ref)
        run.measure(
            "os.pretty_name",
            HOSTILE if host == "load1" else "Debian GNU/Linux 12",
            host,
            "inspection",
        )
        run.measure(
            "clock.offset",
            q("48.9 ms" if host == "load1" else "1.8214 ms"),
            host,
            "inspection",
            run.keep(host, "date", "+%s.%N", stdout=b"1778573701.118\n"),
        )
    for host in ("ini1", "ini2"):
        meminfo = run.keep(host, "cat", "/proc/meminfo", stdout=b"MemTotal: 65842324 kB\n" * 30)
        run.measure("memory.size", q("65842324 KiB"), host, "inspection", meminfo)
    for host, serial, errors in (
        ("ini1", "S6XTNX0T100201", 0),
        ("ini1", "S6XTNX0T100202", 0),
        ("ini2", "S6XTNX0T100307", 3),
    ):
        log = b'{\n  "critical_warning" : 0,\n  "media_errors" : %d\n}\n' % errors
        ref = run.keep(
            host,
            "nvme",
            "smart-log",
            f"/dev/disk/by-id/nvme-{serial}",
            "--output-format=json",
            stdout=log,
        )
        run.measure(
            "nvme.media_errors", Quantity.of(errors, ""), host, "inspection", ref, item=serial
        )
    bad = run.keep(
        "ini2",
        "cat",
        "/sys/bus/pci/devices/0000:41:00.0/current_link_speed",
        HOSTILE,
        stdout=HOSTILE.encode("utf-8", "surrogatepass") + b"\n\xff\xfe",
        status=None,
        stderr=b"\x1b]0;owned\x07cat: read error: Input/output error\n",
        notes=("ended by its deadline after 20.0 s",),
    )
    run.measure(
        "pcie.speed",
        None,
        "ini2",
        "inspection",
        bad,
        item="0000:41:00.0",
        problem=f"'{HOSTILE}' is not a link speed",
    )
    ran(run, "G1.1", "G1.2", "G1.3", "G1.4", "G1.6")
    run.add(3.1, "gate_end", gate="G1", outcome="done")


def _steady(
    run: FakeRun, name: str, value: Quantity, *, host: str, ref: str, **labels: str
) -> None:
    run.measure(name, value, host, "steady_state", ref, **labels)


def _g2(run: FakeRun) -> None:
    chance = random.Random(2)  # noqa: S311  noise of a sample, no secret
    run.add(0.2, "gate_refused", gate="G2", because="G1 is rejected")
    run.add(0.1, "forced", gate="G2", reason=FORCED)
    run.add(0.2, "gate_begin", gate="G2", attempt=1)
    for host in ("ini1", "ini2"):
        for job, read, write in (
            ("kv-restore", 1.21e9, 0.0),
            ("kv-store", 0.0, 7.4e8),
            ("kv-mixed", 6.1e8, 2.6e8),
        ):
            for round_ in "123":
                run.add(0.15, "child_begin", id=f"{host}{job}{round_}", what="fio", host=host)
                run.add(5.02, "child_end", id=f"{host}{job}{round_}")
                ref = run.keep(
                    host,
                    "fio",
                    "--output-format=json",
                    f"{job}.fio",
                    stdout=b'{\n  "fio version" : "fio-3.33",\n  "jobs" : [ ... ]\n}\n'
                    + f"{host} {round_}\n".encode(),
                )
                took = functools.partial(_steady, run, host=host, ref=ref, job=job, round=round_)
                noise = 1 + chance.uniform(-0.09, 0.09)
                if read:
                    took("fio.read_bw", Quantity.of(f"{read * noise:.0f}", "B/s"))
                    late = 24.31 if (host, job) == ("ini2", "kv-mixed") else 4.4 * noise
                    took("fio.read_clat_p99", Quantity.of(f"{late * 1e6:.0f}", "ns"))
                if write:
                    took("fio.write_bw", Quantity.of(f"{write * noise:.0f}", "B/s"))
    ran(run, "G2.1", "G2.2", "G2.3")
    run.add(1.4, "gate_end", gate="G2", outcome="done")


def _g3(run: FakeRun) -> None:
    chance = random.Random(3)  # noqa: S311  noise of a sample, no secret
    run.add(0.2, "gate_begin", gate="G3", attempt=1)
    run.add(0.3, "child_begin", id="engine", what="engine", host="load1")
    base = {
        ("recompute", "1"): 212,
        ("recompute", "4"): 655,
        ("local", "1"): 61,
        ("local", "4"): 148,
    }
    for round_ in "123":
        for (arm, level), ms in base.items():
            run.add(
                4.2, "step_begin", id=f"{arm}{level}{round_}", text="measure", host="", awaits=""
            )
            for name, value in (
                ("g3.ttft", f"{ms * (1 + chance.uniform(-0.1, 0.12)):.3f} ms"),
                ("g3.throughput", f"{21000 / ms * int(level):.2f} tok/s"),
            ):
                run.measure(
                    name,
                    q(value),
                    ALL_HOSTS,
                    "steady_state",
                    arm=arm,
                    concurrency=level,
                    round=round_,
                )
    run.add(1.0, "interrupted", because="SIGTERM from the terminal (10.0.4.2)")
    run.add(41.0, "resumed", attempt=2)
    run.add(
        0.1,
        "block_discarded",
        block="G3/ttft/arm=local/round=3",
        reason="was open when the run was interrupted",
    )
    run.add(0.1, "gate_begin", gate="G3", attempt=2)
    run.measure("g3.ttft_ratio", q("4.4213 x"), ALL_HOSTS, "steady_state", concurrency="4")
    run.measure("g3.outputs_equal", True, ALL_HOSTS, "steady_state")
    ran(run, "G3.1", "G3.2")
    run.add(2.0, "gate_end", gate="G3", outcome="done")


def _g4(run: FakeRun) -> None:
    chance = random.Random(4)  # noqa: S311  noise of a sample, no secret
    run.add(0.3, "gate_begin", gate="G4", attempt=1)
    run.add(0.8, "child_begin", id="soak", what="soak", host="load1")
    begin = START + datetime.timedelta(seconds=run.now_s)
    run.samples += [
        {
            "utc": (begin + datetime.timedelta(seconds=second)).isoformat(),
            "host": "ini1",
            "cpu_busy_pct": 18.0 if 35 <= second < 44 else 71 + chance.uniform(-14, 14),
        }
        for second in range(90)
    ]
    run.add(35.2, "fault_begin", fault="engine_killed", host="ini1")
    run.add(0.4, "fault_proven", fault="engine_killed", host="ini1")
    run.add(8.9, "fault_repaired", fault="engine_killed", host="ini1")
    run.add(45.5, "child_end", id="soak")
    for window in range(9):
        state = "fault" if window in (3, 4) else "recovery" if window == 5 else "normal"
        slow = {"fault": 4.4, "recovery": 1.6}.get(state, 1) * (1 + chance.uniform(-0.1, 0.1))
        for name, ms in (("soak.ttft_p50", 74), ("soak.fio_read_clat_p99", 3.1)):
            run.measure(
                name,
                q(f"{ms * slow:.4f} ms"),
                ALL_HOSTS,
                "steady_state",
                item=str(window),
                window=str(window),
                state=state,
            )
    run.measure("soak.ttft_drift", q("3.127 %"), ALL_HOSTS, "steady_state")
    run.measure("soak.repair_time", q("8.9 s"), ALL_HOSTS, "fault")
    ran(run, "G4.1", "G4.2")
    run.add(0.9, "gate_end", gate="G4", outcome="done")


@pytest.fixture
def sample(tmp_path: Path) -> tuple[FakeRun, RunResult]:
    return build_sample(tmp_path / "20260512T081500Z-sample-1f2e")


@pytest.fixture
def templates() -> Path:
    return Path(__file__).parents[3] / "templates"
