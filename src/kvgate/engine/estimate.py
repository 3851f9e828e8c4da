"""What a gate will cost, before it starts: time and bytes written. Estimates, and shown as such."""

from __future__ import annotations

import dataclasses

from kvgate.engine import estimate_pts
from kvgate.serving.config import MODELS
from kvgate.spec.failover import FailoverWorkload
from kvgate.spec.inventory import Inventory
from kvgate.spec.plan import Plan
from kvgate.spec.service_level import LoadWorkload
from kvgate.spec.workload import KvWorkload, SoakWorkload, Workloads, arm_of
from kvgate.workloads import diagnostics, failover, fio, grid, replay_plan
from kvgate.workloads.pts import Range

_PREFILL_TOK_S = 900.0  # the embedded engine's prefill on one core of a 2-core VM, measured
_ENGINE_START_S = 2.0  # to start and stop the embedded engine once, measured there too
_FACTS_S = 5.0  # asking hosts for facts in parallel, measured
_AROUND_S = 3.0  # to begin and to end one reading of paths, or one run of perftest
_MODEL = "tiny"


@dataclasses.dataclass(frozen=True, slots=True)
class Cost:
    """Estimated seconds and bytes written, of a gate or of several.

    ``most_seconds`` is what it takes where more rounds than the fewest are needed; None: as much.
    """

    seconds: float
    bytes_written: int
    most_seconds: float | None = None

    @property
    def longest(self) -> float:
        """Return the seconds at most."""
        return self.seconds if self.most_seconds is None else self.most_seconds

    def __add__(self, other: Cost) -> Cost:
        most = self.longest + other.longest
        seconds = self.seconds + other.seconds
        written = self.bytes_written + other.bytes_written
        return Cost(seconds, written, None if most == seconds else most)

    @property
    def time(self) -> str:
        """Return the time as people say it: ``about 1 h 2 min``, ``about 1 h to 5 h``."""
        least, most = _told(self.seconds), _told(self.longest)
        return f"about {least}" + (f" to {most}" if most != least else "")

    def __str__(self) -> str:
        if not self.bytes_written:
            return f"{self.time}, nothing written"
        return f"{self.time}, at most {self.bytes_written / 10**9:.2f} GB written"


