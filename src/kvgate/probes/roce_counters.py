"""Counters of loss, retry, congestion and pause of declared ports, and what moved in a window."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping

from kvgate.errors import CommandError, ParseError
from kvgate.model.quantity import Quantity
from kvgate.model.record import Reading
from kvgate.parse import ethtool, rdma_sysfs
from kvgate.parse.rdma_sysfs import CNP, CNP_SENT, MARKED
from kvgate.probes import port_tools
from kvgate.probes.base import PLAIN, SHORT_S, answer, reading, untold
from kvgate.probes.rdma import SYSFS
from kvgate.spec.inventory import Host
from kvgate.witness import Answer, Testimony, Witness

__all__ = ["SYSFS", "Taken", "moved", "since", "take", "watched"]

MEASURES = (
    "roce.moved_losses",
    "roce.cnp_rate",
    "roce.pause_share",
    "roce.congestion_ignored",
)
UPTIME = ("cat", "/proc/uptime", "/proc/sys/kernel/random/boot_id")
LOSSES = (
    rdma_sysfs.LOSS | port_tools.LOSSES | {f"rx_discard_bytes_cos{queue}" for queue in range(8)}
)
"""Loss and damage as hw_counters and ``ethtool -S`` count it (mlx5, ionic, bnxt; cos: bnxt_en)."""

_PAUSED = re.compile(r"rx_prio[0-7]_pause_duration")
"""Time for which a priority was told to pause, in microseconds (mlx5: rx_prioN_pause_duration)."""

IGNORED = "rp_cnp_ignored"
NONE = "none"


@dataclasses.dataclass(frozen=True, slots=True)
class Taken:
    """The counters of each declared port at one moment of a boot; a port without any is absent."""

    boot: str
    uptime_s: float
    ports: Mapping[str, Mapping[str, int]]


def watched(host: Host) -> tuple[str, ...]:
    """Return the ports that are looked at: the declared ones, and those of declared pairs."""
    return tuple(dict.fromkeys((*host.items("nic"), *host.items("roce"))))


def take(witness: Witness) -> tuple[Taken, list[Testimony]]:
    """Return the counters of every watched port now, from sysfs and ``ethtool -S``.

    Raises CommandError where the host tells no uptime; a port that tells nothing is left out.
    """
    asked = [
        witness.ask(UPTIME, timeout_s=SHORT_S, env=PLAIN),
        witness.ask(SYSFS, timeout_s=SHORT_S, env=PLAIN),
    ]
    words = asked[0].stdout.decode("ascii", "replace").split()
    if len(words) < 3 or not re.fullmatch(r"[0-9]{1,10}\.[0-9]{1,3}", words[0]):
        raise CommandError(witness.host.name, "/proc/uptime tells no time since boot")
    ports: dict[str, dict[str, int]] = {}
    if asked[1].result.exit_status == 0:
        for device in rdma_sysfs.devices(asked[1].stdout):
            for port in device.ports:
                for netdev in port.roce_v2:
                    ports.setdefault(netdev, {}).update(port.counters)
    items = watched(witness.host)
    for item in items:
        told = witness.ask(("ethtool", "-S", item), timeout_s=SHORT_S, env=PLAIN)
        asked.append(told)
        ports.setdefault(item, {}).update(_statistics(told))
    kept = {nic: counters for nic, counters in ports.items() if nic in items and counters}
    return Taken(words[2], float(words[0]), kept), asked


def since(witness: Witness, before: tuple[Taken, list[Testimony]]) -> Answer:
    """Return what moved on every watched port since `before`, which `take` returned."""
    (first, asked), (last, more) = before, take(witness)
    found = moved(witness.host.name, watched(witness.host), first, last)
    return answer(found, *asked, *more)


def _statistics(told: Testimony) -> Mapping[str, int]:
    """Return the counters that ethtool tells, {} where it tells none."""
    try:
        return ethtool.statistics(told.result.stdout)[0].counters if told.result.ok else {}
    except ParseError:
        return {}


def moved(host: str, items: Iterable[str], before: Taken, after: Taken) -> list[Reading]:
    """Return what moved on each of `items` between two moments.

    A counter that went back, or a host that booted in between, makes a problem of it, no number:
    what was counted since can't be known.
    """
    found: list[Reading] = []
    for item in items:
        first, last = before.ports.get(item), after.ports.get(item)
        if before.boot != after.boot:
            found += untold(MEASURES, f"{host} has booted again within the window", [item])
        elif first is None or last is None:
            found += untold(MEASURES, f"{item} of {host} tells no counters", [item])
        elif back := [name for name in first if last.get(name, -1) < first[name]]:
            what = f"{back[0]} of {item} went from {first[back[0]]} to {last.get(back[0], NONE)}"
            why = f"{host}: {what} within the window: was its driver loaded again?"
            found += untold(MEASURES, why, [item])
        else:
            change = {name: last[name] - first[name] for name in first}
            found += _told(host, item, change, after.uptime_s - before.uptime_s)
    return found


def _told(host: str, item: str, change: Mapping[str, int], window_s: float) -> Iterable[Reading]:
    losses = {name: count for name, count in change.items() if name in LOSSES}
    grew = ", ".join(f"{name} +{count}" for name, count in sorted(losses.items()) if count)
    why = f"{item} of {host} has no counter of loss that kvgate knows"
    yield reading(MEASURES[0], (grew or NONE) if losses else None, why, item=item)
    marks = [count for name, count in change.items() if name in CNP]
    rate = Quantity.of(round(sum(marks) / window_s, 3), "Hz") if marks and window_s > 0 else None
    why = f"{item} of {host} has no counter of CNPs that kvgate knows"
    yield reading(MEASURES[1], rate, why, item=item)
    paused = [count for name, count in change.items() if _PAUSED.fullmatch(name)]
    share = None
    if paused and window_s > 0:
        share = Quantity.of(round(100 * max(paused) / 1e6 / window_s, 4), "%")
    why = f"{item} of {host} does not count for how long it is paused"
    yield reading(MEASURES[2], share, why, item=item)
    yield reading(MEASURES[3], _ignored(change), f"{item} of {host} counts no CNPs", item=item)


def _ignored(change: Mapping[str, int]) -> str | None:
    """Return what is wrong with the answer to congestion: ``none``, or what; None: not counted."""
    if not (CNP | {IGNORED}) & change.keys():
        return None
    if ignored := change.get(IGNORED):
        return f"{IGNORED} +{ignored}"
    sent = sum(count for name, count in change.items() if name in CNP_SENT)
    marked = [count for name, count in change.items() if name in MARKED]
    if sent and marked and not sum(marked):
        return f"{sent} CNPs sent and no packet marked"
    return NONE
