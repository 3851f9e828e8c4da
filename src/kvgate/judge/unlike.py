"""Whether values that have to differ do: two hosts with one host NQN are one to the array.

The contrary of `alike`: everyone who shares a value with another place fails, and is told whose
it is too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvgate.judge.alike import Apart, Place, named, required
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
    for place, values, need in required(taken, expected):
        for value in values if need.unlike else ():
            groups.setdefault((need.unlike, value), []).append(place)
    outliers = dict(others.outliers)
    told = list(others.told)
    for (_, value), places in sorted(groups.items(), key=lambda each: (each[1], str(each[0]))):
        if len(places) < 2:
            continue
        told.append(f"{named(places)} have the same: {show(value)}")
        for place in places:
            beside = named([each for each in places if each != place])
            outliers[place] = f"the same on {beside}, and it has to differ"
    return Apart(outliers, tuple(told))
