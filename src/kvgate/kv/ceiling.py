"""What a path can carry at most, from facts about it: links, ports, queues, datasheets.

A ceiling is a bound that nothing honest exceeds, so overhead counts only where every packet has
it: a figure above the ceiling was not measured on that path. Sources: PCI Express Base
Specification 2.1, 3.0 and 6.0 (8b/10b below 8 GT/s, 128b/130b up to 32 GT/s, 256-byte flits of
which 236 carry transactions at 64 GT/s); InfiniBand Architecture Specification 1.4, annex A17
(RoCEv2); IEEE 802.3 (preamble, frame and gap).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from fractions import Fraction

from kvgate.model.quantity import Quantity

GENERATIONS = {
    "2.5": Fraction(8, 10),
    "5": Fraction(8, 10),
    "8": Fraction(128, 130),
    "16": Fraction(128, 130),
    "32": Fraction(128, 130),
    "64": Fraction(236, 256),
}
"""What part of a lane's bits carries packets, by its GT/s."""

TLP_PAYLOAD, TLP_AROUND = 256, 24
"""Assumed where a usual share is told: payload of a packet, and its framing, header and LCRC."""

ROCE_MTU = 4096
"""Payload of a RoCEv2 packet at most (InfiniBand's largest path MTU)."""

ROCE_AROUND = 8 + 14 + 4 + 12 + 20 + 8 + 12 + 4
"""Preamble, Ethernet, FCS, gap, IPv4, UDP, BTH and ICRC: what every RoCEv2 packet has around it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Ceiling:
    """What one part of a path carries at most, in B/s, and what it follows from."""

    rate: Fraction
    why: str

    @property
    def quantity(self) -> Quantity:
        """Return it in B/s, the fraction of a byte dropped."""
        return Quantity.of(int(self.rate), "B/s")

    def __str__(self) -> str:
        return f"{self.why}: {float(self.rate) / 10**9:.4g} GB/s"


def pcie(speed: Quantity, width: int) -> Ceiling | None:
    """Return what a PCIe link carries after its encoding; None for a speed of no generation."""
    share = GENERATIONS.get(f"{float(speed.base):g}")
    if share is None or not 1 <= width <= 32:
        return None
    return Ceiling(
        speed.base * 10**9 * width * share / 8, f"PCIe {float(speed.base):g} GT/s x{width}"
    )


def usual_share_of_pcie() -> Fraction:
    """Return what part of a link's bytes is payload, at the assumed size of packets (91 %)."""
    return Fraction(TLP_PAYLOAD, TLP_PAYLOAD + TLP_AROUND)


def port(speed: Quantity, transport: str = "") -> Ceiling:
    """Return what an Ethernet port carries; `transport` ``rdma`` takes off RoCEv2's overhead."""
    told = f"{float(speed.base) / 10**9:g} Gb/s port"
    if transport != "rdma":
        return Ceiling(speed.base / 8, told)
    share = Fraction(ROCE_MTU, ROCE_MTU + ROCE_AROUND)
    return Ceiling(speed.base / 8 * share, f"{told}, RoCEv2 at {ROCE_MTU} B a packet")


def queue(depth: int, block_bytes: int, latency: Quantity) -> Ceiling:
    """Return what `depth` requests of `block_bytes` at once carry (J. D. C. Little, 1961).

    `latency` is the least that one request takes, e.g. measured at queue depth 1; raises
    ValueError where it or the depth is not above 0.
    """
    if latency.base <= 0 or depth < 1:
        raise ValueError(f"{depth} requests of {latency} each are no load")
    return Ceiling(
        depth * block_bytes / latency.base, f"{depth} x {block_bytes} B in at least {latency}"
    )


def datasheet(figure: Quantity, drive: str) -> Ceiling:
    """Return a drive's own figure, as the inventory quotes its datasheet."""
    return Ceiling(figure.base, f"datasheet of {drive}")


def in_series(parts: Iterable[Ceiling]) -> Ceiling | None:
    """Return the lowest of the parts that every byte goes through; None of none."""
    return min(parts, key=lambda each: (each.rate, each.why), default=None)


def side_by_side(parts: Sequence[Ceiling]) -> Ceiling | None:
    """Return the sum of the parts that bytes are spread over; None of none."""
    if len(parts) < 2:
        return next(iter(parts), None)
    rate = sum((each.rate for each in parts), start=Fraction(0))
    kinds = dict.fromkeys(each.why for each in parts)
    return Ceiling(rate, f"{len(parts)} together: {'; '.join(kinds)}")


@dataclasses.dataclass(frozen=True, slots=True)
class Branch:
    """One end of a path: the links down to it, the outermost first, each with a name of its own.

    Branches that share a link share what it carries.
    """

    links: tuple[tuple[str, Ceiling], ...]
    end: Ceiling | None = None


def of_tree(branches: Sequence[Branch]) -> Ceiling | None:
    """Return what all branches carry together; None where one of them has no ceiling at all."""
    if any(not each.links and each.end is None for each in branches):
        return None
    below: dict[str, list[Branch]] = {}
    parts: list[Ceiling] = []
    for each in branches:
        if each.links:
            below.setdefault(each.links[0][0], []).append(each)
        elif each.end is not None:
            parts.append(each.end)
    for sharing in below.values():
        own = sharing[0].links[0][1]
        rest = [Branch(each.links[1:], each.end) for each in sharing]
        inner = of_tree(rest)
        lowest = in_series([own, inner] if inner is not None else [own])
        if lowest is not None:
            parts.append(lowest)
    return side_by_side(parts)
