"""Whether hosts agree on a value, and which of them is the outlier: "31 agree, node-17 differs".

More than half of those that answered are the majority, and everyone else differs from it. Without
a majority nobody is right: all of them differ, and every group is named. Who did not answer is
the coverage's matter (inconclusive), and takes no part here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kvgate.judge.limits import show
from kvgate.model.record import Measurement, Value
from kvgate.spec.expect import Expectations, Requirement

NAMED = 5
"""Places, and groups, that a sentence names before it goes on with "and N more"."""

Place = tuple[str, str]
"""A host and an item on it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Apart:
    """Who differs, with the reason for each place, and the sentences that tell it."""

    outliers: Mapping[Place, str]
    told: tuple[str, ...]


def apart(taken: Mapping[Place, Sequence[Measurement]], expected: Expectations) -> Apart:
    """Return who differs among the places that are required to agree.

    `taken` are a criterion's measurements by place. Places that share a requirement's ``same`` are
    compared with each other; one alone agrees with itself. The order of anything changes nothing.
    """
    groups: dict[str, dict[Place, frozenset[Value]]] = {}
    for place, values, need in required(taken, expected):
        if need.same:
            groups.setdefault(need.same, {})[place] = values
    outliers: dict[Place, str] = {}
    told = []
    for group in sorted(groups):
        found, sentence = _compare(groups[group])
        outliers |= found
        told += [sentence] if sentence else []
    return Apart(outliers, tuple(told))


def required(
    taken: Mapping[Place, Sequence[Measurement]], expected: Expectations
) -> Iterator[tuple[Place, frozenset[Value], Requirement]]:
    """Yield who answered, sorted, with its different values and what is required of them."""
    for place in sorted(taken):
        told = taken[place]
        need = expected.get((place[0], told[0].name, place[1])) if told else None
        if need is None:
            continue
        if values := frozenset(each.value for each in told if each.value is not None):
            yield place, values, need


def _compare(told: Mapping[Place, frozenset[Value]]) -> tuple[dict[Place, str], str]:
    """Return the outliers of one group with the reason, and the sentence; ({}, "") if all agree."""
    by_value: dict[frozenset[Value], list[Place]] = {}
    for place, values in told.items():
        by_value.setdefault(values, []).append(place)
    if len(by_value) == 1 and len(next(iter(by_value))) == 1:
        return {}, ""
    groups = [(sorted(str(each) for each in values), at) for values, at in by_value.items()]
    groups.sort(key=lambda group: (-len(group[1]), group[0]))
    common, agreeing = groups[0]
    if len(common) == 1 and 2 * len(agreeing) > len(told):
        return _outliers(common[0], agreeing, groups[1:])
    parts = [f"{named(places)}: {_words(each)}" for each, places in groups]
    why = f"no majority among {_count(told)}"
    return dict.fromkeys(told, why), f"{why}: {_list(parts, '; ')}"


def _outliers(
    value: str, agreeing: Sequence[Place], others: Sequence[tuple[Sequence[str], list[Place]]]
) -> tuple[dict[Place, str], str]:
    agree = "agrees" if len(agreeing) == 1 else "agree"
    whole = f"{_count(agreeing)} {agree} on {show(value)}"
    found = {place: f"differs: {whole}" for _, places in others for place in places}
    parts = [
        f"{named(places)} {'differs' if len(places) == 1 else 'differ'}: {_words(values)}"
        for values, places in others
    ]
    return found, f"{whole}, {_list(parts, '; ')}"


def _count(places: Iterable[Place]) -> str:
    """Return how many hosts, or how many items on how many hosts."""
    listed = list(places)
    hosts = len({host for host, _ in listed})
    what = f"{hosts} host{'' if hosts == 1 else 's'}"
    if all(not item for _, item in listed):
        return what
    return f"{len(listed)} item{'' if len(listed) == 1 else 's'} on {what}"


def named(places: Sequence[Place]) -> str:
    """Return the names of `places`, as many as a sentence can hold."""
    return _list([f"{host} ({item})" if item else host for host, item in places])


def _words(values: Sequence[str]) -> str:
    return " and ".join(show(each) for each in values)


def _list(parts: Sequence[str], between: str = ", ") -> str:
    more = len(parts) - NAMED
    return between.join(parts[:NAMED]) + (f" and {more} more" if more > 0 else "")
