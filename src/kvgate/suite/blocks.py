"""Measurement blocks: the unit in which work is finished, resumed or discarded."""

from __future__ import annotations

import contextlib
import types
from typing import Protocol, Self

from kvgate.engine.progress import Progress
from kvgate.store.run import RunWriter


class Holder(Protocol):
    """Who keeps track of the block that is open (the bench)."""

    run: RunWriter
    progress_to: Progress
    open_block: str


class Block:
    """One stretch of measuring (criterion, round, arm); counts only once it ended in order.

    ``labels`` says which point of the experiment it is. Used as ``with block:``.
    """

    def __init__(self, holder: Holder, key: str, labels: dict[str, str]) -> None:
        self._holder = holder
        self.key = key
        self.labels = labels

    def __getitem__(self, label: str) -> str:
        return self.labels[label]

    def __enter__(self) -> Self:
        if self._holder.open_block:
            raise RuntimeError(f"block {self.key} inside block {self._holder.open_block}")
        self._holder.run.begin_block(self.key)
        self._holder.open_block = self.key
        self._holder.progress_to.send("step", self.key, awaits="its measurements")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self._holder.open_block = ""
        if error is None:
            self._holder.run.end_block(self.key)
            return
        with contextlib.suppress(Exception):  # the error that is under way matters more
            self._holder.run.discard_block(self.key, f"{type(error).__name__}: {error}")


def key_of(gate: str, name: str, labels: dict[str, str]) -> str:
    """Return the block's key, e.g. ``G3/restore/arm=local/round=2``; the same on every resume."""
    parts = [gate, name, *(f"{label}={value}" for label, value in sorted(labels.items()))]
    return "/".join(part.replace("/", "_") for part in parts)
