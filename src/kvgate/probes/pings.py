"""What goes through in one piece: unfragmented pings of full size, from one address to another."""

from __future__ import annotations

import ipaddress

from kvgate.errors import ParseError
from kvgate.model.quantity import Quantity
from kvgate.model.record import Reading
from kvgate.parse import ping
from kvgate.probes.base import PLAIN, Probe, answer, reading, refusal
from kvgate.witness import Answer, Testimony, Witness

MEASURES = ("nvmeof.path_mtu",)
USUAL = (9000, 4200, 1500, 1280)
"""MTUs that are tried, the largest first, where the declared one does not go through (bytes)."""

COUNT = 3
PING_S = 20.0
IPV4_HEAD, IPV6_HEAD = 28, 48
"""Bytes of IP and ICMP before the payload."""


def argv(target: str, mtu: int, source: str | None) -> tuple[str, ...]:
    """Return the pings of `mtu` bytes that nothing on the way may cut."""
    head = IPV4_HEAD if ipaddress.ip_address(target).version == 4 else IPV6_HEAD
    origin = ("-I", source) if source else ()
    few = ("-c", str(COUNT), "-i", "0.2", "-W", "2")
    return ("ping", "-n", "-M", "do", "-s", str(mtu - head), *few, *origin, target)


def through(
    witness: Witness, measure: str, item: str, target: str, mtu: int, source: str | None = None
) -> tuple[Reading, list[Testimony]]:
    """Return the largest MTU that goes through whole to `target`: the declared `mtu`, or less.

    1. The declared one is tried. 2. If it is not answered, the usual ones below it. An address
    that answers none of them is a problem, no MTU: it may be down, or answer no ping.
    """
    asked: list[Testimony] = []
    why = ""
    for size in (mtu, *(each for each in USUAL if each < mtu)):
        told = witness.ask(argv(target, size, source), timeout_s=PING_S, env=PLAIN)
        asked.append(told)
        try:
            found = ping.pinged(told.result.stdout + told.result.stderr)
        except ParseError as err:
            bad = told.result.exit_status not in (0, 1)
            why = refusal(told, "iputils-ping") if bad else err.message
            break
        if found.whole:
            return reading(measure, Quantity.of(size, "B"), item=item), asked
        why = (
            f"{witness.host.name}: {target} answered {found.received} of {found.sent} pings of "
            f"{size} B: is it up, and does it answer pings? `{' '.join(told.result.argv)}`"
        )
    return reading(measure, None, why, item=item), asked


def ask_paths(witness: Witness) -> Answer:
    """Return for every declared path, whose subsystem has an MTU, what goes through to the array.

    The array's answer is as long as the question, so that both ways are proven.
    """
    readings: list[Reading] = []
    asked: list[Testimony] = []
    for declared in witness.host.declared.nvmeof:
        if declared.mtu is None:
            continue
        for path in declared.paths:
            found, more = through(
                witness,
                MEASURES[0],
                declared.item(path),
                path.target,
                int(declared.mtu.base),
                path.host,
            )
            readings.append(found)
            asked += more
    return answer(readings, *asked)


PATHS = Probe(
    name="nvmeof path mtu", measures=MEASURES, ask=ask_paths, tools=("ping",), items="path"
)
"""Asked by G2's suite only: pings take seconds where nothing answers."""
