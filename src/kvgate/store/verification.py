"""What a verification found: the layers with their digests, and every problem by its name."""

from __future__ import annotations

import dataclasses
from typing import Literal

from kvgate.store.layout import plain

Kind = Literal["altered", "missing", "added", "unsealed", "unproven", "changed"]
"""``unproven``: a signature that does not count; ``changed``: other criteria than were approved."""


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is not as it was written or sealed; `path` is relative to the run."""

    path: str
    kind: Kind
    detail: str

    def __post_init__(self) -> None:
        """Escape what a terminal could obey: names and values come from a folder of anyone's."""
        object.__setattr__(self, "path", plain(self.path))
        object.__setattr__(self, "detail", plain(self.detail))

    def __str__(self) -> str:
        return f"{self.kind}: {self.path}: {self.detail}"


@dataclasses.dataclass(frozen=True, slots=True)
class Layer:
    """One seal layer: its file, that file's SHA-256 (what is signed), and how many it covers."""

    name: str
    digest: str
    files: int


@dataclasses.dataclass(frozen=True, slots=True)
class Verification:
    """The outcome of `verify`: `ok` only for a sealed run without a problem."""

    layers: tuple[Layer, ...]
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Tell whether the run is sealed and everything in it is as it was sealed."""
        return bool(self.layers) and not self.problems
