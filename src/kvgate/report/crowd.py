"""Many hosts in a report: those that agree are one row, and no table is longer than can be read."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from kvgate.model.finding import HostFinding
from kvgate.model.verdict import Verdict

MANY = 100
"""Places of a finding from which on those that agree share a row; and rows of a table, at most."""

HOSTS_TOLD = 64
"""Hosts whose facts stand on the page; those that something was found of come first."""

_NAMED = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Alike:
    """Places with the same verdict, value and reason: the first of them, and all their hosts."""

    first: HostFinding
    hosts: tuple[str, ...]

    @property
    def named(self) -> str:
        """Return the hosts in a few words: ``31 hosts: node-1, node-2, node-3 and 28 more``."""
        count = len(self.hosts)
        if count == 1:
            return self.hosts[0]
        some = ", ".join(self.hosts[:_NAMED])
        more = f" and {count - _NAMED:,} more" if count > _NAMED else ""
        return f"{count:,} hosts: {some}{more}"

    @property
    def because(self) -> str:
        """Return the reason, which names no host where it is that of several."""
        return self.first.because if len(self.hosts) == 1 else _nameless(self.first)


def worst_first(places: Iterable[HostFinding]) -> list[HostFinding]:
    """Return the places with the gravest verdict first, then by name."""
    order = list(Verdict)
    return sorted(
        places,
        key=lambda each: (-order.index(each.verdict), not each.marginal, each.host, each.item),
    )


def alike(places: Sequence[HostFinding]) -> list[Alike]:
    """Return `places` in their order, those that agree together where there are many.

    The gravest stay first, as agreeing places have one verdict; among them the rarest come first:
    an outlier is not to be looked for.
    """
    if len(places) <= MANY:
        return [Alike(place, (place.host,)) for place in places]
    groups: dict[tuple[object, ...], list[HostFinding]] = {}
    for place in places:
        key = (place.verdict, place.marginal, place.item, place.measured, _nameless(place))
        groups.setdefault(key, []).append(place)
    found = [Alike(group[0], tuple(each.host for each in group)) for group in groups.values()]
    order = list(Verdict)
    found.sort(key=lambda each: (-order.index(each.first.verdict), len(each.hosts)))  # stable
    return found


def shown(places: Sequence[HostFinding]) -> tuple[list[Alike], int]:
    """Return the rows of a table of `places`, and how many places are on none of them."""
    rows = alike(worst_first(places))
    if len(rows) <= MANY:
        return rows, 0
    return rows[: MANY - 1], sum(len(each.hosts) for each in rows[MANY - 1 :])


def _nameless(place: HostFinding) -> str:
    return place.because.removeprefix(f"{place.host}: ").replace(place.host, "the host")
