"""The patterns of the kernel log, read once from patterns/kernel.yaml."""

from __future__ import annotations

import dataclasses
import functools
import importlib.resources
import re

import yaml

PCI = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
REACH = 160
"""Characters that ``.*`` spans: without bound it is tried to a message's end, from every place."""

SEVERITIES = ("info", "warning", "error", "fatal")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """One entry of the file, see its head; ``id`` begins with the class of the event."""

    id: str
    severity: str
    needs: str
    source: str
    example: str
    never: str

    @property
    def regex(self) -> re.Pattern[str]:
        """Return the pattern, compiled when it is first tried: most logs need few."""
        return _compiled(self.source)

    @property
    def kind(self) -> str:
        """Return the class: aer, ras, nvme, link, oom, mce and so on."""
        return self.id.split(".", 1)[0]


@functools.cache
def _compiled(source: str) -> re.Pattern[str]:
    return re.compile(source.replace("<pci>", PCI).replace(".*", f".{{0,{REACH}}}"))


@functools.cache
def patterns() -> tuple[Pattern, ...]:
    """Return all patterns in the order of the file."""
    file = importlib.resources.files("kvgate.parse") / "patterns" / "kernel.yaml"
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    entries = yaml.load(file.read_text("utf-8"), Loader=loader)  # noqa: S506  a safe loader
    return tuple(Pattern(source=entry.pop("regex"), **entry) for entry in entries)
