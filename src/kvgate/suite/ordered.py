"""Ordered parts against reported ones: the computed measurements of the bill of materials."""

from __future__ import annotations

from kvgate.engine.bom import Reported, reported
from kvgate.judge.bom import NAMED, Compared, Status
from kvgate.model.part import NO_SURPLUS
from kvgate.model.record import ALL_HOSTS, Reading
from kvgate.spec.expect import PART_STATUS, PARTS_SURPLUS
from kvgate.store.reader import RunReader
from kvgate.suite.bench import Bench

MOST_TEXT = 400
"""Characters of what is said of one part, or of one host's surplus."""


def no_bom(bench: Bench) -> str:
    """Return why there is nothing to compare with; "" where the inventory has a BOM."""
    if bench.setup.bom:
        return ""
    return "the inventory names no bill of materials ('bom: FILE'); `kvgate bom draft` makes one"


def compare_parts(bench: Bench, *, phase: str) -> None:
    """Compute ``part.status`` of every ordered part and ``parts.surplus`` of every host.

    They are computed from what was measured of parts so far in this run, and cite its evidence.
    Raises NotRunError without a bill of materials.
    """
    bench.require(no_bom(bench))
    if bench.setup.bom is None:
        return
    for block in bench.blocks("bill of materials"):
        bench.run.sync()
        told = reported(RunReader(bench.run.path).measurements(), bench.inventory)
        compared = told.against(bench.setup.bom.value, bench.inventory)
        with block:
            _statuses(bench, told, compared, phase)
            _surplus(bench, told, compared, phase)


def _statuses(bench: Bench, told: Reported, compared: Compared, phase: str) -> None:
    for line in compared.lines:
        text = line.text[:MOST_TEXT]
        known = line.status is not Status.NOT_KNOWN
        bench.compute(
            Reading(
                name=PART_STATUS,
                value=text if known else None,
                item=line.ordered.item,
                problem="" if known else text,
            ),
            host=line.ordered.host or ALL_HOSTS,
            phase=phase,
            inputs=f"what {', '.join(line.hosts[:NAMED])} told of parts, against the BOM",
            evidence=told.cited(line.hosts),
        )


def _surplus(bench: Bench, told: Reported, compared: Compared, phase: str) -> None:
    for host, parts in compared.surplus.items():
        named = "; ".join(part.named for part in parts[:NAMED])
        more = f" and {len(parts) - NAMED} more" if len(parts) > NAMED else ""
        unsure = compared.unsure.get(host, "") if not parts else ""
        bench.compute(
            Reading(
                name=PARTS_SURPLUS,
                value=None if unsure else ((named + more)[:MOST_TEXT] or NO_SURPLUS),
                problem=unsure[:MOST_TEXT],
            ),
            host=host,
            phase=phase,
            inputs=f"what {host} told of parts, against the BOM",
            evidence=told.cited([host]),
        )
