"""Sweeps: their cells, their costs, their jobs by a real fio."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest

from fiopy import jobs_text, parse_jobs
from kvgate.model.quantity import Quantity
from kvgate.spec.workload import FioGrid
from kvgate.workloads import fio, grid, shapes


def sweep(**options: object) -> FioGrid:
    given: dict[str, object] = {
        "rounds": 1,
        "ramp": "0 s",
        "runtime": "400 ms",
        "size": "16 MiB",
        "patterns": ["randread"],
        "blocks": ["4 KiB", "1 MiB"],
        "queue_depths": [1, 8],
    }
    return FioGrid.model_validate(given | options)


def test_every_combination_is_a_cell_with_its_labels() -> None:
    cells = grid.cells(sweep(jobs=2))
    assert [cell.shape.name for cell in cells] == [
        "randread-4k-qd1",
        "randread-4k-qd8",
        "randread-1m-qd1",
        "randread-1m-qd8",
    ]
    assert cells[1].labels == {"pattern": "randread", "block_size": "4k", "depth": "8"}
    full = grid.cells(
        sweep(patterns=["write"], dedupe=[0, 50, 80], compress=[0, 50, 80], buffered=[False, True])
    )
    assert len(full) == len({cell.shape.name for cell in full}) == 72
    assert full[-1].shape.name == "write-1m-qd8-d80-c80-buffered"
    assert full[-1].labels["buffered"] == "yes"
    (mixed,) = grid.cells(
        sweep(patterns=["randrw"], read_pct=70, blocks=["512 B"], queue_depths=[1])
    )
    assert (mixed.shape.name, mixed.shape.read_pct) == ("randrw-512b-qd1", 70)


def test_the_whole_path_sweep_is_in_reach() -> None:
    """4 KiB to 4 MiB by 1 to 256 I/Os under way, both directions: 198 cells."""
    blocks = [f"{4 * 2**n} KiB" for n in range(11)]
    depths = [2**n for n in range(9)]
    cells = grid.cells(
        sweep(blocks=blocks, queue_depths=depths, patterns=["randread", "randwrite"], size="1 GiB")
    )
    assert len(cells) == 198
    setting = shapes.Setting(
        engine="libaio", direct=True, ramp_s=1, runtime_s=5, total_bytes=2**30, seed=1
    )
    for cell in cells:
        jobs = shapes.jobs(cell.shape, "/s/f", setting)
        assert parse_jobs(jobs_text(jobs)) == tuple(jobs)
        assert jobs[0].io_size_bytes == (8 * 2**30 if cell.shape.pattern.writes else None)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"blocks": []}, "is empty"),
        ({"patterns": ["trim"]}, "trim"),
        ({"queue_depths": list(range(1, 300))}, "more than 400 combinations"),
        ({"read_pct": 70}, "only for patterns"),
        ({"dedupe": [50]}, "of data that is written"),
        ({"blocks": ["1000 B"]}, "no multiple of 512 B"),
        ({"blocks": ["8 MiB"], "jobs": 4}, "more than each of 4 jobs has"),
        ({"dedupe": [101], "patterns": ["write"]}, "100"),
    ],
)
def test_a_sweep_that_makes_no_sense_is_refused(options: dict[str, object], says: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=says):
        sweep(**options)


def test_the_estimate_bounds_what_is_written() -> None:
    size = 16 * 2**20
    assert grid.estimate(sweep()).bytes_written == size, "the file itself"
    written = grid.estimate(sweep(patterns=["write"], rounds=2)).bytes_written
    assert written == size + 2 * 4 * 8 * size
    assert grid.estimate(sweep()).seconds > 4 * 0.4


@pytest.mark.fio
def test_cells_are_measured_on_one_file(bench: Any) -> None:
    load = sweep(patterns=["randread", "randwrite"], blocks=["4 KiB"], queue_depths=[4])
    load = load.model_copy(update={"dedupe": [50]})
    with grid.prepare(bench.witness, load) as place:
        for cell in grid.cells(load):
            answer = grid.run(bench.witness, cell, place)
            found = {each.name: each for each in answer.readings}
            direction = "read" if cell.shape.pattern.reads else "write"
            assert found["fio.errors"].value == Quantity.of(0, "")
            assert found[f"fio.{direction}_iops"].value is not None, found
            text = fio_job(bench, answer.evidence)
            assert "bs=4096" in text
            assert "iodepth=4" in text
            assert "dedupe_percentage=50" in text
    assert list(bench.scratch.iterdir()) == []


def fio_job(bench: Any, evidence: tuple[str, ...]) -> str:
    """Return the job file that fio was given last."""
    texts = [bench.kept[ref].stdout.decode("utf-8", "replace") for ref in evidence]
    return [text for text in texts if text.startswith("[rand")][-1]


@pytest.mark.fio
def test_gpu_direct_is_not_run_where_fio_has_no_engine_for_it(bench: Any) -> None:
    from kvgate.errors import NotRunError
    from kvgate.spec.workload import FioWorkload

    load = FioWorkload.model_validate(
        {
            "rounds": 1,
            "ramp": "0 s",
            "runtime": "1 s",
            "size": "80 MiB",
            "jobs": ["kv-restore-gpu"],
        }
    )
    with pytest.raises(NotRunError, match="no engine for GPU-direct I/O: libhipfile, libcufile"):
        fio.run(bench.witness, "kv-restore-gpu", workload=load)
    assert list(bench.scratch.iterdir()) == []
