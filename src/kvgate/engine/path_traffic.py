"""Reads of a subsystem while the kernel counts what each of its paths carries."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator, Mapping

from kvgate.model.quantity import Quantity
from kvgate.model.record import EvidenceRef, Reading
from kvgate.parse.nvmeof_sysfs import SECTOR_BYTES, Controller, Subsystem
from kvgate.probes import nvmeof
from kvgate.probes.base import reading, refusal, untold
from kvgate.spec.fabric import NvmeSubsystem
from kvgate.spec.fabric_load import PathsWorkload
from kvgate.witness import Answer, Witness
from kvgate.workloads.fio import Around

MEASURES = ("nvmeof.least_path_share", "nvmeof.read_bw")
SHARE = "nvmeof.path_share"
_HEAD = re.compile(r"nvme[0-9]{1,5}n[0-9]{1,5}")
_SLACK_S = 60.0


def argv(witness: Witness, heads: tuple[str, ...], workload: PathsWorkload) -> tuple[str, ...]:
    """Return the fio that reads `heads` (names of block devices) and can't write to them."""
    return witness.host.as_root(
        "fio",
        "--name=paths",
        "--readonly",
        "--rw=randread",
        f"--bs={int(workload.block.base)}",
        "--direct=1",
        "--ioengine=psync",
        "--thread",
        f"--numjobs={workload.jobs}",
        "--group_reporting",
        "--time_based",
        f"--runtime={int(workload.runtime.to('ms'))}ms",
        f"--filename={':'.join(f'/dev/{head}' for head in heads)}",
        "--output-format=json",
    )


def run(
    witness: Witness,
    declared: NvmeSubsystem,
    workload: PathsWorkload,
    around: Around = contextlib.nullcontext,
) -> Answer:
    """Read the namespaces of `declared` and return how evenly its paths carried that.

    1. The paths' own counters (``nvmeXcYnZ/stat``); 2. fio reads the block devices that multipath
    shows; 3. the counters again. ``nvmeof.least_path_share`` is what the path with the least
    carried, of an even share (100 %); a declared path that is absent carried nothing, and one
    that is non-optimized before and after, where others are optimized, is left out.

    A controller that is another one afterwards, a counter that went back, or too little traffic is
    a problem, no share. Raises TransportError where the host can't be asked.
    """
    before, asked = nvmeof.look(witness)
    refs = [each.ref for each in asked]
    heads = _heads(before, declared)
    if not heads:
        why = (
            f"{witness.host.name}: no multipath device of {declared.nqn} to read: is it connected, "
            "and nvme_core's multipath on?"
        )
        return _answer(declared, untold(MEASURES, why, [declared.name]), {}, refs, why)
    with around():
        told = witness.ask(
            argv(witness, heads, workload), timeout_s=workload.runtime.to("s") + _SLACK_S
        )
    refs.append(told.ref)
    after, asked = nvmeof.look(witness)
    refs += [each.ref for each in asked]
    if not told.result.ok:
        why = f"{refusal(told, 'fio')}; see the host's kernel log, and `nvme list-subsys`"
        return _answer(declared, untold(MEASURES, why, [declared.name]), {}, refs, why)
    carried = _carried(witness, declared, before, after)
    if carried.problem:
        untold_ = untold(MEASURES, carried.problem, [declared.name])
        return _answer(declared, untold_, {}, refs, carried.problem)
    return _answer(declared, _shares(declared, workload, carried), carried.bytes, refs, "")


def _heads(found: tuple[Subsystem, ...], declared: NvmeSubsystem) -> tuple[str, ...]:
    heads = [head for each in found if each.nqn == declared.nqn for head in each.heads]
    return tuple(head for head in heads if _HEAD.fullmatch(head))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Carried:
    """Bytes read by declared path; ``even`` are the paths that ought to have carried the same."""

    bytes: Mapping[str, int]
    even: tuple[str, ...]
    problem: str = ""


def _carried(
    witness: Witness,
    declared: NvmeSubsystem,
    before: tuple[Subsystem, ...],
    after: tuple[Subsystem, ...],
) -> _Carried:
    first, last = (nvmeof.match(declared, found).by_path for found in (before, after))
    carried: dict[str, int] = {}
    standby: set[str] = set()
    for path in declared.paths:
        was, is_now = first.get(path.name), last.get(path.name)
        if was is None and is_now is None:
            carried[path.name] = 0
            continue
        told = _read(was), _read(is_now)
        where = f"{witness.host.name}: path {path.name} ({path})"
        if was is None or is_now is None or was.name != is_now.name:
            names = [each.name if each else "absent" for each in (was, is_now)]
            why = f"{where} was {names[0]} and is {names[1]} now: it was connected anew meanwhile"
            return _Carried(bytes={}, even=(), problem=f"{why}; see the kernel log, measure again")
        if told[0] is None or told[1] is None or told[1] < told[0]:
            why = f"{where}: {was.name} counts no bytes, or they went back ({told[0]}, {told[1]})"
            return _Carried(bytes={}, even=(), problem=why)
        carried[path.name] = told[1] - told[0]
        if {*was.ana_states, *is_now.ana_states} == {"non-optimized"}:
            standby.add(path.name)
    even = tuple(name for name in carried if name not in standby) or tuple(carried)
    return _Carried(bytes=carried, even=even)


def _read(controller: Controller | None) -> int | None:
    sectors = [path.sectors_read for path in controller.paths] if controller else []
    known = [each for each in sectors if each is not None]
    return SECTOR_BYTES * sum(known) if known and len(known) == len(sectors) else None


def _shares(declared: NvmeSubsystem, workload: PathsWorkload, carried: _Carried) -> list[Reading]:
    total = sum(carried.bytes[name] for name in carried.even)
    rate = Quantity.of(round(sum(carried.bytes.values()) / workload.runtime.to("s")), "B/s")
    share = None
    if total >= workload.least.base:
        least = min(carried.bytes[name] for name in carried.even)
        share = Quantity.of(round(100 * least * len(carried.even) / total, 2), "%")
    why = (
        f"only {total} B were read by all paths together: less than {workload.least} tells nothing"
    )
    return [
        reading(MEASURES[0], share, why, item=declared.name),
        reading(MEASURES[1], rate, item=declared.name),
    ]


def _answer(
    declared: NvmeSubsystem,
    readings: list[Reading],
    carried: Mapping[str, int],
    refs: list[EvidenceRef],
    problem: str,
) -> Answer:
    return Answer((*readings, *_each(declared, carried, problem)), tuple(dict.fromkeys(refs)))


def _each(declared: NvmeSubsystem, carried: Mapping[str, int], problem: str) -> Iterator[Reading]:
    total = sum(carried.values())
    for path in declared.paths:
        share = None
        if total:
            share = Quantity.of(round(100 * carried[path.name] / total, 2), "%")
        yield reading(SHARE, share, problem or "nothing was read", item=declared.item(path))
