"""The way from a PCIe device up to its root port: links below their ability, AER counters, ACS."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kvgate.model.quantity import Quantity
from kvgate.model.record import Reading
from kvgate.parse import lspci, pcie_tree
from kvgate.parse.pcie_tree import Aer
from kvgate.probes import pci
from kvgate.probes.base import (
    PLAIN,
    SHORT_S,
    Command,
    Probe,
    answer,
    asks,
    if_declared,
    once,
    reading,
    refusal,
    untold,
)
from kvgate.probes.pci import SYSFS
from kvgate.spec.inventory import Host
from kvgate.witness import Answer, Testimony, Witness

TREE = ("ls", "-l", "/sys/bus/pci/devices")
AER = (
    "sh",
    "-c",
    "cd /sys/bus/pci/devices && { grep -asH ^TOTAL_ERR */aer_dev_correctable */aer_dev_nonfatal "
    '*/aer_dev_fatal; grep -asH "" */aer_rootport_total_err_*; test $? -le 2; }',
)
WAY_MEASURES = ("pcie.slow_links", "pcie.slow_link_names")
AER_MEASURES = (
    "pcie.aer_correctable",
    "pcie.aer_nonfatal",
    "pcie.aer_fatal",
    "pcie.root_correctable",
    "pcie.root_nonfatal",
    "pcie.root_fatal",
)
_tree = once(pcie_tree.ways)


def _ways(witness: Witness) -> tuple[dict[str, tuple[str, ...]], Testimony]:
    asked = witness.ask(TREE, timeout_s=SHORT_S, env=PLAIN)
    return _tree(asked.stdout), asked


def _absent(address: str) -> str:
    return f"there is no PCI device {address}"


def ask_ways(witness: Witness) -> Answer:
    """Return how many links between a declared device and its root port run below their ability.

    A link is able to what the weaker of its ends is; a device behind a degraded switch uplink is
    found by this, though its own link is well.
    """
    wanted = [link.address for link in witness.host.declared.pcie]
    if not wanted:
        return Answer((), ())
    found, asked = _ways(witness)
    listed, told = pci.look(witness)
    functions = {each.address: each for each in listed}
    readings: list[Reading] = []
    for address in wanted:
        way = found.get(address)
        slow, compared = pcie_tree.slow_links(way or (), functions)
        why = (
            _absent(address)
            if way is None
            else f"no link on the way to {address} tells its speed: {' – '.join(way)}"
        )
        count = Quantity.of(len(slow), "") if compared else None
        named = "; ".join(map(str, slow)) or "none"
        readings += [
            reading(WAY_MEASURES[0], count, why, item=address),
            reading(WAY_MEASURES[1], named if compared else None, why, item=address),
        ]
    return answer(readings, asked, told)


def ask_aer(witness: Witness) -> Answer:
    """Return AER totals of every declared device with its link partner, and of its root port.

    Counters may go up at the link partner (kernel ABI aer_stats), so both ends count. The root
    port's are the error messages that reached it from all devices below.
    """
    wanted = [link.address for link in witness.host.declared.pcie]
    if not wanted:
        return Answer((), ())
    found, asked = _ways(witness)
    told = witness.ask(AER, timeout_s=SHORT_S, env=PLAIN)
    counters = pcie_tree.aer(told.result.stdout) if told.result.exit_status == 0 else {}
    readings = [
        each for address in wanted for each in _counts(address, found.get(address), counters)
    ]
    return answer(readings, asked, told)


def _counts(address: str, way: Sequence[str] | None, counters: dict[str, Aer]) -> Iterable[Reading]:
    if way is None:
        yield from untold(AER_MEASURES, _absent(address), [address])
        return
    ends = [counters[each] for each in way[-2:] if each in counters]
    root = [counters[way[0]]] if way[0] in counters else []
    own: tuple[Callable[[Aer], int | None], ...] = (
        lambda each: each.correctable,
        lambda each: each.nonfatal,
        lambda each: each.fatal,
    )
    below: tuple[Callable[[Aer], int | None], ...] = (
        lambda each: each.root_correctable,
        lambda each: each.root_nonfatal,
        lambda each: each.root_fatal,
    )
    whole = len(ends) == len(way[-2:])
    for name, of in zip(AER_MEASURES[:3], own, strict=True):
        why = (
            f"{' or '.join(way[-2:])} keeps no AER counters: the kernel or the firmware hides them"
        )
        yield reading(name, _sum(map(of, ends)) if whole else None, why, item=address)
    for name, of in zip(AER_MEASURES[3:], below, strict=True):
        why = f"{way[0]} counts no AER messages: it is no root port with AER"
        yield reading(name, _sum(map(of, root)), why, item=address)


def _sum(counts: Iterable[int | None]) -> Quantity | None:
    told = list(counts)
    known = [each for each in told if each is not None]
    return Quantity.of(sum(known), "") if known and len(known) == len(told) else None


def _bridges(host: Host) -> tuple[str, ...]:
    return host.as_root("lspci", "-Dvvnn", "-d", "::0604")


def ask_acs(witness: Witness) -> Answer:
    """Return pcie.acs: is ACS source validation on at a bridge to the device (it stops P2P DMA)."""
    wanted = [link.address for link in witness.host.declared.pcie]
    if not wanted:
        return Answer((), ())
    found, asked = _ways(witness)
    told = witness.ask(_bridges(witness.host), timeout_s=SHORT_S, env=PLAIN)
    if not told.result.ok or not told.stdout.strip():
        why = refusal(told, "pciutils") if not told.result.ok else "lspci lists no PCI bridge"
        return answer(untold(("pcie.acs",), why, wanted), asked, told)
    bits = {each.slot: each for each in lspci.lspci(told.stdout)}
    readings = []
    for address in wanted:
        on_way = [bits[each] for each in found.get(address, ())[:-1] if each in bits]
        denied = any(each.denied for each in on_way)
        known = [each.acs_bits for each in on_way if each.acs_bits is not None]
        why = (
            "lspci needs root to read ACS"
            if denied
            else f"no bridge on the way to {address} has ACS"
        )
        on = any("SrcValid" in each for each in known) if known and not denied else None
        readings.append(reading("pcie.acs", on, why, item=address))
    return answer(readings, asked, told)


PROBES: tuple[Probe, ...] = (
    Probe(
        name="pcie ways",
        measures=WAY_MEASURES,
        ask=ask_ways,
        commands=if_declared("pcie", asks(TREE, SYSFS)),
        items="pcie",
    ),
    Probe(
        name="pcie errors",
        measures=AER_MEASURES,
        ask=ask_aer,
        commands=if_declared("pcie", asks(TREE, AER)),
        items="pcie",
    ),
    Probe(
        name="pcie acs",
        measures=("pcie.acs",),
        ask=ask_acs,
        commands=if_declared(
            "pcie", lambda host: (Command(argv=TREE), Command(argv=_bridges(host)))
        ),
        tools=("lspci",),
        items="pcie",
    ),
)
