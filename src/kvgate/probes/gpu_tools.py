"""GPUs by AMD's tools: versions, names, links between GPUs, and a second word on their errors.

amd-smi is asked first, rocm-smi where that is missing. The forms of all versions are the
parsers' matter; which version told is a reading of its own.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterable

from kvgate.errors import ParseError
from kvgate.model.quantity import Quantity, counted
from kvgate.model.record import Reading
from kvgate.parse import amd_smi, rocm_smi
from kvgate.parse.amd_smi import AmdSmi
from kvgate.probes.base import (
    NOT_FOUND,
    PLAIN,
    Command,
    Probe,
    answer,
    once,
    reading,
    refusal,
    untold,
)
from kvgate.probes.gpus import not_amd, same, size_of, total
from kvgate.spec.inventory import Host
from kvgate.witness import Answer, Testimony, Witness

SLOW_S = 30.0
"""amd-smi loads Python and asks every GPU: a second or two with eight of them."""

PACKAGE = "amd-smi-lib"
OLD = ("rocm-smi", "--showproductname", "--json")
_UP = "ENABLED"
"""How amd-smi topology says that a link is up."""

_amd_smi = once(amd_smi.amd_smi)


def _ask(witness: Witness, argv: tuple[str, ...]) -> Testimony:
    return witness.ask(witness.host.as_root(*argv), timeout_s=SLOW_S, env=PLAIN)


def _probe(
    name: str,
    measures: tuple[str, ...],
    argv: tuple[str, ...],
    told: Callable[[AmdSmi], Iterable[Reading]],
) -> Probe:
    """Return the probe that reads `measures` from amd-smi's answer to `argv`."""

    def ask(witness: Witness) -> Answer:
        if why := not_amd(witness.host):
            return Answer(tuple(untold(measures, why)), ())
        asked = _ask(witness, argv)
        if not asked.result.ok:
            return answer(untold(measures, refusal(asked, PACKAGE)), asked)
        return answer(told(_amd_smi(asked.stdout)), asked)

    return Probe(
        name=name, measures=measures, ask=ask, commands=_commands(argv), tools=("amd-smi",)
    )


def _commands(*argvs: tuple[str, ...]) -> Callable[[Host], tuple[Command, ...]]:
    def of(host: Host) -> tuple[Command, ...]:
        if not_amd(host):
            return ()
        return tuple(Command(argv=host.as_root(*argv), timeout_s=SLOW_S) for argv in argvs)

    return of


def _versions(found: AmdSmi) -> Iterable[Reading]:
    versions = found.versions
    yield reading(
        "tool.amd_smi.version", versions.tool if versions else None, "it tells no version"
    )
    yield reading("rocm.version", versions.rocm if versions else None, "it tells no ROCm version")


def _static(found: AmdSmi) -> Iterable[Reading]:
    each = [(f"GPU {gpu.index}", gpu) for gpu in found.gpus]
    caps = ((where, gpu.power_cap_w) for where, gpu in each)
    yield same("gpu.vbios_by_tool", ((where, gpu.vbios_version) for where, gpu in each))
    yield same(
        "gpu.power_cap_by_tool",
        ((where, None if watt is None else Quantity.of(watt, "W")) for where, watt in caps),
    )
    yield same("gpu.hbm_size_by_tool", ((at, size_of(gpu.vram_total_bytes)) for at, gpu in each))


def _errors(found: AmdSmi) -> Iterable[Reading]:
    each = [(f"GPU {gpu.index}", gpu) for gpu in found.gpus]
    yield total("gpu.ecc_uncorrectable", ((where, gpu.ecc_uncorrectable) for where, gpu in each))
    yield total("gpu.ecc_correctable", ((where, gpu.ecc_correctable) for where, gpu in each))
    yield total("gpu.pcie_replays", ((where, gpu.pcie_replay_count) for where, gpu in each))
    yield total("gpu.pcie_naks", ((where, gpu.pcie_nak_received_count) for where, gpu in each))


