"""G2: RoCE between declared pairs: its addresses, its MTU, its rate, and nothing lost."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from kvgate.engine import perftest
from kvgate.engine.perftest import Run, Side
from kvgate.probes import pings, roce, roce_counters
from kvgate.probes.base import answer
from kvgate.spec.expect_fabric import line_rate, mtu_of
from kvgate.spec.fabric import FabricLink
from kvgate.spec.fabric_load import PerftestWorkload
from kvgate.spec.inventory import Host
from kvgate.suite import Bench, Block, NotRunError, settles
from kvgate.witness import Testimony

OUT, BACK, TOGETHER = "out", "back", "together"


@dataclasses.dataclass(frozen=True)
class Pair:
    """A declared link with the host that declares it, and the one that it leads to."""

    host: Host
    link: FabricLink
    to: Host


@settles("G2.140", "G2.141")
def test_gids_are_roce_v2(bench: Bench) -> None:
    """Ask every host with declared pairs for kind and index of its addresses' GIDs."""
    hosts = list(dict.fromkeys(pair.host.name for pair in _pairs(bench)))
    bench.survey(roce.PROBES, [bench.inventory.hosts[n] for n in hosts], phase="inspection")


@settles("G2.142", "G2.143")
def test_full_frames_go_through_both_ways(bench: Bench) -> None:
    """Send pings of the declared MTU that nothing may cut, from each end to the other."""
    for pair in _pairs(bench):
        mtu = mtu_of(pair.host, pair.link)
        if mtu is None:
            continue
        link, size = pair.link, int(mtu.base)
        ways = (
            ("fabric.mtu_out", pair.host, link.to_address, link.address),
            ("fabric.mtu_back", pair.to, link.address, link.to_address),
        )
        for block in bench.blocks("mtu", host=[pair.host.name], link=[link.name]):
            with block:
                for measure, origin, target, source in ways:
                    found, asked = pings.through(
                        bench.witness(origin), measure, link.name, target, size, source
                    )
                    told = answer([found], *asked)
                    bench.record(told, host=pair.host, phase="inspection")


@settles("G2.144", "G2.145", "G2.146", "G2.147")
def test_each_pair_carries_its_rate_both_ways(bench: Bench) -> None:
    """Run perftest on one pair after the other, in both directions."""
    workload = _workload(bench)
    for pair in _pairs(bench):
        blocks = list(
            bench.blocks(
                "perftest",
                host=[pair.host.name],
                link=[pair.link.name],
                tool=workload.tools,
                direction=[OUT, BACK],
            )
        )
        ends = [_ends(bench, pair)] if blocks else []
        for block in blocks:
            with block:
                _measure(bench, ends, workload, block, block["direction"])


@settles("G2.148", "G2.149", "G2.150", "G2.151", "G2.152", "G2.153")
def test_all_pairs_at_once(bench: Bench) -> None:
    """Run perftest on all pairs at once, between two looks at every port's counters."""
    workload, pairs = _workload(bench), _pairs(bench)
    blocks = list(bench.blocks("perftest-together", tool=workload.tools))
    ends = [_ends(bench, pair) for pair in pairs] if blocks else []
    for block in blocks:
        with block:
            hosts = {each.name: each for pair in pairs for each in (pair.host, pair.to)}
            before = {name: roce_counters.take(bench.witness(h)) for name, h in hosts.items()}
            _measure(bench, ends, workload, block, TOGETHER)
            for name, host in hosts.items():
                told = roce_counters.since(bench.witness(host), before[name])
                labels = {"load": "perftest", "tool": block["tool"]}
                bench.record(told, host=host, phase="steady_state", **labels)


def _pairs(bench: Bench) -> list[Pair]:
    found = [
        Pair(host, link, bench.inventory.hosts[link.to])
        for host in bench.hosts("serving")
        for link in host.declared.fabric
    ]
    if not found:
        raise NotRunError(
            ("no serving host declares RoCE pairs",),
            hint="declare them under 'declared: fabric:', see docs/nvmeof.md",
        )
    return found


def _workload(bench: Bench) -> PerftestWorkload:
    workload = bench.plan.workloads.perftest
    if workload is None:
        raise NotRunError(
            ("the plan sets no workloads.perftest",),
            hint="add 'perftest: {runtime: 10 s, tools: [ib_write_bw]}' to it",
        )
    return workload


@dataclasses.dataclass(frozen=True)
class Ends:
    """A pair with both of its sides found, and what was asked for that."""

    pair: Pair
    here: Side
    there: Side
    asked: tuple[Testimony, ...]


def _ends(bench: Bench, pair: Pair) -> Ends:
    """Find both ends: devices as sysfs tells them, GID indices as declared, else as found."""
    link = pair.link
    with bench.asking_for("roce-ends", host=pair.host.name, link=link.name):
        here, first = _side(bench, pair.host, link.nic, link.address, link.gid_index)
        there, second = _side(bench, pair.to, link.to_nic, link.to_address, link.to_gid_index)
    return Ends(pair, here, there, (first, second))


def _side(
    bench: Bench, host: Host, nic: str, address: str, index: int | None
) -> tuple[Side, Testimony]:
    witness = bench.witness(host)
    gid, told = roce.end(witness, nic, address)
    side = Side(
        witness=witness,
        device=gid.device,
        gid_index=gid.index if index is None else index,
        address=address,
    )
    return side, told


def _measure(
    bench: Bench, ends: Sequence[Ends], workload: PerftestWorkload, block: Block, direction: str
) -> None:
    """Run pairs at once and record what each carried, with where its ends are as evidence."""
    tool = next(each for each in workload.tools if each == block["tool"])
    runs = [
        Run(
            link=each.pair.link.name,
            tool=tool,
            sender=each.there if direction == BACK else each.here,
            receiver=each.here if direction == BACK else each.there,
            port=workload.port + number,
            line_rate=line_rate(each.pair.host, each.pair.link),
        )
        for number, each in enumerate(ends)
    ]
    around = functools.partial(bench.child, tool)
    with bench.step(f"{tool}, {direction}: {len(runs)} pair(s)", awaits=tool), around():
        done = perftest.together(runs, workload)
    labels = {"tool": tool, "direction": direction}
    for each, told in zip(ends, done, strict=True):
        refs = tuple(dict.fromkeys((*told.evidence, *(one.ref for one in each.asked))))
        whole = dataclasses.replace(told, evidence=refs)
        bench.record(whole, host=each.pair.host, phase="steady_state", **labels)
