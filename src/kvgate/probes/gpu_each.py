"""Each declared GPU by its PCI address: there, whole, without errors, cool, and near which NICs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kvgate.model.quantity import Quantity, counted
from kvgate.model.record import Reading, Value
from kvgate.parse import gpu_sysfs
from kvgate.parse.gpu_sysfs import Card
from kvgate.probes import gpus
from kvgate.probes.base import (
    PLAIN,
    SHORT_S,
    Command,
    Probe,
    answer,
    reading,
    shifted,
    untold,
)
from kvgate.spec.inventory import Host
from kvgate.witness import Answer, Witness

MEASURES = (
    "card.present",
    "card.hbm_size",
    "card.vbios",
    "card.compute_partition",
    "card.memory_partition",
    "card.ras_correctable",
    "card.ras_uncorrectable",
    "card.bad_pages",
    "card.power_cap",
    "card.temperature",
    "card.busy",
    "card.bar_size",
    "card.large_bar",
    "card.numa_node",
    "card.near_nics",
)
"""``card.busy`` tells whether its temperature is that of rest."""


def ask_each(witness: Witness) -> Answer:
    """Return `MEASURES` of every GPU whose address is declared."""
    wanted = witness.host.items("gpu")
    if not wanted:
        return Answer((), ())
    found, why, asked = gpus.driven(witness)
    ports = witness.ask(gpus.NODES, timeout_s=SHORT_S, env=PLAIN)
    nodes = gpu_sysfs.nodes(ports.result.stdout) if ports.result.exit_status == 0 else {}
    if not found and all(each.result.exit_status != 0 for each in asked):
        return answer(untold(MEASURES, why, wanted), *asked, ports)
    cards = {card.address: card for card in found}
    readings: list[Reading] = []
    for address in wanted:
        card = cards.get(address)
        readings.append(reading("card.present", card is not None, item=address))
        absent = f"no driver drives a GPU at {address}"
        if card is None:
            readings += untold(MEASURES[1:], absent, [address])
        else:
            readings += _told(card, _near(card, witness.host, nodes))
    return answer(readings, *asked, ports)


def _near(card: Card, host: Host, nodes: Mapping[str, int]) -> str | None:
    """Return the declared ports on the GPU's NUMA node; None where a node is not told."""
    names = [nic.name for nic in host.declared.nics]
    if card.numa_node is None or not names or any(name not in nodes for name in names):
        return None
    return ", ".join(name for name in names if nodes[name] == card.numa_node) or "none"


def _told(card: Card, near: str | None) -> Iterable[Reading]:
    odd = ", ".join(card.implausible)
    caps, heat, bar = card.power_cap_uw, card.temperature_mc, card.bar_bytes
    values: dict[str, Value | None] = {
        "card.hbm_size": gpus.size_of(card.vram_bytes),
        "card.vbios": card.vbios,
        "card.compute_partition": card.compute_partition,
        "card.memory_partition": card.memory_partition,
        "card.ras_correctable": counted(card.correctable),
        "card.ras_uncorrectable": counted(card.uncorrectable),
        "card.bad_pages": counted(card.bad_pages),
        "card.power_cap": None if caps is None else shifted(caps, 6, "W"),
        "card.temperature": None if heat is None else shifted(heat, 3, "degC"),
        "card.busy": None if card.busy_pct is None else Quantity.of(card.busy_pct, "%"),
        "card.bar_size": gpus.size_of(bar),
        "card.large_bar": gpus.large_bar(card),
        "card.numa_node": counted(card.numa_node),
        "card.near_nics": near,
    }
    for name, value in values.items():
        silent = f"its driver does not tell it of {card.address}"
        ras = odd and name.startswith("card.ras")
        why = f"counters read all ones, is it suspended? {odd}" if ras else silent
        yield reading(name, value, why, item=card.address)


def _commands(host: Host) -> tuple[Command, ...]:
    return gpus.cards_and(gpus.NODES)(host) if host.items("gpu") else ()


PROBES: tuple[Probe, ...] = (
    Probe(
        name="gpu each",
        measures=MEASURES,
        ask=ask_each,
        commands=_commands,
        tools=("nvidia-smi",),
        items="gpu",
    ),
)
