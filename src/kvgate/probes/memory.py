"""Memory modules and their errors: DIMMs by dmidecode, ECC counts by EDAC."""

from __future__ import annotations

from kvgate.model.quantity import Quantity
from kvgate.parse import dmi, edac
from kvgate.probes.base import (
    PLAIN,
    SHORT_S,
    Command,
    Probe,
    answer,
    asks,
    class_argv,
    reading,
    refusal,
    shifted,
    untold,
)
from kvgate.spec.inventory import Host
from kvgate.witness import Answer, Witness

DIMM_MEASURES = ("memory.dimms", "memory.slots", "memory.installed", "memory.dimm_speed")
ECC_MEASURES = ("memory.ecc_correctable", "memory.ecc_uncorrectable")
EDAC = class_argv("/sys/devices/system/edac/mc", "mc*/ce_count", "mc*/ue_count")


def _dmidecode(host: Host) -> tuple[str, ...]:
    return host.as_root("dmidecode", "-t", "memory")


def ask_dimms(witness: Witness) -> Answer:
    """Return how many modules are in how many slots, their size together, the slowest's speed."""
    asked = witness.ask(_dmidecode(witness.host), timeout_s=SHORT_S, env=PLAIN)
    if not asked.result.ok:
        return answer(untold(DIMM_MEASURES, refusal(asked, "dmidecode")), asked)
    slots = [each for each in dmi.inventory(asked.stdout).memory if each.use != "Flash Memory"]
    full = [each for each in slots if each.populated]
    sizes = [each.size_bytes for each in full if each.size_bytes]
    speeds = [each.configured_speed_mts for each in full if each.configured_speed_mts]
    unclear = [str(each.locator) for each in slots if each.populated is None]
    none = "dmidecode lists no memory device" if not slots else "no slot holds a module"
    why = f"the firmware doesn't say what is in {', '.join(unclear)}" if unclear else none
    known = full if not unclear else []
    return answer(
        [
            reading("memory.dimms", Quantity.of(len(known), "") if known else None, why),
            reading("memory.slots", Quantity.of(len(slots), "") if slots else None, none),
            reading("memory.installed", _gib(sum(sizes)) if known else None, why),
            reading(
                "memory.dimm_speed",
                shifted(min(speeds), 3, "GT/s") if speeds else None,
                "no module tells the speed it runs at",
            ),
        ],
        asked,
    )


def _gib(size: int) -> Quantity:
    gib, rest = divmod(size, 2**30)
    return Quantity.of(size, "B") if rest else Quantity.of(gib, "GiB")


def ask_ecc(witness: Witness) -> Answer:
    """Return the memory errors that EDAC counted since its driver was loaded, all controllers."""
    asked = witness.ask(EDAC, timeout_s=SHORT_S, env=PLAIN)
    found = edac.controllers(asked.result.stdout) if asked.result.exit_status == 0 else ()
    why = "no EDAC driver is loaded for this memory controller: nothing counts its ECC errors"
    if not found:
        return answer(untold(ECC_MEASURES, why), asked)
    sums = (sum(each.correctable for each in found), sum(each.uncorrectable for each in found))
    readings = [
        reading(name, Quantity.of(total, ""))
        for name, total in zip(ECC_MEASURES, sums, strict=True)
    ]
    return answer(readings, asked)


PROBES: tuple[Probe, ...] = (
    Probe(
        name="memory modules",
        measures=DIMM_MEASURES,
        ask=ask_dimms,
        commands=lambda host: (Command(argv=_dmidecode(host)),),
        tools=("dmidecode",),
    ),
    Probe(name="memory errors", measures=ECC_MEASURES, ask=ask_ecc, commands=asks(EDAC)),
)
