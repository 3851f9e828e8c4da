"""G2: every NVMe-oF path that is declared is there, as agreed, and carries its share."""

from __future__ import annotations

import functools

from kvgate.engine import path_traffic
from kvgate.model.quantity import Quantity
from kvgate.model.record import Reading
from kvgate.probes import kernel_since, nvmeof_discovery, nvmeof_paths, pings, roce_counters
from kvgate.probes.kernel_since import BootMark
from kvgate.spec.fabric_load import PathsWorkload
from kvgate.spec.inventory import Host
from kvgate.suite import Bench, NotRunError, settles
from kvgate.witness import Answer, Witness

MESSAGES = ("log.new_nvme_errors", "log.new_network_errors", "log.new_link_flaps")
"""What the kernel says of paths, by the measures of its log."""


@settles(
    "G2.100", "G2.101", "G2.102", "G2.103", "G2.104", "G2.105", "G2.106", "G2.107", "G2.108",
    "G2.109", "G2.110", "G2.111", "G2.112", "G2.113", "G2.114", "G2.115", "G2.116", "G2.117",
)  # fmt: skip
def test_paths_are_as_declared(bench: Bench) -> None:
    """Ask every initiator for its subsystems, controllers and their settings, from sysfs."""
    bench.survey(nvmeof_paths.PROBES, _initiators(bench), phase="inspection")


@settles("G2.118")
def test_discovery_lists_the_paths(bench: Bench) -> None:
    """Ask every declared discovery service, from every initiator, what it offers."""
    hosts = [h for h in _initiators(bench) if any(each.discovery for each in h.declared.nvmeof)]
    bench.require("" if hosts else "no subsystem of the inventory declares a 'discovery' service")
    bench.survey(nvmeof_discovery.PROBES, hosts, phase="inspection")


@settles("G2.119")
def test_full_frames_reach_the_array_whole(bench: Bench) -> None:
    """Send pings of the declared MTU that nothing may cut, from every path's own address."""
    hosts = [h for h in _initiators(bench) if any(each.mtu for each in h.declared.nvmeof)]
    bench.require("" if hosts else "no subsystem of the inventory declares an 'mtu'")
    bench.survey([pings.PATHS], hosts, phase="inspection")


@settles("G2.120", "G2.121", "G2.122", "G2.123", "G2.124", "G2.125")
def test_every_path_carries_its_share(bench: Bench) -> None:
    """Read each subsystem, and compare what its paths, their ports and the kernel tell of it."""
    workload = bench.plan.workloads.paths
    if workload is None:
        raise NotRunError(
            ("the plan sets no workloads.paths",), hint="add 'paths: {runtime: 30 s}' to it"
        )
    for host in _initiators(bench):
        for block in bench.blocks("paths", host=[host.name]):
            with block:
                _measure(bench, host, workload)


def _initiators(bench: Bench) -> tuple[Host, ...]:
    found = tuple(host for host in bench.hosts("serving") if host.declared.nvmeof)
    if not found:
        raise NotRunError(
            ("no serving host declares NVMe-oF subsystems",),
            hint="declare them under 'declared: nvmeof:', see docs/nvmeof.md",
        )
    return found


def _measure(bench: Bench, host: Host, workload: PathsWorkload) -> None:
    """Read one host's subsystems between two looks at its counters and at its kernel log."""
    witness = bench.witness(host)
    before = roce_counters.take(witness)
    mark = kernel_since.mark(witness)
    around = functools.partial(bench.child, "fio", host=host.name)
    for declared in host.declared.nvmeof:
        with bench.step(f"Read {declared.name} over all its paths", host=host.name, awaits="fio"):
            told = path_traffic.run(witness, declared, workload, around)
        bench.record(told, host=host, phase="steady_state", load="nvme")
    moved = roce_counters.since(witness, before)
    bench.record(moved, host=host, phase="steady_state", load="nvme")
    bench.record(_messages(witness, mark), host=host, phase="steady_state", load="nvme")


def _messages(witness: Witness, mark: BootMark) -> Answer:
    """Return how many messages of paths the kernel logged since `mark`, as one reading."""
    told = kernel_since.ask_since(witness, mark)
    counted = [each for each in told.readings if each.name in MESSAGES]
    problem = next((each.problem for each in counted if each.value is None), "")
    total = sum(int(each.value.base) for each in counted if isinstance(each.value, Quantity))
    value = None if problem else Quantity.of(total, "")
    return Answer(
        (Reading(name="nvmeof.kernel_messages", value=value, problem=problem),), told.evidence
    )
