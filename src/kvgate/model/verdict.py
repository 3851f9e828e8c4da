"""Verdicts (what was concluded) and dispositions (what people decide about it)."""

from __future__ import annotations

import enum
from collections.abc import Iterable


class Verdict(enum.StrEnum):
    """What a criterion, a gate or a run concluded, from mildest to gravest."""

    PASS = "pass"  # noqa: S105  a verdict, not a password
    NOT_RUN = "not_run"
    INCONCLUSIVE = "inconclusive"
    FAIL = "fail"

    @classmethod
    def worst(cls, verdicts: Iterable[Verdict]) -> Verdict:
        """Return the gravest verdict. Nothing proves nothing, so none at all is NOT_RUN."""
        return max(verdicts, key=list(cls).index, default=cls.NOT_RUN)

    @property
    def exit_code(self) -> int:
        """Return the promised exit code: 0 pass, 1 fail, 2 inconclusive or not run."""
        return {Verdict.PASS: 0, Verdict.FAIL: 1}.get(self, 2)


class Disposition(enum.StrEnum):
    """What people decide about a gate. Never changes a verdict."""

    ACCEPTED = "accepted"
    ACCEPTED_WITH_CONDITIONS = "accepted_with_conditions"
    REJECTED = "rejected"

    @property
    def opens_next(self) -> bool:
        """Tell whether the next gate may open on this disposition."""
        return self is not Disposition.REJECTED
