"""G2 thin: KV-shaped fio jobs on files of every serving host, jobs interleaved by round."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence

from kvgate.spec.inventory import Host
from kvgate.spec.workload import FioWorkload
from kvgate.suite import Bench, NotRunError, one_by_one, settles
from kvgate.workloads import ceiling, fio, fio_arms

VERIFY = "verify"
GPU = "kv-restore-gpu"
ALONE = (VERIFY, GPU)
"""Jobs of tests of their own: what they can't do says nothing of the others."""


@settles("G2.1", "G2.2", "G2.3", "G2.4", "G2.5", "G2.6", "G2.7", "G2.8", "G2.9")
@settles("G2.13", "G2.14", "G2.25", "G2.26", "G2.27", "G2.28", "G2.29")
def test_kv_restores_stores_and_their_mix_on_files(bench: Bench) -> None:
    """Run every job of the plan once a round, so that a drift of the storage meets all of them."""
    workload = _workload(bench)
    _on_each_serving_host(bench, [name for name in workload.jobs if name not in ALONE])


@settles("G2.15")
def test_kv_restores_straight_into_gpu_memory(bench: Bench) -> None:
    """Restore without a copy in the host, where the host's fio has an engine for that."""
    workload = _workload(bench)
    _on_each_serving_host(bench, [name for name in workload.jobs if name == GPU])


@settles("G2.10", "G2.11", "G2.12")
def test_stored_chunks_read_back_and_compared(bench: Bench) -> None:
    """Write chunks with checksums, read all of them back, and count those that differ."""
    workload = _workload(bench)
    _on_each_serving_host(bench, [name for name in workload.jobs if name == VERIFY])


def _workload(bench: Bench) -> FioWorkload:
    workload = bench.plan.workloads.fio
    if workload is None:
        raise NotRunError(
            ("the plan sets no workloads.fio",),
            hint="see gates/plans/rehearsal.yaml for one that does",
        )
    return workload


def _on_each_serving_host(bench: Bench, jobs: Sequence[str]) -> None:
    """Measure `jobs` on one host after the other; a host that can't be measured stops no other."""
    workload = _workload(bench)
    bench.require("" if jobs else f"the plan's workloads.fio.jobs are only: {workload.jobs}")
    wanted = workload.model_copy(update={"jobs": list(jobs)})
    one_by_one(bench.hosts("serving"), lambda host: _measure(bench, host, wanted))


def _ceilings(bench: Bench, host: Host, folder: str) -> None:
    """Record, once, what the way to fio's files can carry at most."""
    for block in bench.blocks("path", host=[host.name]):
        with block:
            bench.record(ceiling.ask(bench.witness(host), folder), host=host, phase="steady_state")


def _measure(bench: Bench, host: Host, workload: FioWorkload) -> None:
    """Run what is not finished yet of `workload` on one host, in a folder made for it."""
    rounds = range(1, workload.rounds + 1)
    blocks = list(bench.blocks("fio", host=[host.name], round=rounds, job=workload.jobs))
    if not blocks:
        return
    left = [job for job in workload.jobs if any(block["job"] == job for block in blocks)]
    workload = workload.model_copy(update={"jobs": left})
    witness = fio_arms.under_test(bench.witness(host))
    around = functools.partial(bench.child, "fio", host=host.name)

    def say(said: str) -> None:
        bench.progress(said, host=host.name, awaits="fio")

    with contextlib.ExitStack() as stack:
        alone = left[0] if left[0] in ALONE else "kv"
        stack.enter_context(bench.asking_for("fio-files", host=host.name, jobs=alone))
        with bench.step(
            "Make a folder for fio's files, and the file that restores read", host=host.name
        ):
            place = stack.enter_context(
                fio.prepare(
                    witness, workload, seed=bench.seed % 2**31, around=around, on_progress=say
                )
            )
        _ceilings(bench, host, place.folder)
        for block in blocks:
            with block:
                answer = fio.run(
                    witness,
                    block["job"],
                    workload=workload,
                    place=place,
                    around=around,
                    on_progress=say,
                )
                bench.record(
                    answer, host=host, phase="steady_state", job=block["job"], round=block["round"]
                )
