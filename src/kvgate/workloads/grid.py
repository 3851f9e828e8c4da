"""Sweeps of fio as data: the cells of a `spec.workload.FioGrid`, what they cost, and one run."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import threading
from collections.abc import Iterator

from fiopy import Pattern
from kvgate.model.quantity import Quantity
from kvgate.spec.workload import FioGrid
from kvgate.witness import Answer, Witness
from kvgate.workloads import fio
from kvgate.workloads.base import Estimate, OnProgress
from kvgate.workloads.fio import Around, Place
from kvgate.workloads.shapes import STORE_PASSES, Kv, Setting, Shape

_LAYOUT_BLOCK = 2**20
_ESTIMATED_B_PER_S = 500e6  # of the layout
_AROUND_S = 1.0  # to start fio, and to remove its job file, over SSH
_UNITS = (("m", 2**20), ("k", 2**10), ("b", 1))


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """One combination: its shape, and its labels on measurements."""

    shape: Shape
    labels: dict[str, str]


def cells(grid: FioGrid) -> tuple[Cell, ...]:
    """Return the cells of `grid` in the order in which its lists stand."""
    nothing: list[int | None] = [None]
    points = itertools.product(
        grid.patterns,
        grid.blocks,
        grid.queue_depths,
        [*(grid.dedupe or nothing)],
        [*(grid.compress or nothing)],
        grid.buffered or [False],
    )
    return tuple(_cell(grid, *point) for point in points)


def _cell(
    grid: FioGrid,
    pattern: str,
    block: Quantity,
    depth: int,
    dedupe: int | None,
    compress: int | None,
    buffered: bool,
) -> Cell:
    """Return one cell; what writes is bounded by bytes, whatever the storage's speed."""
    size = int(block.base)
    labels = {"pattern": pattern, "block_size": _short(size), "depth": str(depth)}
    kinds = {"dedupe": dedupe, "compress": compress}
    labels |= {name: str(pct) for name, pct in kinds.items() if pct is not None}
    labels |= {"buffered": "yes"} if buffered else {}
    name = f"{pattern}-{_short(size)}-qd{depth}"
    name += "".join(f"-{kind[0]}{pct}" for kind, pct in kinds.items() if pct is not None)
    writes = Pattern(pattern).writes
    shape = Shape(
        name=name + ("-buffered" if buffered else ""),
        why=f"a cell of a sweep: {pattern} of {block}, {depth} under way in each of {grid.jobs}",
        pattern=Pattern(pattern),
        block_bytes=size,
        read_pct=(grid.read_pct if grid.read_pct is not None else 50)
        if pattern == "randrw"
        else None,
        queue_depth=depth,
        ranks=grid.jobs,
        on_data=True,
        passes=STORE_PASSES if writes else None,
        buffered=buffered,
        dedupe_pct=dedupe,
        compress_pct=compress,
    )
    return Cell(shape, labels)


def _short(size: int) -> str:
    """Return 4096 as 4k: in a name that a file may have."""
    unit, factor = next((unit, factor) for unit, factor in _UNITS if size % factor == 0)
    return f"{size // factor}{unit}"


def file_bytes(grid: FioGrid) -> int:
    """Return the size of the file: whole blocks of every size for every job."""
    unit = max(int(block.base) for block in grid.blocks) * grid.jobs
    return int(grid.size.base) // unit * unit


def estimate(grid: FioGrid) -> Estimate:
    """Return what all cells and rounds take; bytes written are an upper bound."""
    total = file_bytes(grid)
    seconds, written = total / _ESTIMATED_B_PER_S + _AROUND_S, float(total)
    for cell in cells(grid):
        seconds += grid.rounds * (grid.ramp.to("s") + grid.runtime.to("s") + _AROUND_S)
        moved = total * (cell.shape.passes or 0)
        written += grid.rounds * moved * cell.shape.write_share
    return Estimate(seconds, round(written))


@contextlib.contextmanager
def prepare(
    witness: Witness,
    grid: FioGrid,
    *,
    seed: int = 1,
    on_progress: OnProgress | None = None,
    around: Around = contextlib.nullcontext,
    cancel: threading.Event | None = None,
) -> Iterator[Place]:
    """Make a folder on the host with the file of `grid`, and remove it on every way out.

    Raises what `fio.prepare` does.
    """
    total = file_bytes(grid)
    setting = Setting(
        engine="",
        direct=False,
        ramp_s=grid.ramp.to("s"),
        runtime_s=grid.runtime.to("s"),
        total_bytes=total,
        seed=seed,
        kv=Kv(ranks=grid.jobs),
        layout_block_bytes=min(_LAYOUT_BLOCK, total),
        logs=False,  # of hundreds of short cells
    )
    with fio.settled(witness, setting, 1, True, (around, on_progress, cancel)) as place:
        yield place


def run(
    witness: Witness,
    cell: Cell,
    place: Place,
    *,
    on_progress: OnProgress | None = None,
    around: Around = contextlib.nullcontext,
    cancel: threading.Event | None = None,
) -> Answer:
    """Run one cell in `place` and return its readings; raises what `fio.run` does."""
    told = (around, on_progress, cancel)
    return fio.measured(witness, cell.shape, place.setting, place, told)
