"""How noisy a run's bench was, by its A/A rounds: one arm against its own second run."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from kvgate.engine.workspace import Setup
from kvgate.judge.arms import ARM, ROUND, noise_of
from kvgate.judge.comparison import percent_told
from kvgate.judge.margin import proposed
from kvgate.judge.ratio import Interval, blocks_told
from kvgate.model.quantity import Quantity
from kvgate.model.record import Measurement
from kvgate.spec.gate import MOST_MARGIN
from kvgate.spec.ratio import AGAIN, RatioOf
from kvgate.store.reader import RunReader


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """One measure of one arm in one place: the A/A ratio, or why there is none."""

    measure: str
    arm: str
    where: str  # the other labels: "concurrency 4"
    host: str
    blocks: int
    found: Interval | str

    @property
    def margin(self) -> Quantity | None:
        """Return the margin to propose for a limit on this measure; None where noise is unknown."""
        return None if isinstance(self.found, str) else proposed(self.found.noise)

    @property
    def noisy(self) -> bool:
        """Tell whether the noise is above any margin."""
        return not isinstance(self.found, str) and self.found.noise > float(MOST_MARGIN.base)

    def told(self) -> str:
        """Return the ratio, its interval, the noise and the margin as one line."""
        if isinstance(self.found, str):
            return self.found
        low, high = self.found.low, self.found.high
        return (
            f"{self.found.ratio:g} x ({low:g} to {high:g} x, {blocks_told(self.blocks)}), "
            f"noise {percent_told(self.found.noise)}, margin to propose {self.margin}"
        )


def noise(reader: RunReader, setup: Setup) -> tuple[Noise, ...]:
    """Return the A/A noise of every measure that the run's criteria compare arms by.

    Ordered by measure, place and labels; empty where the run has no A/A rounds.
    """
    compared = {
        criterion.measure: criterion.ratio
        for gate in setup.gates.values()
        for criterion in gate.value.criteria
        if criterion.ratio
    }
    groups: dict[tuple[str, str, str, str, str], list[Measurement]] = {}
    for each in reader.measurements():
        if each.name in compared:
            arm = each.labels.get(ARM, "").removesuffix(AGAIN)
            key = (each.name, arm, _where(each), each.host, each.phase)
            groups.setdefault(key, []).append(each)
    return tuple(_rows(groups, compared))


def _where(taken: Measurement) -> str:
    others = sorted((k, v) for k, v in taken.labels.items() if k not in (ARM, ROUND))
    return ", ".join(f"{label} {value}" for label, value in others)


def _rows(
    groups: dict[tuple[str, str, str, str, str], list[Measurement]], compared: dict[str, RatioOf]
) -> Iterator[Noise]:
    for (measure, arm, where, host, _), taken in sorted(groups.items()):
        if arm + AGAIN not in {each.labels.get(ARM) for each in taken}:
            continue
        spec = compared[measure].model_copy(update={"to": arm, "of": arm + AGAIN})
        yield Noise(
            measure=measure,
            arm=arm,
            where=where,
            host=host,
            blocks=len({each.labels.get(ROUND) for each in taken}),
            found=noise_of(taken, spec),
        )
