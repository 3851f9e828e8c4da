"""Long diagnostics that the plan asks for: they load GPUs, memory and drives, and judge them."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable

from kvgate.model.record import EvidenceRef
from kvgate.spec.diagnostics import DiagnosticsWorkload, DriveSelfTest
from kvgate.spec.inventory import Host
from kvgate.suite import Bench, Block, NotRunError, probes, settles, side_by_side
from kvgate.witness import Answer
from kvgate.workloads import diagnostics, drive_test

PHASE = "diagnosis"


@settles("G1.101")
def test_gpus_by_rocm_validation_suite(bench: Bench) -> None:
    """Run every level of rvs that the plan asks for, on all serving hosts at once."""
    _run(bench, "rvs")


@settles("G1.102")
def test_gpus_by_the_field_health_check(bench: Bench) -> None:
    """Run every recipe of agfhc that the plan asks for, on all serving hosts at once."""
    _run(bench, "agfhc")


@settles("G1.103")
def test_memory_under_load(bench: Bench) -> None:
    """Write and compare as much memory as the plan asks for, on all serving hosts at once."""
    _run(bench, "memory")


@settles("G1.104")
def test_nvme_drives_by_their_self_test(bench: Bench) -> None:
    """Let all declared NVMe drives test themselves at once; wait for tests that run already."""
    asked: dict[str, DriveSelfTest] = {
        each.kind: each for each in _asked(bench, "nvme_self_test").nvme_self_test
    }
    lanes = [
        [
            (host, block)
            for block in bench.blocks("self-test", host=[host.name], item=[item], part=asked)
        ]
        for host in bench.hosts()
        for item in host.items("nvme")
    ]

    def work(host: Host, block: Block, cancel: threading.Event) -> Answer:
        device, ref = _device(bench, host, block["item"])
        seconds = asked[block["part"]].duration.to("s")
        watching = drive_test.Watching(
            most_s=diagnostics.given_up_after_s(seconds),
            every_s=0.0 if host.transport == "recorded" else min(60, max(0.5, seconds / 60)),
            on_progress=_teller(bench, host, "nvme self-test"),
            around=functools.partial(bench.child, "nvme self-test", host=host.name),
            cancel=cancel,
        )
        found = drive_test.run(
            bench.witness(host), device, block["item"], kind=block["part"], watching=watching
        )
        return Answer(found.readings, (ref, *found.evidence))

    side_by_side(bench, lanes, work, phase=PHASE)


def _asked(bench: Bench, name: str) -> DiagnosticsWorkload:
    asked = bench.plan.workloads.diagnostics
    if asked is None or not getattr(asked, name):
        raise NotRunError(
            (f"the plan asks for none (workloads.diagnostics.{name})",),
            hint="name what shall be run and for how long, or scope it out with the reason",
        )
    return asked


def _run(bench: Bench, tool: str) -> None:
    """Run what the plan asks of `tool`, part by part, on all serving hosts at once."""
    parts = diagnostics.of_plan(_asked(bench, tool), tool)
    lanes = [
        [
            (host, block)
            for block in bench.blocks("diagnostic", host=[host.name], diagnostic=[tool], part=parts)
        ]
        for host in bench.hosts("serving")
    ]

    def work(host: Host, block: Block, cancel: threading.Event) -> Answer:
        return diagnostics.run(
            bench.witness(host),
            parts[block["part"]],
            on_progress=_teller(bench, host, tool),
            around=functools.partial(bench.child, tool, host=host.name),
            cancel=cancel,
        )

    side_by_side(bench, lanes, work, phase=PHASE)


def _teller(bench: Bench, host: Host, tool: str) -> Callable[[str], None]:
    return lambda said: bench.progress(said, host=host.name, awaits=tool)


def _device(bench: Bench, host: Host, item: str) -> tuple[str, EvidenceRef]:
    """Return the device name of the declared drive `item` as it is now, and the evidence of it.

    A drive without serial number or WWN is not asked to do anything. Raises NotRunError.
    """
    disk = next(each for each in host.declared.disks if each.id == item)
    where = f"{host.name}: the drive '{item}'"
    if not (disk.serial or disk.wwn):
        raise NotRunError((f"{where} is declared by name only, not by its serial number or WWN",))
    devices, asked = probes.drives.look(bench.witness(host))
    names = [each.name for each in probes.drives.matching(disk, devices) if each.nvme]
    if not names:
        raise NotRunError((f"{where} is not there",))
    return names[0], asked.ref
