"""GPUs by the amdgpu driver's sysfs: all alike, whole, without errors, near their NICs.

Values are of the host: of GPUs that should be alike the one they share, else the worst. What the
driver doesn't tell is asked of amd-smi (`gpu_tools`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kvgate.model.quantity import Quantity
from kvgate.model.record import Reading, Value
from kvgate.parse import gpu_sysfs, pci
from kvgate.parse.gpu_sysfs import Card
from kvgate.probes import pci as pci_probes
from kvgate.probes.base import (
    PLAIN,
    SHORT_S,
    Command,
    Probe,
    answer,
    class_argv,
    once,
    reading,
    shifted,
    untold,
)
from kvgate.spec.inventory import Host
from kvgate.witness import Answer, Witness

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
    "gpu.bar_size",
)
NONE_DECLARED = "no GPU is declared for this host"
_cards = once(gpu_sysfs.cards)


def ask_cards(witness: Witness) -> Answer:
    """Return what amdgpu tells of the GPUs it drives: `MEASURES` of the host."""
    if witness.host.declared.gpus is None:
        return Answer(tuple(untold(MEASURES, NONE_DECLARED)), ())
    asked = witness.ask(CARDS, timeout_s=SHORT_S, env=PLAIN)
    found = _cards(asked.result.stdout) if asked.result.exit_status == 0 else ()
    if not found:
        why = "the amdgpu driver drives no GPU here: not loaded, or bound to another driver"
        return answer(untold(MEASURES, why), asked)
    return answer(_told(found), asked)


def _told(found: Sequence[Card]) -> Iterable[Reading]:
    yield reading("gpu.driven", Quantity.of(len(found), ""))
    yield same("gpu.hbm_size", ((c.address, _gib(c.vram_bytes)) for c in found))
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
    bars = [(c.address, c.bar_bytes) for c in found]
    yield worst("gpu.bar_size", bars, min, lambda size: _gib(size) or Quantity.of(size, "B"))


def _gib(size: int | None) -> Quantity | None:
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
    """Return gpu.others: GPUs of AMD or NVIDIA whose id is not the declared one, and which.

    Virtual functions (74b6, 74bc) and wrong cards on bare metal are found by this.
    """
    wanted = witness.host.declared.gpus
    if wanted is None:
        return Answer(tuple(untold(("gpu.others", "gpu.other_ids"), NONE_DECLARED)), ())
    functions, asked = pci_probes.look(witness)
    others = [
        f for f in functions if f.kind in pci.DISPLAY and f.id[:4] in MAKERS and f.id != wanted.id
    ]
    ids = ", ".join(sorted({f.id for f in others})) or "none"
    return answer(
        [
            reading("gpu.others", Quantity.of(len(others), "")),
            reading("gpu.other_ids", ids),
        ],
        asked,
    )


def ask_driver(witness: Witness) -> Answer:
    """Return gpu.driver, the version of the amdgpu module (in-kernel ones have none)."""
    if witness.host.declared.gpus is None:
        return Answer(tuple(untold(("gpu.driver",), NONE_DECLARED)), ())
    asked = witness.ask(DRIVER, timeout_s=SHORT_S)
    told = asked.result.stdout.decode("utf-8", "replace").strip()
    why = "the amdgpu module is not loaded, or is the kernel's own, which has no version"
    version = told if asked.result.ok and told and "\n" not in told else None
    return answer([reading("gpu.driver", version, why)], asked)


def ask_affinity(witness: Witness) -> Answer:
    """Return gpu.far_from_nics: GPUs on whose NUMA node no declared NIC sits."""
    name = "gpu.far_from_nics"
    if witness.host.declared.gpus is None:
        return Answer(tuple(untold((name,), NONE_DECLARED)), ())
    asked = witness.ask(CARDS, timeout_s=SHORT_S, env=PLAIN)
    ports = witness.ask(NODES, timeout_s=SHORT_S, env=PLAIN)
    found = _cards(asked.result.stdout) if asked.result.exit_status == 0 else ()
    nodes = gpu_sysfs.nodes(ports.result.stdout) if ports.result.exit_status == 0 else {}
    near = {nodes.get(nic.name) for nic in witness.host.declared.nics}
    silent = [card.address for card in found if card.numa_node is None]
    far = [card for card in found if card.numa_node not in near]
    why = f"no NUMA node is told by {', '.join(silent) or 'any GPU'}"
    if not silent and None in near:
        why = "a declared NIC tells no NUMA node"
    known = found and near and not silent and None not in near
    count = Quantity.of(len(far), "") if known else None
    return answer([reading(name, count, why if near else "no NIC is declared")], asked, ports)


def _if_declared(*argvs: tuple[str, ...]) -> Callable[[Host], tuple[Command, ...]]:
    fixed = tuple(Command(argv=argv) for argv in argvs)
    return lambda host: fixed if host.declared.gpus else ()


PROBES: tuple[Probe, ...] = (
    Probe(name="gpu cards", measures=MEASURES, ask=ask_cards, commands=_if_declared(CARDS)),
    Probe(
        name="gpu others",
        measures=("gpu.others", "gpu.other_ids"),
        ask=ask_others,
        commands=_if_declared(pci_probes.SYSFS),
    ),
    Probe(
        name="gpu driver", measures=("gpu.driver",), ask=ask_driver, commands=_if_declared(DRIVER)
    ),
    Probe(
        name="gpu affinity",
        measures=("gpu.far_from_nics",),
        ask=ask_affinity,
        commands=_if_declared(CARDS, NODES),
    ),
)
