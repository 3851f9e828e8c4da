"""G2: sweeps of fio over block sizes, queue depths and kinds of data, on every serving host."""

from __future__ import annotations

import contextlib
import functools

from kvgate.spec.inventory import Host
from kvgate.spec.workload import FioGrid
from kvgate.suite import Bench, one_by_one, settles
from kvgate.workloads import fio_arms
from kvgate.workloads import grid as grids


@settles("G2.16", "G2.17", "G2.18")
def test_block_sizes_and_queue_depths_swept(bench: Bench) -> None:
    """Run every cell of the grids 'path' and 'latency', in an order drawn from the run's seed."""
    _swept(bench, "path", "latency")


@settles("G2.19")
def test_data_of_every_kind_stored(bench: Bench) -> None:
    """Run every cell of the grid 'data': stores that dedup or compression could shrink."""
    _swept(bench, "data")


def _swept(bench: Bench, *names: str) -> None:
    """Measure these grids of the plan; a host that can't be measured stops no other."""
    planned = {name: bench.plan.workloads.grids.get(name) for name in names}
    bench.require(
        *(f"the plan sets no workloads.grids.{name}" for name, grid in planned.items() if not grid)
    )
    wanted = [
        (host, name, grid)
        for name, grid in planned.items()
        for host in bench.hosts("serving")
        if grid
    ]
    one_by_one(wanted, lambda each: _measure(bench, *each))


def _measure(bench: Bench, host: Host, name: str, grid: FioGrid) -> None:
    """Run the cells that are not finished yet on one host, in a folder made for them."""
    cells = {cell.shape.name: cell for cell in grids.cells(grid)}
    rounds = range(1, grid.rounds + 1)
    blocks = list(
        bench.blocks(f"grid-{name}", shuffled=True, host=[host.name], round=rounds, cell=cells)
    )
    if not blocks:
        return
    witness = fio_arms.under_test(bench.witness(host))
    around = functools.partial(bench.child, "fio", host=host.name)

    def say(said: str) -> None:
        bench.progress(said, host=host.name, awaits="fio")

    with contextlib.ExitStack() as stack:
        stack.enter_context(bench.asking_for(f"grid-{name}", host=host.name))
        with bench.step(f"Make the file for the sweep '{name}'", host=host.name):
            place = stack.enter_context(
                grids.prepare(
                    witness, grid, seed=bench.seed % 2**31, around=around, on_progress=say
                )
            )
        for block in blocks:
            with block:
                cell = cells[block["cell"]]
                answer = grids.run(witness, cell, place, around=around, on_progress=say)
                bench.record(
                    answer,
                    host=host,
                    phase="steady_state",
                    grid=name,
                    round=block["round"],
                    **cell.labels,
                )