def _pages(found: AmdSmi) -> Iterable[Reading]:
    def count(gpu: amd_smi.Gpu) -> int | None:
        kinds = (gpu.bad_pages_retired, gpu.bad_pages_pending, gpu.bad_pages_un_res)
        told = [each for each in kinds if each is not None]
        return sum(told) if len(told) == len(kinds) else None

    yield total("gpu.bad_pages_by_tool", ((f"GPU {g.index}", count(g)) for g in found.gpus))


def _links(found: AmdSmi) -> Iterable[Reading]:
    pairs = {frozenset((link.gpu, link.peer)) for link in found.links if link.type == "XGMI"}
    known = Quantity.of(sum(len(pair) == 2 for pair in pairs), "") if found.links else None
    none = "amd-smi lists no links between GPUs"
    yield reading("gpu.xgmi_pairs", known, none)
    states = [link.status for link in found.links if link.type == "XGMI"]
    down = None if None in states or not states else sum(each != _UP for each in states)
    count = counted(down)
    yield reading("gpu.xgmi_links_down", count, "amd-smi tells no state of its XGMI links")


def _rates(found: AmdSmi) -> Iterable[Reading]:
    rates = [link.bit_rate_gbps for link in found.links if link.gpu != link.peer]
    known = [rate for rate in rates if rate is not None]
    slowest = Quantity(decimal.Decimal(min(known)), "Gbit/s") if known else None
    yield reading("gpu.xgmi_bit_rate", slowest, "amd-smi tells no rate of its XGMI links")


def ask_model(witness: Witness) -> Answer:
    """Return gpu.model, the name that amd-smi, else rocm-smi has (a container may hide it)."""
    if why := not_amd(witness.host):
        return Answer(tuple(untold(("gpu.model",), why)), ())
    asked = [_ask(witness, STATIC)]
    if asked[0].result.exit_status == NOT_FOUND:
        asked.append(_ask(witness, OLD))
    told = asked[-1]
    if not told.result.ok:
        return answer(untold(("gpu.model",), refusal(told, PACKAGE)), *asked)
    if told is asked[0]:
        named = [(gpu.index, gpu.market_name) for gpu in _amd_smi(told.stdout).gpus]
    else:
        named = [(gpu.index, gpu.name) for gpu in _old(told).gpus]
    return answer([same("gpu.model", ((f"GPU {at}", name) for at, name in named))], *asked)


def _old(told: Testimony) -> rocm_smi.RocmSmi:
    found = rocm_smi.rocm_smi(told.stdout, told.result.exit_status)
    if isinstance(found, rocm_smi.RocmSmi):
        return found
    raise ParseError("rocm-smi: prints no GPU")


STATIC = ("amd-smi", "static", "--json")
XGMI = ("amd-smi", "xgmi", "--json")
VERSIONS: tuple[Probe, ...] = (
    _probe(
        "amd-smi version",
        ("tool.amd_smi.version", "rocm.version"),
        ("amd-smi", "version", "--json"),
        _versions,
    ),
)
GPUS: tuple[Probe, ...] = (
    _probe(
        "amd-smi static",
        ("gpu.vbios_by_tool", "gpu.power_cap_by_tool", "gpu.hbm_size_by_tool"),
        STATIC,
        _static,
    ),
    Probe(
        name="gpu model",
        measures=("gpu.model",),
        ask=ask_model,
        commands=_commands(STATIC, OLD),
        tools=("amd-smi", "rocm-smi"),
    ),
    _probe(
        "amd-smi metric",
        ("gpu.ecc_uncorrectable", "gpu.ecc_correctable", "gpu.pcie_replays", "gpu.pcie_naks"),
        ("amd-smi", "metric", "--ecc", "--pcie", "--json"),
        _errors,
    ),
    _probe(
        "amd-smi bad-pages",
        ("gpu.bad_pages_by_tool",),
        ("amd-smi", "bad-pages", "--json"),
        _pages,
    ),
    _probe(
        "amd-smi topology",
        ("gpu.xgmi_pairs", "gpu.xgmi_links_down"),
        ("amd-smi", "topology", "--json"),
        _links,
    ),
    _probe("amd-smi xgmi", ("gpu.xgmi_bit_rate",), XGMI, _rates),
)
PROBES = VERSIONS + GPUS
