"""A whole load and what follows from it: the workload as issued, levels kept, what is untold."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from kvgate.load.issued import Came, came
from kvgate.load.parts import Done
from kvgate.load.sessions import Sessions
from kvgate.load.slo import Found, Level, Slo, level_of
from kvgate.load.summary import Figures, figures


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """All parts of a load. ``found`` is of a search; ``clients`` names who sent, where several."""

    url: str
    model: str
    seed: int
    done: tuple[Done, ...]
    came: Came | None
    slo: Slo | None = None
    found: Found | None = None
    clients: tuple[str, ...] = ()

    @property
    def counting(self) -> tuple[Done, ...]:
        """Return the parts that count: not those that only prepared."""
        return tuple(each for each in self.done if each.part.counts)

    @property
    def levels(self) -> tuple[Level, ...]:
        """Return how each part stands to the service level; of a search, all it measured."""
        if self.found is not None:
            return self.found.levels
        if self.slo is None:
            return ()
        return tuple(
            level_of(
                each.result,
                self.slo,
                concurrency=each.result.concurrency,
                untold="; ".join(each.untold),
            )
            for each in self.counting
        )

    @property
    def untold(self) -> tuple[str, ...]:
        """Return why nothing, or not all, follows from this load; () where all does."""
        told = [f"{each.part.name}: {why}" for each in self.done for why in each.untold]
        told += [f"{each.part.name}: no request was sent" for each in self.done if not _sent(each)]
        if self.came is not None and self.came.off:
            told.append(self.came.off)
        if self.found is not None:
            return tuple(filter(None, [self.found.problem, self.came.off if self.came else ""]))
        told += [
            f"{each.part.name}: {level.told}"
            for each, level in zip(self.counting, self.levels, strict=False)
            if level.kept is None and not each.untold
        ]
        return tuple(told)

    @property
    def code(self) -> int:
        """Return the exit code: 0, 1 where requests failed or a level is missed, 2 inconclusive."""
        if self.untold:
            return 2
        if self.found is not None:
            return 0 if self.found.kept else 1
        failed = any(each.result.failed for each in self.done)
        return int(failed or any(each.kept is False for each in self.levels))

    def figures(self, done: Done) -> Figures:
        """Return the figures of one part."""
        return figures(done.result, self.slo)


def _sent(done: Done) -> bool:
    return bool(done.result.rows or done.result.warm_up)


def asked_ratio(done: Sequence[Done]) -> float | None:
    """Return the shared-prefix ratio that was asked for; None where other things decide it.

    Turns share what came before them, pools and restores what was stored, traces what they say.
    """
    asked = [each.part.what for each in done]
    plain = all(
        isinstance(each, Sessions) and each.turns == 1 and each.pool is None for each in asked
    )
    if not plain or any(not each.part.counts for each in done) or len(done) != 1:
        return None
    what = asked[0]
    return what.shared if isinstance(what, Sessions) else None


def outcome(
    *,
    url: str,
    model: str,
    seed: int,
    done: Sequence[Done],
    slo: Slo | None = None,
    found: Found | None = None,
    clients: Sequence[str] = (),
) -> Loaded:
    """Return the whole of what was done, with what was issued assessed as a trace is."""
    issued = [(each.issued, (*each.result.warm_up, *each.result.rows)) for each in done]
    return Loaded(
        url=url,
        model=model,
        seed=seed,
        done=tuple(done),
        came=came(issued, asked=asked_ratio(done)),
        slo=slo,
        found=found,
        clients=tuple(clients),
    )
