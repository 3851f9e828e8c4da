"""What a probe is: a named question that declares what it measures and which tools it needs."""

from __future__ import annotations

import dataclasses
import decimal
from collections.abc import Callable, Iterable
from typing import Literal

from kvgate.model.quantity import Quantity
from kvgate.model.record import Reading, Value
from kvgate.spec.inventory import Host
from kvgate.witness import Answer, Testimony, Witness

Ask = Callable[[Witness], Answer]
ItemKind = Literal["", "disk", "nvme", "nic", "pcie"]

PLAIN = {"LC_ALL": "C"}
"""The environment of every tool whose words are parsed."""

SHORT_S = 20.0
"""Deadline of a question that reads sysfs or asks a tool for what the kernel knows."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One question. ``measures`` covers every reading's name that ``ask`` returns.

    ``ask`` answers for the host, or for each item of kind ``items`` that the inventory declares;
    it raises TransportError where the host can't be asked or a tool fails, ParseError where the
    answer is not known. ``tools`` are the commands it runs beyond sh, cat and grep.
    """

    name: str
    measures: tuple[str, ...]
    ask: Ask
    tools: tuple[str, ...] = ()
    items: ItemKind = ""

    def unanswered(self, host: Host, because: str) -> tuple[Reading, ...]:
        """Return a reading without value for everything this probe should have told of `host`."""
        items = host.items(self.items) if self.items else ("",)
        return tuple(
            Reading(name=name, value=None, item=item, problem=because)
            for item in items
            for name in self.measures
        )


def reading(name: str, value: Value | None, problem: str = "", *, item: str = "") -> Reading:
    """Return a reading; `problem` counts only where there is no value (and must be given then)."""
    return Reading(name=name, value=value, item=item, problem="" if value is not None else problem)


def shifted(number: int, places: int, unit: str) -> Quantity:
    """Return `number` / 10**`places` in `unit`, exact, as people read it (``7.68 TB``)."""
    with decimal.localcontext(prec=80):  # holds 128-bit counters of drives
        return Quantity(decimal.Decimal(number).scaleb(-places).normalize(), unit)


def answer(readings: Iterable[Reading], *asked: Testimony) -> Answer:
    """Return the answer that `readings` are, read from what was asked."""
    return Answer(tuple(readings), tuple(each.ref for each in asked))


def read_class(witness: Witness, folder: str, *files: str) -> Testimony:
    """Read `files` (patterns below the sysfs folder `folder`) in one go, as `parse.sysfs` expects.

    Files that are absent or can't be read are left out (grep exits 2 then); a folder that is
    absent makes the command fail. Both texts are constants of a probe, never a host's words.
    """
    script = f'cd {folder} && {{ grep -asH "" {" ".join(files)}; test $? -le 2; }}'
    return witness.ask(["sh", "-c", script], timeout_s=SHORT_S, env=PLAIN)