def _told(all_seconds: float) -> str:
    minutes, seconds = divmod(round(all_seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "min"), (seconds, "s"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number) or "0 s"


def cost_of(plan: Plan, gate: str, inventory: Inventory | None = None) -> Cost:
    """Return what `gate` costs by the plan's workloads.

    Raises NotRunError for drives of SNIA's tests whose size `inventory` does not declare.
    """
    loads = plan.workloads
    if gate == "G2" and (parts := [*_paths(loads, inventory).values(), *_pts(plan, inventory)]):
        return sum(parts, start=Cost(0.0, 0))
    if gate == "G3" and (parts := _tiering(loads, inventory)):
        return sum(parts, start=Cost(0.0, 0))
    if gate == "G4" and loads.soak:
        return _soak(loads.soak)
    if gate == "G1" and loads.diagnostics:
        return Cost(_FACTS_S + diagnostics.estimate(loads.diagnostics).seconds, 0)
    return Cost(_FACTS_S, 0)


def long_of(plan: Plan, gate: str, inventory: Inventory) -> tuple[tuple[str, Cost], ...]:
    """Return the parts of `gate` that take their time, in their order, and what each costs.

    The long diagnostics of G1; the workloads of G2 but SNIA's tests.
    """
    asked = plan.workloads.diagnostics
    if gate == "G2":
        return tuple(_paths(plan.workloads, inventory).items())
    if gate != "G1" or asked is None:
        return ()
    listed = diagnostics.durations(asked)
    return tuple((name, Cost(seconds, 0)) for name, seconds in listed)


def tests_of(plan: Plan, gate: str, inventory: Inventory) -> tuple[str, ...]:
    """Return a line for each of SNIA's tests: its loop, time, bytes and wear.

    Raises NotRunError as `cost_of`.
    """
    workload = plan.workloads.pts
    if gate != "G2" or workload is None:
        return ()
    planned = estimate_pts.planned(plan, inventory)
    return tuple(estimate_pts.line(workload, each, _pts_cost(each.cost).time) for each in planned)


def _pts(plan: Plan, inventory: Inventory | None) -> list[Cost]:
    return [_pts_cost(each.cost) for each in estimate_pts.planned(plan, inventory)]


def _pts_cost(each: Range) -> Cost:
    return Cost(each.least_s, each.bytes_written, each.most_s)


def _paths(loads: Workloads, inventory: Inventory | None) -> dict[str, Cost]:
    """Return what each part of G2 but SNIA's tests costs: serving hosts are one after the other."""
    hosts = len(inventory.with_role("serving")) if inventory else 1
    found = {"fio": fio.estimate(loads.fio)} if loads.fio else {}
    if loads.fio_arms:
        found["fio_arms"] = fio.estimate(loads.fio_arms, arms=loads.fio_arms.runs)
    found |= {f"grids.{name}": grid.estimate(each) for name, each in loads.grids.items()}
    costs = {name: Cost(e.seconds * hosts, e.bytes_written * hosts) for name, e in found.items()}
    if loads.fio_together and hosts > 1:
        each = fio.estimate(loads.fio_together)
        costs["fio_together"] = Cost(each.seconds, each.bytes_written * hosts)
    costs |= _fabric(loads, inventory)
    if loads.failover:
        each = failover.estimate(loads.failover, _holds_s(loads.failover, inventory))
        costs["failover"] = Cost(each.seconds, each.bytes_written)
    return costs


def _fabric(loads: Workloads, inventory: Inventory | None) -> dict[str, Cost]:
    """Return what reads over all paths and RDMA between hosts cost; both only read or send."""
    hosts = inventory.with_role("serving") if inventory else ()
    subsystems = sum(len(host.declared.nvmeof) for host in hosts)
    links = sum(len(host.declared.fabric) for host in hosts)
    costs: dict[str, Cost] = {}
    if loads.paths and subsystems:  # one after the other
        costs["paths"] = Cost(subsystems * (loads.paths.runtime.to("s") + _AROUND_S), 0)
    if loads.perftest and links:  # each in both directions by each tool, and all together once
        runs = len(loads.perftest.tools) * (2 * links + 1)
        costs["perftest"] = Cost(runs * (loads.perftest.runtime.to("s") + _AROUND_S), 0)
    return costs


def _holds_s(load: FailoverWorkload, inventory: Inventory | None) -> list[float]:
    """Return how long each fault of the plan lasts, as the inventory or else the plan says."""
    known = {each.fault: each.hold for each in inventory.faults} if inventory else {}
    return [(known.get(name) or load.hold).to("s") for name in load.faults]


def _tiering(loads: Workloads, inventory: Inventory | None) -> list[Cost]:
    """Return what each part of G3 costs; replay is on one serving host after the other."""
    found = [_kv(loads.kv)] if loads.kv else []
    found += [_level(loads.load)] if loads.load else []
    if loads.replay:
        hosts = len(inventory.with_role("serving")) if inventory else 1
        each = replay_plan.estimate(loads.replay)
        found.append(Cost(each.seconds * hosts, each.bytes_written * hosts))
    return found


def _kv(load: KvWorkload) -> Cost:
    """Return G3's cost: every session stored once, then restored or computed in every block."""
    prefill_s = load.sessions * load.prompt_tokens / _PREFILL_TOK_S
    blocks = load.rounds * len(load.concurrency)
    computed = sum(arm_of(run) == "recompute" for run in load.runs)
    computing = computed * blocks * prefill_s + prefill_s
    starts = (blocks * len(load.runs) + 1) * _ENGINE_START_S
    return Cost(computing + starts, load.sessions * _session_bytes(load.prompt_tokens))


def _level(load: LoadWorkload) -> Cost:
    """Return what a search costs: all stored once, and on recompute each level computed.

    A level has three requests a user, so it takes three times as long as the limit of TTFT at most,
    and is stopped then. As in `_kv`, restores and decoding are not counted.
    """
    prefill_s = load.prompt_tokens / _PREFILL_TOK_S
    steps = 2 * load.most.bit_length() + 2 * load.repeats
    limit = load.level.ttft
    level_s = 3 * min(load.most * prefill_s, limit.to("s") if limit else float("inf"))
    costs = [
        Cost(steps * level_s + _ENGINE_START_S, 0)
        if arm == "recompute"
        else Cost(
            load.sessions * prefill_s + 2 * _ENGINE_START_S,
            load.sessions * _session_bytes(load.prompt_tokens),
        )
        for arm in load.arms
    ]
    return sum(costs, Cost(0, 0))


def _session_bytes(tokens: int) -> int:
    model = MODELS[_MODEL]
    return -(-tokens // model.block) * model.block_bytes


def _soak(load: SoakWorkload) -> Cost:
    """Return G4's cost: its duration, one fio file, and what its mix writes at most a window."""
    seconds = load.duration.to("s")
    file_bytes = int(load.fio_size.to("B"))
    windows = -(-seconds // load.window.to("s"))
    return Cost(seconds + _ENGINE_START_S + _FACTS_S, int(file_bytes * (1 + windows)))
