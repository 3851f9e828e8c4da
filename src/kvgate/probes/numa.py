"""NUMA nodes by numactl: memory of each, distances between them."""

from __future__ import annotations

from kvgate.model.quantity import Quantity
from kvgate.parse import numactl
from kvgate.probes.base import PLAIN, SHORT_S, Probe, answer, asks, reading, refusal, untold
from kvgate.witness import Answer, Witness

NUMACTL = ("numactl", "-H")
MEASURES = ("numa.memory_least", "numa.memory_most", "numa.empty_nodes", "numa.distance_most")


def ask_nodes(witness: Witness) -> Answer:
    """Return the memory of the smallest and largest node, nodes without any, and the longest way.

    A missing DIMM shows as one node with less; nodes without memory make every access remote.
    """
    asked = witness.ask(NUMACTL, timeout_s=SHORT_S, env=PLAIN)
    if not asked.result.ok:
        return answer(untold(MEASURES, refusal(asked, "numactl")), asked)
    found = numactl.nodes(asked.stdout)
    sizes = [node.size_mib for node in found]
    known = [size for size in sizes if size is not None]
    ways = [way for node in found for way in node.distances or ()]
    none = "numactl tells no size of a node's memory"
    told = known if len(known) == len(sizes) else []
    full = [size for size in told if size]
    return answer(
        [
            reading(MEASURES[0], Quantity.of(min(full), "MiB") if full else None, none),
            reading(MEASURES[1], Quantity.of(max(full), "MiB") if full else None, none),
            reading(MEASURES[2], Quantity.of(len(told) - len(full), "") if told else None, none),
            reading(
                MEASURES[3],
                Quantity.of(max(ways), "") if ways else None,
                "numactl tells no distances",
            ),
        ],
        asked,
    )


PROBES: tuple[Probe, ...] = (
    Probe(
        name="numa by numactl",
        measures=MEASURES,
        ask=ask_nodes,
        commands=asks(NUMACTL),
        tools=("numactl",),
    ),
)
