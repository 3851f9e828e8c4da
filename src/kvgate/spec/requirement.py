"""What one measurement must be, as inventory, baseline and bill of materials ask for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from kvgate.model.record import Value

_WORDS = {
    "equals": "{}",
    "one_of": "one of {}",
    "version_equals": "version {}",
    "version_one_of": "one of versions {}",
    "version_at_least": "version ≥ {}",
}
_SAME = "the same on all hosts"
_UNLIKE = "different on all hosts"


@dataclasses.dataclass(frozen=True, slots=True)
class Requirement:
    """What one measurement must be.

    ``how`` is equals, one_of, version_equals, version_one_of, version_at_least, or ``same`` where
    only agreement is asked for. All requirements of one measure with the same text in ``same``
    ask that their measurements agree; "" asks for none. All with the same text in ``unlike`` ask
    that no two of them are equal; ``how`` is ``unlike`` where nothing else is asked.
    """

    how: str
    values: tuple[Value, ...]
    same: str = ""
    unlike: str = ""

    def __str__(self) -> str:
        if self.how == "same":
            return _SAME
        if self.how == "unlike":
            return _UNLIKE
        shown = ", ".join(
            "yes" if v is True else "no" if v is False else str(v) for v in self.values
        )
        told = _WORDS.get(self.how, f"{self.how} {{}}").format(shown)
        told = f"{told}, {_UNLIKE}" if self.unlike else told
        return f"{told}, {_SAME}" if self.same else told


def given(item: str, *pairs: tuple[str, Value | None]) -> Iterator[tuple[str, str, Value]]:
    """Yield (measure, `item`, value) of the pairs that have a value: only that is required."""
    yield from ((measure, item, value) for measure, value in pairs if value is not None)
