"""GPUs by their driver: all alike, whole, without errors, near their NICs.

AMD's by sysfs (amdgpu), NVIDIA's by nvidia-smi.

Values are of the host: of GPUs that should be alike the one they share, else the worst. What the
driver doesn't tell is asked of amd-smi (`gpu_tools`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kvgate.model.quantity import Quantity
from kvgate.model.record import Reading, Value
from kvgate.parse import gpu_sysfs, pci
from kvgate.parse.gpu_sysfs import Card
from kvgate.probes import gpu_nvidia
from kvgate.probes import pci as pci_probes
from kvgate.probes.base import (
    PLAIN,
    SHORT_S,
    Command,
    Probe,
    answer,
    asks,
    class_argv,
    once,
    reading,
    shifted,
    untold,
)
from kvgate.spec.inventory import Host
from kvgate.witness import Answer, Testimony, Witness

MAKERS = ("1002", "10de")
"""AMD and NVIDIA: whose display controllers and accelerators serve models."""

_FOLDER = "/sys/bus/pci/drivers/amdgpu"
_LIST = class_argv(
    _FOLDER,
    *(
        f"0*/{name}"
        for name in (
            "device",
            "mem_info_vram_total",
            "vbios_version",
            "unique_id",
            "current_compute_partition",
            "current_memory_partition",
            "numa_node",
            "resource",
            "gpu_busy_percent",
            "hwmon/hwmon*/power1_cap",
            "hwmon/hwmon*/temp*_input",
            "ras/*_err_count",
            "ras/gpu_vram_bad_pages",
        )
    ),
)[2]
# An empty list of bad pages is a line too, so that it differs from one that can't be read.
_PAGES = 'for f in 0*/ras/gpu_vram_bad_pages; do [ ! -r "$f" ] || echo "$f:"; done'
CARDS = ("sh", "-c", f"{_LIST} && {_PAGES}")
DRIVER = ("cat", "/sys/module/amdgpu/version")
NODES = class_argv("/sys/class/net", "*/device/numa_node")

MEASURES = (
    "gpu.driven",
    "gpu.hbm_size",
    "gpu.vbios",
    "gpu.compute_partition",
    "gpu.memory_partition",
    "gpu.ras_correctable",
    "gpu.ras_uncorrectable",
    "gpu.bad_pages",
    "gpu.power_cap",
    "gpu.temperature",
    "gpu.busy",
    "gpu.bar_size",
    "gpu.large_bar",
)
NONE_DECLARED = "no GPU is declared for this host"
NOT_AMD = "the declared GPUs are not AMD's"
KFD = class_argv("/sys/class/kfd/kfd/topology/nodes", "*/gpu_id")
_cards = once(gpu_sysfs.cards)


def not_amd(host: Host) -> str:
    """Return why AMD's tools have nothing to tell of `host`; empty where they have."""
    if host.declared.gpus is None:
        return NONE_DECLARED
    return "" if host.declared.gpus.maker != gpu_nvidia.MAKER else NOT_AMD


def driven(witness: Witness) -> tuple[tuple[Card, ...], str, tuple[Testimony, ...]]:
    """Return the GPUs that their driver drives, why there are none, and what was asked."""
    if witness.host.declared.gpus and witness.host.declared.gpus.maker == gpu_nvidia.MAKER:
        return gpu_nvidia.cards(witness)
    asked = witness.ask(CARDS, timeout_s=SHORT_S, env=PLAIN)
    found = _cards(asked.result.stdout) if asked.result.exit_status == 0 else ()
    why = "the amdgpu driver drives no GPU here: not loaded, or bound to another driver"
    return found, "" if found else why, (asked,)


def ask_cards(witness: Witness) -> Answer:
    """Return what the driver tells of the GPUs it drives: `MEASURES` of the host."""
    if witness.host.declared.gpus is None:
        return Answer(tuple(untold(MEASURES, NONE_DECLARED)), ())
    found, why, asked = driven(witness)
    return answer(_told(found) if found else untold(MEASURES, why), *asked)


