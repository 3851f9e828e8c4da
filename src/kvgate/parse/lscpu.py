"""`lscpu`, as JSON or as text: how many processors of which kind, as the kernel sees them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from kvgate.parse.ending import reads
from kvgate.parse.text import available, json_object, lines, refuse, shown, whole

_LINE = re.compile(r"\s*([^:]{1,60}?):(?:\s+(.*))?")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Processors:
    """What lscpu counts; None where it says nothing or ``-``."""

    cpus: int
    model_name: str | None
    vendor: str | None
    sockets: int | None
    cores_per_socket: int | None
    threads_per_core: int | None
    numa_nodes: int | None
    hypervisor: str | None
    node0_cpus: str | None


def processors(answer: bytes) -> Processors:
    """Parse ``lscpu -J`` or ``lscpu`` (util-linux 2.2x to 2.4x, flat or nested, LC_ALL=C)."""
    if answer.lstrip().startswith(b"{"):
        found = _by_field(_from_json(json_object(answer, "lscpu").get("lscpu")))
    else:
        found = _by_field(_from_text(lines(answer, "lscpu")))

    def number(field: str) -> int | None:
        text = available(found.get(field))
        return None if text is None else whole(text, "lscpu", field)

    cpus = number("CPU(s)")
    if not cpus:
        refuse("lscpu", "it names no 'CPU(s)'")
    return Processors(
        cpus=cpus,
        model_name=available(found.get("Model name")),
        vendor=available(found.get("Vendor ID")),
        sockets=number("Socket(s)"),
        cores_per_socket=number("Core(s) per socket"),
        threads_per_core=number("Thread(s) per core"),
        numa_nodes=number("NUMA node(s)"),
        hypervisor=available(found.get("Hypervisor vendor")),
        node0_cpus=available(found.get("NUMA node0 CPU(s)")),
    )


def _from_json(rows: Any) -> Iterator[tuple[str, str]]:
    """Yield field and data of every row, those of nested rows (util-linux ≥ 2.38) too."""
    if not isinstance(rows, list):
        refuse("lscpu", "its JSON has no list 'lscpu'")
    for row in rows:
        if not isinstance(row, dict) or not isinstance(field := row.get("field"), str):
            refuse("lscpu", f"{shown(row)} is no row with a field")
        data = row.get("data")
        if data is not None and not isinstance(data, str):
            refuse("lscpu", f"{field} is {shown(data)}, not a text")
        yield field.strip().removesuffix(":"), data or ""
        if "children" in row:
            yield from _from_json(row["children"])


def _from_text(printed: list[str]) -> Iterator[tuple[str, str]]:
    """Yield field and data of every line; indented lines without a colon continue the flags."""
    for line in printed:
        match = _LINE.fullmatch(line)
        if match:
            yield match[1].strip(), match[2] or ""
        elif line.strip() and not line[0].isspace():
            refuse("lscpu", f"{shown(line)} is no 'field: value'")


def _by_field(pairs: Iterator[tuple[str, str]]) -> dict[str, str]:
    """Return data by field; a field that stands twice with different data is refused."""
    found: dict[str, str] = {}
    for field, data in pairs:
        if found.setdefault(field, data) != data:
            refuse(
                "lscpu",
                f"'{field}' is {shown(found[field])} and also {shown(data)}",
                hint="processors of several kinds: declare no cpu for this host",
            )
    return found


TOOLS = {"lscpu": reads("lscpu", processors)}
