"""fio's workloads on a real fio and real files: readings, evidence, and each way to go wrong."""

from __future__ import annotations

import contextlib
import dataclasses
import mmap
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fiopy
from kvgate.errors import HarnessError, HostUnreachableError, NotRunError, ParseError, SpecError
from kvgate.model.quantity import Quantity
from kvgate.spec.workload import FioWorkload
from kvgate.transport.base import CommandResult
from kvgate.witness import Answer
from kvgate.workloads import fio, fio_readings
from kvgate.workloads.shapes import CHUNK_BYTES, RANKS, SHAPES

pytestmark = pytest.mark.fio
SIZE = RANKS * CHUNK_BYTES


def workload(*jobs: str, runtime: str = "1 s", size: str = f"{SIZE} B") -> FioWorkload:
    return FioWorkload(
        rounds=1,
        ramp=Quantity.parse("200 ms"),
        runtime=Quantity.parse(runtime),
        size=Quantity.parse(size),
        jobs=list(jobs),
    )


def values(answer: Answer) -> dict[str, Any]:
    assert len({reading.name for reading in answer.readings}) == len(answer.readings)
    return {reading.name: reading.value for reading in answer.readings}


def amount(quantity: Quantity, unit: str) -> float:
    return quantity.to(unit)


OTHER_DATA = ("kv-store-dedupe-0", "kv-store-dedupe-80", "kv-store-compress-80")
"""Of a kind with others that are measured."""

FIGURES = {"bw", "iops", "clat_p50", "clat_p99"}


MEASURED = [name for name in SHAPES if name not in ("kv-restore-gpu", *OTHER_DATA)]


@pytest.mark.parametrize("name", MEASURED)
def test_every_job_gives_its_readings_and_evidence(bench: Any, name: str) -> None:
    size = f"{SIZE * (4 if SHAPES[name].passes else 1)} B"  # not done before the ramp is over
    answer = fio.run(bench.witness, name, workload=workload(name, size=size))
    found = values(answer)
    for reading in answer.readings:
        few = "p99 takes" in reading.problem or "fewer than 4 windows" in reading.problem
        assert reading.value is not None or few, reading
    directions = SHAPES[name].directions
    expected = {f"fio.{each}_{figure}" for each in directions for figure in FIGURES}
    expected |= {"fio.bytes_read"} if "read" in directions else set()
    expected |= {"fio.bytes_written"} if "write" in directions else set()
    expected |= {"fio.errors", "fio.version", "fio.engine", "fio.direct"}
    over_time = {
        "fio.longest_gap",
        "fio.second_half",
        *(f"fio.{each}_clat_p99_peak" for each in directions),
    }
    expected |= {"verify.errors", "verify.bytes"} if name == "verify" else over_time
    assert set(found) == expected
    for direction in directions:
        assert amount(found[f"fio.{direction}_bw"], "MB/s") > 1
        p99 = found[f"fio.{direction}_clat_p99"]
        assert p99 is None or p99 >= found[f"fio.{direction}_clat_p50"]
    assert found["fio.errors"] == Quantity.of(0, "")
    assert re.fullmatch(r"\d+\.\d+.*", found["fio.version"])
    kept = [bench.kept[ref] for ref in answer.evidence]
    assert any(f"[{name}" in piece.stdout.decode("utf-8", "replace") for piece in kept), "job file"
    assert any(b'"fio version"' in piece.stdout and piece.exit_status == 0 for piece in kept)
    assert list(bench.scratch.iterdir()) == [], "nothing is left on the host"


