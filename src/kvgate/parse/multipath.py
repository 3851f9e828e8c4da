"""`multipath -ll`: maps, their groups and paths, of device mapper and of native NVMe."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from kvgate.parse.ending import reads
from kvgate.parse.text import lines, refuse, shown

TOOL = "multipath -ll"
_NAMES = r"(?:(?P<alias>[^\s()|`]{1,128}) \((?P<aliased>[^()]{1,128})\)|(?P<wwid>[^|`()]{1,128}))"
_MAP = re.compile(
    rf"{_NAMES} (?:\[nvme\]:(?P<nvme>nvme[0-9]+n[0-9]+)|(?P<dm>dm-[0-9]{{1,5}})) (.*)"
)
_SIZE = re.compile(
    r"size=(?P<size>\S+) features='(?P<features>[^']*)' hwhandler='(?P<handler>[^']*)' wp=\S+"
)
_GROUP = re.compile(r"[|`]-\+- policy='([^']*)' prio=(-?[0-9]{1,6}) status=(\S+)")
_PATH = re.compile(
    r"[| ] [|`]- [0-9#]+(?::[0-9#]+){2,3}\s+(?P<name>\S+)\s+(?:[0-9]+:[0-9]+|-)\s+"
    r"(?P<dm>\S+)\s+(?P<check>\S+)\s+(?P<state>\S+)"
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """A path: ``dm_state`` active or failed (n/a of NVMe), ``checker`` ready, faulty or ANA."""

    name: str
    dm_state: str
    checker: str
    state: str

    @property
    def failed(self) -> bool:
        """Tell whether it carries nothing."""
        return self.dm_state == "failed" or self.checker in ("faulty", "inaccessible")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Paths of one priority."""

    policy: str
    priority: int
    status: str
    paths: tuple[Path, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """A multipath device; ``size`` is the printed text."""

    device: str
    alias: str | None
    wwid: str
    size: str | None
    handler: str | None
    groups: tuple[Group, ...]

    @property
    def paths(self) -> tuple[Path, ...]:
        """Return its paths, over all groups."""
        return tuple(path for group in self.groups for path in group.paths)


def maps(answer: bytes) -> tuple[Map, ...]:
    """Parse ``multipath -ll`` (also ``-v4``, with its debug lines before and between the maps).

    Raises ParseError where no map is printed, or a map's lines are of another shape.
    """
    printed = lines(answer, TOOL)
    found = tuple(_maps(printed))
    if not found:
        refuse(TOOL, f"it prints no map, first: {shown(next(filter(None, printed), ''))}")
    return found


def _maps(printed: list[str]) -> Iterator[Map]:
    heads = [(at, match) for at, line in enumerate(printed) if (match := _MAP.fullmatch(line))]
    ends = [*(at for at, _ in heads), len(printed)][1:]
    for (at, head), end in zip(heads, ends, strict=True):
        yield _map(head, printed[at + 1 : end])


def _map(head: re.Match[str], below: list[str]) -> Map:
    size = handler = None
    groups: list[tuple[re.Match[str], list[Path]]] = []
    for line in below:
        if match := _SIZE.fullmatch(line.strip()):
            if size is not None:
                refuse(TOOL, f"{shown(line)}: a map's size stands twice")
            size, handler = match["size"], match["handler"]
        elif match := _GROUP.fullmatch(line.rstrip()):
            groups.append((match, []))
        elif match := _PATH.fullmatch(line.rstrip()):
            if not groups:
                refuse(TOOL, f"{shown(line)}: a path outside a group")
            groups[-1][1].append(_path(match))
        elif line[:2].strip() and line[0] in "|`":
            refuse(TOOL, f"{shown(line)} is neither a group nor a path")
    return Map(
        device=head["nvme"] or head["dm"],
        alias=head["alias"],
        wwid=(head["aliased"] or head["wwid"]).strip(),
        size=size,
        handler=handler or None,
        groups=tuple(
            Group(policy=match[1], priority=int(match[2]), status=match[3], paths=tuple(paths))
            for match, paths in groups
        ),
    )


def _path(match: re.Match[str]) -> Path:
    return Path(
        name=match["name"], dm_state=match["dm"], checker=match["check"], state=match["state"]
    )


TOOLS = {"multipath": reads(TOOL, maps)}
