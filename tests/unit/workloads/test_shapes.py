"""The shapes are what the published joint test says, and become jobs that fio takes as meant."""

from __future__ import annotations

import dataclasses

import pytest

from fiopy import jobs_text, parse_jobs
from kvgate.errors import NotRunError, SpecError
from kvgate.workloads import shapes
from kvgate.workloads.shapes import CHUNK_BYTES, RANKS, SHAPES, Setting

SETTING = Setting(
    engine="libaio",
    direct=True,
    ramp_s=1,
    runtime_s=4,
    total_bytes=2 * RANKS * CHUNK_BYTES,
    seed=7,
    gpu_engine="libhipfile",
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
        assert (job.direct, job.threads, job.seed) == (not shape.buffered, True, 7)
        assert job.engine == ("libhipfile" if shape.gpu else "libaio")
        assert (job.dedupe_pct, job.compress_pct) == (shape.dedupe_pct, shape.compress_pct)
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


def test_the_traffic_of_another_model_and_of_other_gpus() -> None:
    """DeepSeek-V3's latent KV in bf16 is 70,272 B a token on every rank; 4 chunks under way."""
    kv = shapes.Kv(token_bytes=70_272, ranks=4, queue_depth=4)
    total = shapes.file_bytes(10**9, kv)
    assert total % (4 * 256 * 70_272) == 0
    setting = dataclasses.replace(SETTING, kv=kv, total_bytes=total)
    (restore,) = shapes.jobs(SHAPES["kv-restore"], "/s/f", setting)
    assert (restore.block_bytes, restore.jobs, restore.queue_depth) == (256 * 70_272, 4, 4)
    (mixed,) = shapes.jobs(SHAPES["kv-mixed-70"], "/s/f", setting)
    assert (mixed.block_bytes, mixed.read_pct, mixed.queue_depth) == (16 * 70_272, 70, 4)
    (lay,) = shapes.layout("/s/f", setting)
    assert lay.block_bytes == 256 * 70_272


def test_restores_into_gpus_need_an_engine_and_o_direct() -> None:
    (job,) = shapes.jobs(SHAPES["kv-restore-gpu"], "/s/f", SETTING)
    assert (job.gpus, job.rocm_io, job.queue_depth) == ("0:1:2:3:4:5:6:7", "hipfile", 1)
    nvidia = dataclasses.replace(SETTING, gpu_engine="libcufile")
    (job,) = shapes.jobs(SHAPES["kv-restore-gpu"], "/s/f", nvidia)
    assert (job.engine, job.cuda_io, job.rocm_io) == ("libcufile", "cufile", None)
    for lacks in ({"gpu_engine": None}, {"direct": False}):
        with pytest.raises(NotRunError, match="kv-restore-gpu"):
            shapes.jobs(SHAPES["kv-restore-gpu"], "/s/f", dataclasses.replace(SETTING, **lacks))


def test_a_fio_with_one_io_under_way_only_is_not_taken_for_more() -> None:
    psync = dataclasses.replace(SETTING, engine="psync")
    assert shapes.layout("/s/f", psync)[0].queue_depth == 1
    assert shapes.jobs(SHAPES["kv-restore"], "/s/f", psync)[0].queue_depth == 1
    with pytest.raises(NotRunError, match="kv-mixed has 4 I/Os under way"):
        shapes.jobs(SHAPES["kv-mixed"], "/s/f", psync)
