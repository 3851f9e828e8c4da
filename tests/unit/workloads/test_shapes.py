"""The shapes are what the published joint test says, and become jobs that fio takes as meant."""

from __future__ import annotations

import dataclasses

import pytest

from fiopy import jobs_text, parse_jobs
from kvgate.errors import NotRunError, SpecError
from kvgate.workloads import shapes
from kvgate.workloads.shapes import CHUNK_BYTES, RANKS, SHAPES, Setting

SETTING = Setting(
    engine="libaio", direct=True, ramp_s=1, runtime_s=4, total_bytes=2 * RANKS * CHUNK_BYTES, seed=7
)


def test_the_chunk_is_that_of_the_published_test() -> None:
    assert CHUNK_BYTES == 8_126_464
    assert CHUNK_BYTES % 4096 == 0 == shapes.PAGE_BYTES % 4096, "O_DIRECT needs whole blocks"
    assert CHUNK_BYTES % shapes.PAGE_BYTES == 0


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_says_why_and_is_a_job_file(name: str) -> None:
    shape = shapes.shape(name)
    assert len(shape.why) > 40
    jobs = shapes.jobs(shape, "/s/f", SETTING)
    assert parse_jobs(jobs_text(jobs)) == tuple(jobs)
    for job in jobs:
        assert (job.direct, job.engine, job.threads, job.seed) == (True, "libaio", True, 7)
        assert job.filename == "/s/f"


@pytest.mark.parametrize("name", SHAPES)
def test_ranks_share_the_file_without_overlap(name: str) -> None:
    for job in shapes.jobs(shapes.shape(name), "/s/f", SETTING):
        assert (job.size_bytes or 0) * (job.jobs or 1) == SETTING.total_bytes
        assert (job.size_bytes or 0) % (job.block_bytes or 0) == 0
        assert job.jobs is None or job.offset_increment_bytes == job.size_bytes


@pytest.mark.parametrize("name", ["kv-store", "kv-mixed"])
def test_what_writes_is_bounded_by_bytes_unless_sustained(name: str) -> None:
    (job,) = shapes.jobs(shapes.shape(name), "/s/f", SETTING)
    assert job.io_size_bytes == (job.size_bytes or 0) * (shapes.shape(name).passes or 0)
    assert (job.time_based, job.ramp_s, job.end_fsync) == (None, None, True)
    sustained = dataclasses.replace(SETTING, sustained=True, rate_bytes_per_s=80_000_000)
    (job,) = shapes.jobs(shapes.shape(name), "/s/f", sustained)
    assert (job.io_size_bytes, job.time_based, job.rate_bytes_per_s) == (None, True, 10_000_000)


def test_the_verify_job_reads_back_after_writing() -> None:
    write, read = shapes.jobs(SHAPES["verify"], "/s/f", SETTING)
    assert (write.verify, write.do_verify, write.end_fsync) == ("crc32c", False, True)
    assert (read.verify, read.wait_for_earlier, read.continue_on_error) == (
        "crc32c",
        True,
        "verify",
    )


def test_a_name_that_is_not_known_gets_the_nearest() -> None:
    with pytest.raises(SpecError) as err:
        shapes.shape("kv-restor")
    assert err.value.hint == "did you mean 'kv-restore'?"


def test_file_sizes_are_whole_chunks_for_every_rank() -> None:
    unit = RANKS * CHUNK_BYTES
    assert shapes.file_bytes(256 * 2**20) == 4 * unit
    assert shapes.file_bytes(unit) == unit
    with pytest.raises(NotRunError, match="less than a chunk for each of 8 ranks"):
        shapes.file_bytes(unit - 1)
