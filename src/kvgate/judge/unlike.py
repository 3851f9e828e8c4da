"""Whether values that have to differ do: two hosts with one host NQN are one to the array.

The contrary of `alike`: everyone who shares a value with another place fails, and is told whose
it is too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvgate.judge.alike import NAMED, Apart, Place
from kvgate.judge.limits import show
from kvgate.model.record import Measurement, Value
from kvgate.spec.expect import Expectations


def together(
    taken: Mapping[Place, Sequence[Measurement]], expected: Expectations, others: Apart
) -> Apart:
    """Return `others` and, beside them, the places that share a value which none may share.

    Places with the same text in a requirement's ``unlike`` are held against each other. Who did
    not answer takes no part; the order of anything changes nothing.
    """
    groups: dict[tuple[str, Value], list[Place]] = {}
    for place in sorted(taken):
        for value in {each.value for each in taken[place] if each.value is not None}:
            need = expected.get((place[0], taken[place][0].name, place[1]))
            if need is not None and need.unlike:
                groups.setdefault((need.unlike, value), []).append(place)
    outliers = dict(others.outliers)
    told = list(others.told)
    for (_, value), places in sorted(groups.items(), key=lambda each: (each[1], str(each[0]))):
        if len(places) < 2:
            continue
        told.append(f"{_list(places)} have the same: {show(value)}")
        for place in places:
            beside = _list([each for each in places if each != place])
            outliers[place] = f"the same on {beside}, and it has to differ"
    return Apart(outliers, tuple(told))


def _list(places: Sequence[Place]) -> str:
    named = [f"{host} ({item})" if item else host for host, item in places]
    more = len(named) - NAMED
    return ", ".join(named[:NAMED]) + (f" and {more} more" if more > 0 else "")
