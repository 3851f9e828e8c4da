"""What the judge concludes: a verdict with everything a reader needs to dispute it."""

from __future__ import annotations

import dataclasses

from kvgate.model.record import EvidenceRef
from kvgate.model.verdict import Disposition, Verdict

LEFT_OUT = {"left_out": True}
"""Marks a field that is not stored where it is None: older findings read as they always did."""


IDS_NAMED = 8
"""Criteria that a gate's reason names before it goes on with "and N more"."""

_WORDS = {
    Verdict.FAIL: "failed",
    Verdict.INCONCLUSIVE: "inconclusive",
    Verdict.NOT_RUN: "not run",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """How the test that settles a criterion ended, as far as the harness is concerned.

    ``outcome``: ``ran``, ``not_run`` (requirements not met: `reasons`), or ``error`` (the
    harness broke: `reasons`). A criterion nobody attempted has no Attempt. ``hint`` is the next
    step that what ended it advises.
    """

    criterion: str
    outcome: str
    reasons: tuple[str, ...] = ()
    test: str = ""
    hint: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How one arm compares with another: all that a reader needs beside the verdict, as text.

    ``low`` and ``high`` are the ends of the interval that holds the ratio with probability
    ``level``; all three are empty where the blocks carry no interval.
    """

    of: str
    to: str
    ratio: str  # "1.42 x"; "" where no block has one
    low: str
    high: str
    level: str  # "95 %"
    blocks: str  # "10 blocks of 10 planned, look 1 of 1"
    noise: str  # the noise floor by this run's A/A rounds, or why it is not known


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostFinding:
    """One host's part of a finding; `host` is ALL_HOSTS for a criterion over all hosts."""

    host: str
    verdict: Verdict
    measured: str  # the worst value, as text; "" where nothing was measured
    because: str
    item: str = ""
    marginal: bool = False
    evidence: tuple[EvidenceRef, ...] = ()
    # of a criterion that compares arms; stored only where there is one
    comparison: Comparison | None = dataclasses.field(default=None, metadata=LEFT_OUT)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The verdict on one criterion, with its reason, the worst value and the evidence."""

    criterion: str
    verdict: Verdict
    because: str
    limit: str  # as text, e.g. "at most 1.5 ms"
    measured: str = ""
    marginal: bool = False  # a PASS close to its limit
    hint: str = ""  # what to do next
    hosts: tuple[HostFinding, ...] = ()
    evidence: tuple[EvidenceRef, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ScopedOut:
    """A criterion the plan leaves out: listed, not judged, never silent."""

    criterion: str
    reason: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """A gate's verdict (the gravest of its findings) and its disposition."""

    gate: str
    verdict: Verdict
    because: str
    findings: tuple[Finding, ...]
    scoped_out: tuple[ScopedOut, ...] = ()
    disposition: Disposition | None = None
    forced: str = ""  # the reason given with --force-gate; bars the run from acceptance

    @property
    def told(self) -> str:
        """Return the reason as a sentence with its counts.

        ``because`` keeps its first wording, as stored runs are judged to the same bytes.
        """
        if not self.because.startswith("of "):
            return self.because
        parts: list[str] = []
        for verdict, words in _WORDS.items():
            ids = [each.criterion for each in self.findings if each.verdict is verdict]
            if ids:
                more = len(ids) - IDS_NAMED
                named = ", ".join(ids[:IDS_NAMED]) + (f" and {more} more" if more > 0 else "")
                of = f"of {len(self.findings)} criteria " if not parts else ""
                parts.append(f"{len(ids)} {of}{words} ({named})")
        out = f"; {len(self.scoped_out)} scoped out" if self.scoped_out else ""
        return ", ".join(parts) + out if parts else self.because


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """Everything that was judged about a run: what `findings.json` holds."""

    run: str
    profile: str
    verdict: Verdict
    gates: tuple[GateResult, ...]
    criteria_digest: str  # SHA-256 over the gate files and plan that were judged by
    journal_digest: str  # head of the journal's chain at judging