def _told(found: Sequence[Card]) -> Iterable[Reading]:
    yield reading("gpu.driven", Quantity.of(len(found), ""))
    yield same("gpu.hbm_size", ((c.address, size_of(c.vram_bytes)) for c in found))
    yield same("gpu.vbios", ((c.address, c.vbios) for c in found))
    yield same("gpu.compute_partition", ((c.address, c.compute_partition) for c in found))
    yield same("gpu.memory_partition", ((c.address, c.memory_partition) for c in found))
    odd = [f"{c.address} ({', '.join(c.implausible)})" for c in found if c.implausible]
    implausible = f"counters read all ones, is it suspended? {'; '.join(odd)}" if odd else ""
    yield total("gpu.ras_correctable", ((c.address, c.correctable) for c in found), implausible)
    yield total("gpu.ras_uncorrectable", ((c.address, c.uncorrectable) for c in found), implausible)
    yield total("gpu.bad_pages", ((c.address, c.bad_pages) for c in found))
    caps = [(c.address, c.power_cap_uw) for c in found]
    yield same("gpu.power_cap", ((a, None if w is None else shifted(w, 6, "W")) for a, w in caps))
    heat = [(c.address, c.temperature_mc) for c in found]
    yield worst("gpu.temperature", heat, max, lambda mc: shifted(mc, 3, "degC"))
    busy = [(c.address, c.busy_pct) for c in found]
    yield worst("gpu.busy", busy, max, lambda percent: Quantity.of(percent, "%"))
    bars = [(c.address, c.bar_bytes) for c in found]
    yield worst("gpu.bar_size", bars, min, lambda size: size_of(size) or Quantity.of(size, "B"))
    large = [large_bar(c) for c in found]
    why = "not every GPU tells its memory and its BARs"
    yield reading("gpu.large_bar", None if None in large else all(large), why)


def large_bar(card: Card) -> bool | None:
    """Tell whether all memory of `card` can be reached over PCIe: a BAR is at least as large."""
    if card.bar_bytes is None or card.vram_bytes is None:
        return None
    return card.bar_bytes >= card.vram_bytes


def size_of(size: int | None) -> Quantity | None:
    """Return a size in GiB or MiB where it is a whole number of them, else in bytes."""
    if size is None:
        return None
    gib, rest = divmod(size, 2**30)
    if not rest:
        return Quantity.of(gib, "GiB")
    mib, rest = divmod(size, 2**20)
    return Quantity.of(size, "B") if rest else Quantity.of(mib, "MiB")


def same(name: str, told: Iterable[tuple[str, Value | None]]) -> Reading:
    """Return the value that all GPUs share; a problem names those that differ or don't tell."""
    values = list(told)
    silent = [where for where, value in values if value is None]
    kinds = {value for _, value in values}
    if silent or not kinds:
        return reading(name, None, f"not told by {', '.join(silent) or 'any GPU'}")
    if len(kinds) > 1:
        listed = ", ".join(f"{where} {value}" for where, value in values)
        return reading(name, None, f"the GPUs differ: {listed}")
    return reading(name, kinds.pop())


def total(name: str, told: Iterable[tuple[str, int | None]], problem: str = "") -> Reading:
    """Return the sum over all GPUs; a problem where one doesn't tell its count."""
    values = list(told)
    silent = [where for where, value in values if value is None]
    if problem or silent or not values:
        return reading(name, None, problem or f"not told by {', '.join(silent) or 'any GPU'}")
    return reading(name, Quantity.of(sum(value or 0 for _, value in values), ""))


def worst(
    name: str,
    told: Iterable[tuple[str, int | None]],
    choose: Callable[[list[int]], int],
    shown: Callable[[int], Quantity],
) -> Reading:
    """Return the value that `choose` takes of all GPUs'; a problem where one doesn't tell."""
    values = list(told)
    known = [value for _, value in values if value is not None]
    if len(known) < len(values) or not known:
        silent = [where for where, value in values if value is None]
        return reading(name, None, f"not told by {', '.join(silent) or 'any GPU'}")
    return reading(name, shown(choose(known)))


def ask_others(witness: Witness) -> Answer:
    """Return gpu.seen, the GPUs of AMD or NVIDIA; gpu.others, those that were not declared; which.

    Virtual functions (74b6, 74bc), wrong cards on bare metal, and GPUs in a host that should have
    none are found by this. Nothing but sysfs is asked: a host without GPU has 0.
    """
    wanted = witness.host.declared.gpus
    functions, asked = pci_probes.look(witness)
    seen = [f for f in functions if f.kind in pci.DISPLAY and f.id[:4] in MAKERS]
    others = [f for f in seen if wanted is None or f.id != wanted.id]
    ids = ", ".join(sorted({f.id for f in others})) or "none"
    return answer(
        [
            reading("gpu.seen", Quantity.of(len(seen), "")),
            reading("gpu.others", Quantity.of(len(others), "")),
            reading("gpu.other_ids", ids),
        ],
        asked,
    )