def test_verification_covers_every_byte(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    found = values(fio.run(bench.witness, "verify", workload=workload("verify")))
    assert found["verify.bytes"] == Quantity.of(SIZE, "B")
    assert found["verify.errors"] == Quantity.of(0, "")
    assert list(here.iterdir()) == [], "fio left nothing where it was started"


def test_the_bound_on_written_bytes_holds(bench: Any) -> None:
    load = workload("kv-store", runtime="30 s")
    found = values(fio.run(bench.witness, "kv-store", workload=load))
    assert amount(found["fio.bytes_written"], "B") <= fio.estimate(load).bytes_written


def test_one_place_serves_many_jobs_and_lays_out_once(bench: Any) -> None:
    load = workload("kv-restore", "kv-mixed", runtime="500 ms")
    children: list[str] = []

    @contextlib.contextmanager
    def child() -> Iterator[None]:
        children.append("begin")
        yield
        children.append("end")

    with fio.prepare(bench.witness, workload("kv-store"), around=child) as place:
        assert place.layout is None
        assert not Path(place.data.path).exists(), "nothing is written that no job needs"
    with fio.prepare(bench.witness, load, around=child) as place:
        assert place.layout is not None
        assert Path(place.data.path).stat().st_size == SIZE
        for name in load.jobs:
            fio.run(bench.witness, name, workload=load, place=place, around=child)
        assert children == ["begin", "end"] * 3
    assert list(bench.scratch.iterdir()) == []


def test_progress_is_told(bench: Any) -> None:
    said: list[str] = []
    fio.run(
        bench.witness,
        "kv-restore",
        workload=workload("kv-restore", runtime="2500 ms"),
        on_progress=said.append,
    )
    assert any("kv-restore: " in line and "MB/s" in line for line in said)


def test_a_sustained_job_lasts_and_keeps_its_rate(bench: Any) -> None:
    load = workload("kv-mixed", runtime="2 s")
    rate = 40_000_000
    begun = time.monotonic()
    found = values(
        fio.run(bench.witness, "kv-mixed", workload=load, sustained=True, rate_bytes_per_s=rate)
    )
    assert time.monotonic() - begun > 2
    assert amount(found["fio.read_bw"], "B/s") < 2 * rate
    assert fio.written_at_most("kv-mixed", 10, rate) == 10 * rate
    assert fio.written_at_most("kv-restore", 10) == 0
    assert fio.written_at_most("kv-mixed", 10) == 12_500_000_000


def test_a_cancel_ends_it(bench: Any) -> None:
    cancel = threading.Event()
    threading.Timer(1.5, cancel.set).start()
    begun = time.monotonic()
    with pytest.raises(HarnessError, match="cancelled"):
        fio.run(
            bench.witness,
            "kv-restore",
            workload=workload("kv-restore", runtime="60 s"),
            cancel=cancel,
        )
    assert time.monotonic() - begun < 15
    assert list(bench.scratch.iterdir()) == []


def test_where_o_direct_is_refused_it_is_buffered_and_said(bench: Any) -> None:
    bench.transport.answers["dd"] = lambda real: dataclasses.replace(real, exit_status=1)
    answer = fio.run(bench.witness, "kv-restore", workload=workload("kv-restore", runtime="300 ms"))
    assert values(answer)["fio.direct"] is False
    assert any(b"direct=0" in bench.kept[ref].stdout for ref in answer.evidence)


@pytest.mark.parametrize(
    ("listed", "engine"),
    [("libaio io_uring psync", "libaio"), ("io_uring psync", "io_uring"), ("sync psync", "psync")],
)
def test_the_engine_is_the_best_that_fio_has(bench: Any, listed: str, engine: str) -> None:
    text = "Available IO engines:\n" + "".join(f"\t{each}\n" for each in listed.split())

    def enghelp(real: CommandResult) -> CommandResult:
        return dataclasses.replace(real, stdout=text.encode()) if "--enghelp" in real.argv else real

    bench.transport.answers["fio"] = enghelp
    with fio.prepare(bench.witness, workload("kv-store")) as place:
        assert place.setting.engine == engine


class Corrupting:
    """Flips bytes of the verify file between its writing and its reading back."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.block = mmap.mmap(-1, 4096)
        self.done = threading.Event()

    def __call__(self) -> None:
        while not self.done.wait(0.005):
            for file in self.scratch.glob("kvgate-fio-*/verify"):
                with contextlib.suppress(OSError):
                    self.write(file)

    def write(self, file: Path) -> None:
        """Write a block past the page cache: a buffered write would make fio's fsync fail."""
        opened = os.open(file, os.O_WRONLY | os.O_DIRECT)
        try:
            os.pwrite(opened, self.block, CHUNK_BYTES + 8192)
        finally:
            os.close(opened)


def test_wrong_data_is_a_reading_and_its_figures_are_none(bench: Any) -> None:
    corrupting = Corrupting(bench.scratch)
    thread = threading.Thread(target=corrupting)
    thread.start()
    try:
        answer = fio.run(bench.witness, "verify", workload=workload("verify", size="256 MiB"))
    finally:
        corrupting.done.set()
        thread.join()
    found = values(answer)
    assert found["verify.errors"] == Quantity.of(1, "")
    assert found["fio.errors"] == Quantity.of(0, ""), "wrong data is not an I/O error"
    assert found["verify.bytes"] == Quantity.of(4 * SIZE, "B")
    assert found["fio.read_bw"] is None
    problem = next(r.problem for r in answer.readings if r.name == "fio.read_bw")
    assert problem.startswith("not a measurement: verification failed on 1 block")


def ending(bench: Any, exit_status: int | None, recorded: str) -> None:
    """Let fio end on the host with a recorded output."""
    folder = Path(__file__).parents[2] / "recorded" / "fio"
    out = (folder / f"fio-3.33_{recorded}.stdout").read_bytes()
    err = (folder / f"fio-3.33_{recorded}.stderr").read_bytes()
    real = bench.transport.start

    class Ended:
        pid = 0

        def __init__(self, result: CommandResult) -> None:
            self.result = result

        def poll(self) -> bool:
            return True

        def wait(self, timeout_s: float) -> CommandResult:
            return self.result

        stop = wait

    def start(argv: Any, **options: Any) -> Any:
        if "fio" not in argv[0]:
            return real(argv, **options)
        result = real(["true"], deadline_s=5).wait(5)
        return Ended(
            dataclasses.replace(
                result, exit_status=exit_status, stdout=out, stderr=err, argv=tuple(argv)
            )
        )

    bench.transport.start = start


def test_an_io_error_is_counted_and_its_figures_are_none(bench: Any, tmp_path: Path) -> None:
    ending(bench, 1, "file_too_large")
    answer = fio.run(bench.witness, "kv-store", workload=workload("kv-store"))
    found = values(answer)
    assert found["fio.errors"] == Quantity.of(1, "")
    assert found["fio.write_bw"] is None


def test_io_errors_and_wrong_data_are_told_apart(bench: Any) -> None:
    ending(bench, 1, "eio_and_verify")
    found = values(fio.run(bench.witness, "verify", workload=workload("verify")))
    assert (found["fio.errors"], found["verify.errors"]) == (Quantity.of(1, ""),) * 2
    assert found["fio.read_bw"] is None


def test_an_io_error_in_the_layout_is_the_storages(bench: Any) -> None:
    ending(bench, 1, "file_too_large")
    found = values(fio.run(bench.witness, "kv-restore", workload=workload("kv-restore")))
    assert found["fio.errors"] == Quantity.of(1, "")
    assert found["fio.read_bw"] is None


@pytest.mark.parametrize(
    ("status", "recorded", "error", "says"),
    [
        (1, "no_space", NotRunError, "ran full"),
        (128, "interrupted", HarnessError, "signal 2"),
        (1, "engine_missing", NotRunError, "not loadable"),
        (137, "engine_missing", HarnessError, "box: `.*fio .*`: fio was killed .* by SIGKILL"),
        (None, "interrupted", HarnessError, "without an exit status"),
        (0, "enghelp", ParseError, "nothing that fio prints"),
    ],
)
def test_a_fio_that_broke_off_is_no_verdict_on_the_storage(
    bench: Any, status: int | None, recorded: str, error: type[Exception], says: str
) -> None:
    ending(bench, status, recorded)
    with pytest.raises(error, match=says):
        fio.run(bench.witness, "kv-store", workload=workload("kv-store"))
    assert list(bench.scratch.iterdir()) == []


def test_a_link_lost_in_the_middle_of_a_verification(bench: Any) -> None:
    """The finding names host and command; nothing is judged of what was read until then."""
    ending(bench, 0, "verify_continue")
    begin = bench.transport.start

    def start(argv: Any, **options: Any) -> Any:
        process = begin(argv, **options)
        if "fio" in argv[0]:

            def lost(timeout_s: float) -> CommandResult:
                raise HostUnreachableError("box", "`fio verify.fio`: the link was lost")

            process.wait = lost
        return process

    bench.transport.start = start
    with pytest.raises(HostUnreachableError, match=r"box: .*fio verify\.fio.*lost") as err:
        fio.run(bench.witness, "verify", workload=workload("verify"))
    assert any("while fio was run there" in note for note in err.value.__notes__)
    assert list(bench.scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("argument", "said", "because"),
    [
        ("--version", b"fio-2.21\n", "fio-2.21 is too old"),
        ("--version", b"nothing\n", "is not a fio version"),
    ],
)
def test_a_fio_that_can_not_do_it_writes_nothing(
    bench: Any, argument: str, said: bytes, because: str
) -> None:
    bench.transport.answers["fio"] = lambda real: (
        dataclasses.replace(real, stdout=said) if argument in real.argv else real
    )
    with pytest.raises((NotRunError, ParseError), match=because):
        fio.run(bench.witness, "kv-store", workload=workload("kv-store"))
    assert list(bench.scratch.iterdir()) == []


def test_a_percentile_that_the_sample_does_not_carry_is_none() -> None:
    few = fiopy.Transfer(
        bytes_per_s=1.0,
        iops=1.0,
        runtime_ms=1000,
        total_bytes=16,
        total_ios=16,
        clat=fiopy.Latency(percentiles_ns={50.0: 5.0, 99.0: 9.0}),
    )
    output = fiopy.Output(jobs=(fiopy.JobResult(name="j", error=0, read=few),), exit_status=0)
    told = {each.name: each for each in fio_readings.readings(SHAPES["kv-restore"], output)}
    assert told["fio.read_clat_p50"].value is not None
    assert told["fio.read_clat_p99"].value is None
    assert told["fio.read_clat_p99"].problem.startswith("p99 takes 100 I/Os, there were 16")


def test_no_fio_on_the_host(bench: Any) -> None:
    host = bench.witness.host.model_copy(update={"tools": {"fio": "/nonexistent/fio"}})
    witness = dataclasses.replace(bench.witness, host=host)
    with pytest.raises(NotRunError) as err:
        fio.run(witness, "kv-store", workload=workload("kv-store"))
    assert "box: there is no fio at '/nonexistent/fio'" in err.value.message
    assert "install the package 'fio'" in err.value.hint
    assert list(bench.scratch.iterdir()) == []


def test_a_job_that_is_not_known_touches_no_host(bench: Any) -> None:
    with pytest.raises(SpecError):
        fio.run(bench.witness, "kv-nothing", workload=workload("kv-nothing"))
    assert bench.transport.asked == []


def test_estimates_add_up() -> None:
    one = fio.estimate(workload("kv-restore", "kv-store", "kv-mixed", "verify", runtime="4 s"))
    assert one.bytes_written == SIZE + 8 * SIZE + round(1.6 * SIZE) + SIZE
    assert 4 < one.seconds < 15
    two = fio.estimate(workload("kv-restore").model_copy(update={"rounds": 2}))
    assert two.bytes_written == SIZE, "the layout is written once for all rounds"
    assert fio.names() == tuple(SHAPES)
