"""NVIDIA's GPUs: what nvidia-smi and sysfs tell of them, in the form that AMD's have."""

from __future__ import annotations

from kvgate.errors import ParseError
from kvgate.parse import gpu_sysfs, nvidia_smi
from kvgate.parse.gpu_sysfs import Card
from kvgate.parse.nvidia_smi import NvidiaGpu
from kvgate.probes.base import (
    PLAIN,
    SHORT_S,
    Command,
    class_argv,
    once,
    refusal,
)
from kvgate.witness import Testimony, Witness

MAKER = "10de"
SLOW_S = 30.0
"""nvidia-smi wakes every GPU where no persistence daemon runs: some seconds."""

QUERY = ("nvidia-smi", f"--query-gpu={','.join(nvidia_smi.FIELDS)}", "--format=csv")
SYSFS = class_argv("/sys/bus/pci/drivers/nvidia", "0*/device", "0*/numa_node", "0*/resource")
DRIVER = ("cat", "/sys/module/nvidia/version")
COMMANDS = (Command(argv=QUERY, timeout_s=SLOW_S), Command(argv=SYSFS))
_query = once(nvidia_smi.query)
_placed = once(gpu_sysfs.cards)


def cards(witness: Witness) -> tuple[tuple[Card, ...], str, tuple[Testimony, ...]]:
    """Return the GPUs, why there are none, and what was asked."""
    asked = witness.ask(QUERY, timeout_s=SLOW_S, env=PLAIN)
    if not asked.result.ok:
        said = asked.result.stdout.decode("utf-8", "replace").strip()
        return (), said[:200] or refusal(asked, "nvidia-utils"), (asked,)
    placed = witness.ask(SYSFS, timeout_s=SHORT_S, env=PLAIN)
    try:
        told = _query(asked.stdout)
    except ParseError as err:
        return (), err.message, (asked, placed)
    known = _placed(placed.result.stdout) if placed.result.exit_status == 0 else ()
    places = {card.address: card for card in known}
    return tuple(_card(gpu, places.get(gpu.address)) for gpu in told), "", (asked, placed)


def _card(gpu: NvidiaGpu, place: Card | None) -> Card:
    pages = (gpu.pages_single_bit, gpu.pages_double_bit)
    watts = gpu.power_limit_w
    return Card(
        address=gpu.address,
        device=place.device if place else "",
        vram_bytes=None if gpu.memory_mib is None else gpu.memory_mib * 2**20,
        vbios=gpu.vbios,
        serial=gpu.serial,
        compute_partition=None,
        memory_partition=None,
        numa_node=place.numa_node if place else None,
        power_cap_uw=None if watts is None else int(watts.scaleb(6)),
        temperature_mc=None if gpu.temperature_c is None else gpu.temperature_c * 1000,
        bar_bytes=place.bar_bytes if place else None,
        busy_pct=gpu.busy_pct,
        correctable=gpu.ecc_corrected,
        uncorrectable=gpu.ecc_uncorrected,
        bad_pages=None if None in pages else sum(each or 0 for each in pages),
        implausible=(),
    )
