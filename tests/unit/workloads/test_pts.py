"""SNIA's tests: loops and jobs, costs, figures, resumption, purges; a real fio on a file."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fiopy
from fiopy import Pattern, jobs_text, parse_jobs
from kvgate.errors import NotRunError, ParseError
from kvgate.model.quantity import Quantity
from kvgate.spec.pts import PtsWorkload
from kvgate.workloads import pts, pts_place, pts_purge, pts_run
from kvgate.workloads.pts import Loop, Point
from kvgate.workloads.shapes import Setting
from kvgate.workloads.target import Target

TB = 10**12
START = datetime.datetime(2026, 12, 31, 23, 59, tzinfo=datetime.UTC)
SETTING = Setting(
    engine="libaio", direct=True, ramp_s=0, runtime_s=60, total_bytes=2**40, seed=2**31 - 1
)
DRIVE = Target(path="/proc/self/fd/9", size_bytes=2**40, direct=True, token="S1")
FILE = Target(path="/s/data", size_bytes=2**26, direct=True)


def asked(**options: object) -> PtsWorkload:
    given: dict[str, object] = {
        "tests": ["iops", "throughput", "latency", "saturation"],
        "profile": "full",
    }
    if "file" not in options:
        given |= {"serials": ["S1"], "purge": "format"}
    return PtsWorkload.model_validate(given | options)


def loop_of(name: str, workload: PtsWorkload | None = None) -> Loop:
    return next(each for each in pts.loops(workload or asked()) if each.name == name)


def test_the_loops_are_those_of_the_standard() -> None:
    found = {loop.name: loop for loop in pts.loops(asked())}
    assert list(found) == ["iops", "throughput-1024k", "throughput-128k", "latency", "saturation"]
    iops = found["iops"]
    assert len(iops.points) == len(set(iops.points)) == 7 * 8
    assert [point.mix for point in iops.points[::8]] == [
        "100/0",
        "95/5",
        "65/35",
        "50/50",
        "35/65",
        "5/95",
        "0/100",
    ]
    assert [point.block for point in iops.points[:8]] == [
        *(f"{kib} KiB" for kib in (1024, 128, 64, 32, 16, 8, 4)),
        "0.5 KiB",
    ]
    assert {(each.mix, each.block) for each in iops.tracked} == {
        ("0/100", "4 KiB"),
        ("65/35", "64 KiB"),
        ("100/0", "1024 KiB"),
    }
    latency = found["latency"]
    assert (len(latency.points), latency.threads, latency.queue_depth) == (9, 1, 1)
    assert latency.tracked == (Point(0, 4096),)
    assert found["throughput-1024k"].precondition_block == 1024 * 1024
    assert [point.pattern for point in found["throughput-128k"].points] == ["read", "write"]
    assert found["saturation"].precondition_block is None
    assert found["saturation"].tracked == ()
    assert all(set(loop.tracked) <= set(loop.points) for loop in found.values())


def test_quick_is_shorter_and_tracks_the_same() -> None:
    quick = {loop.name: loop for loop in pts.loops(asked(profile="quick"))}
    assert [len(loop.points) for loop in quick.values()] == [9, 2, 3, 1]
    assert quick["iops"].tracked == loop_of("iops").tracked
    assert set(quick["iops"].tracked) <= set(quick["iops"].points)
    one = loop_of("iops", asked(points=[{"read": 50, "block": "16 KiB"}]))
    assert one.tracked == one.points == (Point(50, 16384),)


def test_every_point_is_a_job_that_fio_takes() -> None:
    for loop in pts.loops(asked()):
        for target in (DRIVE, FILE):
            jobs = [pts.job(loop, p, target, SETTING, round_=25) for p in loop.points]
            jobs.append(pts.precondition_job(loop, target, SETTING))
            for job in jobs:
                assert parse_jobs(jobs_text([job])) == (job,)
                assert job.filename == target.path
                assert job.size_bytes == target.size_bytes
            assert {job.time_based for job in jobs[:-1]} == {None if target.is_ours else True}
    mixed = pts.job(loop_of("iops"), Point(65, 65536), DRIVE, SETTING, round_=1)
    assert (mixed.pattern, mixed.read_pct, mixed.queue_depth, mixed.jobs) == (
        Pattern.RANDRW,
        65,
        32,
        4,
    )
    assert mixed.no_random_map
    assert mixed.refill_buffers
    wipc = pts.precondition_job(loop_of("iops"), DRIVE, SETTING)
    assert (wipc.pattern, wipc.block_bytes, wipc.io_size_bytes) == ("write", 131072, 2 * 2**40)


def test_offsets_differ_from_round_to_round_and_the_same_round_repeats() -> None:
    loop = loop_of("iops")
    seeds = [
        pts.job(loop, point, DRIVE, SETTING, round_=number).seed
        for number, point in itertools.product(range(1, 26), loop.points)
    ]
    assert len(set(seeds)) == len(seeds)
    again = pts.job(loop, loop.points[0], DRIVE, SETTING, round_=1)
    assert again.seed == seeds[0]


def test_depths_need_an_engine_that_has_them() -> None:
    slow = Setting(engine="psync", direct=True, ramp_s=0, runtime_s=1, total_bytes=2**26, seed=1)
    with pytest.raises(NotRunError, match="only psync"):
        pts.job(loop_of("iops"), Point(0, 4096), FILE, slow, round_=1)
    assert pts.job(loop_of("latency"), Point(0, 4096), FILE, slow, round_=1).queue_depth == 1


def test_the_iops_test_takes_5_to_25_rounds_of_56_minutes() -> None:
    (iops,) = pts.estimate(asked(tests=["iops"]), 8 * TB, write_b_per_s=8e9)
    before = 2 * 8 * TB / 8e9
    overhead = 56 * 2 / 3600
    assert iops.rounds == (5, 25)
    assert (iops.least_s - before) / 3600 == pytest.approx(4.67 + 5 * overhead, abs=0.01)
    assert (iops.most_s - before) / 3600 == pytest.approx(23.33 + 25 * overhead, abs=0.01)
    writing_s = 25 * 60 * 8 * (0 + 0.05 + 0.35 + 0.5 + 0.65 + 0.95 + 1)
    assert iops.bytes_written == pytest.approx(16 * TB + writing_s * 8e9, rel=1e-4)


def test_saturation_ends_by_four_capacities_or_by_time() -> None:
    (short,) = pts.estimate(asked(tests=["saturation"]), 1 * TB, write_b_per_s=5e9)
    assert short.rounds == (360, 360)
    assert short.bytes_written < 4.4 * TB
    (slow,) = pts.estimate(asked(tests=["saturation"]), 100 * TB, write_b_per_s=1e9)
    assert slow.bytes_written == 6 * 3600 * 10**9
    assert pts.saturation_rounds(asked(profile="quick")) == 60
    with pytest.raises(NotRunError, match="holds no block"):
        pts.size_bytes(asked(), 1000)


# what fio said


def moved(iops: float, ios: int, mean_ns: float, max_ns: float, **told: Any) -> fiopy.Transfer:
    return fiopy.Transfer(
        bytes_per_s=iops * 4096,
        iops=iops,
        runtime_ms=1000,
        total_bytes=ios * 4096,
        total_ios=ios,
        lat=fiopy.Latency(mean_ns=mean_ns, max_ns=max_ns),
        clat=fiopy.Latency(percentiles_ns=told.get("percentiles", {})),
    )


def figures_of(
    where: Point, **directions: fiopy.Transfer
) -> dict[str, Quantity | str | bool | None]:
    job = fiopy.JobResult(name="pts", error=0, **directions)
    output = fiopy.Output(jobs=(job,), exit_status=0, **_no_more(fiopy.Output))
    return {each.name: each.value for each in pts_run.readings(output, where)}


def _no_more(kind: Any) -> dict[str, Any]:
    import dataclasses

    return {
        field.name: () if "tuple" in str(field.type) else None
        for field in dataclasses.fields(kind)
        if field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
        and field.name not in ("jobs", "exit_status")
    }


def test_directions_are_added_up_and_means_weighed() -> None:
    mixed = figures_of(
        Point(65, 4096), read=moved(650.1, 650, 1e6, 5e6), write=moved(350.2, 350, 3e6, 9e6)
    )
    assert mixed["pts.iops"] == Quantity.of("1000.3", "IOPS")
    assert mixed["pts.lat_mean"] == Quantity.of("1.7", "ms")
    assert mixed["pts.lat_max"] == Quantity.of(9, "ms")
    assert mixed["pts.written"] == Quantity.of(350 * 4096, "B")
    assert "pts.lat_5n" not in mixed


def test_five_nines_take_the_ios_that_carry_them() -> None:
    told = {99.999: 4e6}
    few = figures_of(Point(0, 4096), write=moved(9, 99_999, 1e6, 5e6, percentiles=told))
    assert few["pts.lat_5n"] is None
    many = figures_of(Point(0, 4096), write=moved(9, 100_000, 1e6, 5e6, percentiles=told))
    assert many["pts.lat_5n"] == Quantity.of(4, "ms")


# purges


@pytest.mark.parametrize(
    ("answer", "count"),
    [
        (b"[   0]:0x1\n", 1),
        (b"[   0]:0x1\n[   1]:0x2\n", 2),
        (b"[   0]:1\n", 1),
        (b'{"nsid_list":[{"nsid":1},{"nsid":7}]}', 2),
    ],
)
def test_namespaces_are_counted(answer: bytes, count: int) -> None:
    assert pts_purge.namespaces(answer) == count


@pytest.mark.parametrize(
    "answer", [b"", b"{}", b'{"nsid_list":[]}', b"{", b"[   0]:0x1\nNVMe status: error\n", b"\xff"]
)
def test_what_is_no_list_of_namespaces_is_refused(answer: bytes) -> None:
    with pytest.raises(ParseError, match="list-ns"):
        pts_purge.namespaces(answer)


def test_the_status_of_a_sanitize_is_read_from_its_log_page() -> None:
    page = bytearray(512)
    page[2:4] = (0x0101).to_bytes(2, "little")
    assert pts_purge.sanitize_status(bytes(page)) == 1
    page[2:4] = (2).to_bytes(2, "little")
    assert pts_purge.sanitize_status(bytes(page)) == 2
    with pytest.raises(ParseError, match="no log page"):
        pts_purge.sanitize_status(b"Sanitize")


# a real fio


@pytest.mark.fio
def test_a_round_on_a_file_by_a_real_fio(bench: Any) -> None:
    workload = asked(
        file="16 MiB",
        per_point="200 ms",
        tests=["iops"],
        points=[{"read": 0, "block": "4 KiB"}, {"read": 65, "block": "64 KiB"}],
    )
    (loop,) = pts.loops(workload)
    told = (contextlib_null(), None, None)
    with pts_place.on_file(bench.witness, workload, seed=1, told=told) as place:
        about = {
            each.name: each for each in pts_place.about(bench.witness, workload, place, None)[0]
        }
        assert about["pts.label"].value == "PTS-shaped on a file, not PTS"
        assert about["pts.capacity"].value == Quantity.of(2**24, "B")
        assert about["pts.serial"].problem == "a file has none"
        before = {
            each.name: each.value
            for each in pts_run.precondition(bench.witness, workload, loop, place, told).readings
        }
        assert before["pts.preconditioned"] == Quantity.of(2 * 2**24, "B")
        assert before["pts.purge"] == pts_run.NO_PURGE
        for point in loop.points:
            answer = pts_run.point(bench.witness, loop, point, place, told, round_=1)
            found = {each.name: each for each in answer.readings}
            assert found["pts.errors"].value == Quantity.of(0, "")
            for name in ("pts.iops", "pts.bw", "pts.lat_mean", "pts.lat_max"):
                assert found[name].value is not None, found[name]
            assert answer.evidence
    assert list(bench.scratch.iterdir()) == []


def contextlib_null() -> Callable[[], Any]:
    import contextlib

    return contextlib.nullcontext


def test_what_the_test_before_left_is_said_to_be_so(bench: Any) -> None:
    from kvgate.workloads.fio import Place

    place = Place(
        folder=str(Path("/nowhere")), setting=SETTING, found=Any, evidence=(), target=DRIVE
    )
    told = (contextlib_null(), None, None)
    answer = pts_run.precondition(
        bench.witness, asked(), loop_of("iops"), place, told, as_left=True
    )
    assert {each.value for each in answer.readings} == {pts_run.AS_LEFT}
