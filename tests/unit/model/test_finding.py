"""Tests of findings: a gate's reason as people read it."""

from __future__ import annotations

from kvgate.model.finding import Finding, GateResult, ScopedOut
from kvgate.model.verdict import Verdict


def _gate(because: str, *verdicts: Verdict) -> GateResult:
    findings = tuple(
        Finding(criterion=f"G1.{n}", verdict=each, because="", limit="")
        for n, each in enumerate(verdicts, 1)
    )
    out = (ScopedOut(criterion="G1.99", reason="no GPU"),)
    return GateResult(
        gate="G1", verdict=Verdict.FAIL, because=because, findings=findings, scoped_out=out
    )


def test_a_reason_is_a_sentence_with_its_counts() -> None:
    fails = [Verdict.FAIL] * 9
    gate = _gate("of 12 criteria failed: …", *fails, Verdict.NOT_RUN, Verdict.PASS, Verdict.PASS)
    assert gate.told == (
        "9 of 12 criteria failed (G1.1, G1.2, G1.3, G1.4, G1.5, G1.6, G1.7, G1.8 and 1 more), "
        "1 not run (G1.10); 1 scoped out"
    )


def test_any_other_reason_stays_as_it_is() -> None:
    assert _gate("all of 2 criteria hold", Verdict.PASS).told == "all of 2 criteria hold"
