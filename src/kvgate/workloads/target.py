"""What fio reads and writes: a file of ours, or a device that was proven to be ours to write."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One target on a host.

    ``token`` is the proof, made by whoever looked at a device last, that it may be written over;
    None for a file in a folder that this run made, which is removed with it.
    """

    path: str
    size_bytes: int
    direct: bool
    token: str | None = None

    @property
    def is_ours(self) -> bool:
        """Tell whether it is a file that this run made."""
        return self.token is None
