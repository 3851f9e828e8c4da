"""When a load's requests are sent: so many at any time, or at the times they are due."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """``concurrency`` users, each of which sends its next request when its last has ended.

    They begin one after another, spread evenly over ``ramp_s``. Raises ValueError for a
    concurrency below 1 or a ramp below 0.
    """

    concurrency: int
    ramp_s: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a shape that sends nothing."""
        if self.concurrency < 1:
            raise ValueError(f"concurrency {self.concurrency} is below 1")
        if not self.ramp_s >= 0:
            raise ValueError(f"a ramp of {self.ramp_s} s")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Every request at its ``due_s``, whatever became of those before it.

    No more than ``max_in_flight`` are under way, so that an endpoint that has stopped answering
    takes no more memory than that; what had to wait for it is counted (`LoadResult.held_back`),
    and its latency counts from when it was due. Raises ValueError for fewer than 1.
    """

    max_in_flight: int = 4096

    def __post_init__(self) -> None:
        """Refuse a shape that sends nothing."""
        if self.max_in_flight < 1:
            raise ValueError(f"{self.max_in_flight} requests in flight are fewer than 1")


Shape = Closed | Open