def ask_driver(witness: Witness) -> Answer:
    """Return gpu.driver, the version of the driver's module (in-kernel ones have none)."""
    gpus = witness.host.declared.gpus
    if gpus is None:
        return Answer(tuple(untold(("gpu.driver",), NONE_DECLARED)), ())
    amd = gpus.maker != gpu_nvidia.MAKER
    asked = witness.ask(DRIVER if amd else gpu_nvidia.DRIVER, timeout_s=SHORT_S)
    told = asked.result.stdout.decode("utf-8", "replace").strip()
    why = "the driver's module is not loaded, or is the kernel's own, which has no version"
    version = told if asked.result.ok and told and "\n" not in told else None
    return answer([reading("gpu.driver", version, why)], asked)


def ask_affinity(witness: Witness) -> Answer:
    """Return gpu.far_from_nics: GPUs on whose NUMA node no declared NIC sits."""
    name = "gpu.far_from_nics"
    if witness.host.declared.gpus is None:
        return Answer(tuple(untold((name,), NONE_DECLARED)), ())
    found, _, asked = driven(witness)
    ports = witness.ask(NODES, timeout_s=SHORT_S, env=PLAIN)
    nodes = gpu_sysfs.nodes(ports.result.stdout) if ports.result.exit_status == 0 else {}
    near = {nodes.get(nic.name) for nic in witness.host.declared.nics}
    silent = [card.address for card in found if card.numa_node is None]
    far = [card for card in found if card.numa_node not in near]
    why = f"no NUMA node is told by {', '.join(silent) or 'any GPU'}"
    if not silent and None in near:
        why = "a declared NIC tells no NUMA node"
    known = found and near and not silent and None not in near
    count = Quantity.of(len(far), "") if known else None
    return answer([reading(name, count, why if near else "no NIC is declared")], *asked, ports)


def ask_logical(witness: Witness) -> Answer:
    """Return gpu.logical, the GPUs that programs see: in CPX or TPX each partition is one."""
    name = "gpu.logical"
    if why := not_amd(witness.host):
        return Answer(tuple(untold((name,), why)), ())
    asked = witness.ask(KFD, timeout_s=SHORT_S, env=PLAIN)
    if asked.result.exit_status != 0:
        return answer(untold((name,), "there is no KFD: the amdgpu driver is not loaded"), asked)
    return answer([reading(name, Quantity.of(gpu_sysfs.logical(asked.stdout), ""))], asked)


def cards_and(*argvs: tuple[str, ...]) -> Callable[[Host], tuple[Command, ...]]:
    """Return the `Probe.commands` that ask for the declared GPUs, and `argvs` besides."""
    more = tuple(Command(argv=argv) for argv in argvs)

    def of(host: Host) -> tuple[Command, ...]:
        if host.declared.gpus is None:
            return ()
        nvidia = host.declared.gpus.maker == gpu_nvidia.MAKER
        return (*(gpu_nvidia.COMMANDS if nvidia else (Command(argv=CARDS),)), *more)

    return of


def _driver_commands(host: Host) -> tuple[Command, ...]:
    if host.declared.gpus is None:
        return ()
    nvidia = host.declared.gpus.maker == gpu_nvidia.MAKER
    return (Command(argv=gpu_nvidia.DRIVER if nvidia else DRIVER),)


def _logical_commands(host: Host) -> tuple[Command, ...]:
    return () if not_amd(host) else (Command(argv=KFD),)


PROBES: tuple[Probe, ...] = (
    Probe(
        name="gpu cards",
        measures=MEASURES,
        ask=ask_cards,
        commands=cards_and(),
        tools=("nvidia-smi",),
    ),
    Probe(
        name="gpu others",
        measures=("gpu.seen", "gpu.others", "gpu.other_ids"),
        ask=ask_others,
        commands=asks(pci_probes.SYSFS),
    ),
    Probe(name="gpu driver", measures=("gpu.driver",), ask=ask_driver, commands=_driver_commands),
    Probe(
        name="gpu logical",
        measures=("gpu.logical",),
        ask=ask_logical,
        commands=_logical_commands,
    ),
    Probe(
        name="gpu affinity",
        measures=("gpu.far_from_nics",),
        ask=ask_affinity,
        commands=cards_and(NODES),
    ),
)
