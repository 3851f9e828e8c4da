"""Checked claims as a sheet and as JSON: each with its finding, its line and the arithmetic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from kvgate.kv.claims import Finding, Kind
from kvgate.report.sheet import Line, Part, Sheet, Table
from kvgate.spec.claims import Claims

_LOOKS = {Kind.HOLDS: "pass", Kind.UNCHECKED: "inconclusive"}


def sheet(claims: Claims, findings: Sequence[Finding]) -> Sheet:
    """Return the findings, the wrong ones first, each group in the file's order."""
    counts = Counter(each.kind for each in findings)
    told = ", ".join(f"{counts[kind]} {kind}" for kind in reversed(Kind) if counts[kind])
    parts = [
        Part(title=title, tables=(Table(caption, _HEAD, tuple(map(_line, group))),))
        for title, caption, group in _groups(findings)
        if group
    ]
    return Sheet(
        title=f"Claims of {claims.claims_of}",
        banner="",
        facts=(("from", claims.source), ("findings", told)),
        parts=tuple(parts),
        notes=(
            "figures are taken as stated and compared at the precision they are written with; that "
            "a claim holds means that its numbers agree, not that it was measured here",
        ),
    )


_HEAD = ("claim", "stands in", "what is claimed", "finding")


def _groups(findings: Sequence[Finding]) -> Iterator[tuple[str, str, list[Finding]]]:
    yield "Can't stand as written", "Wrong", [each for each in findings if each.kind.wrong]
    open_ = [each for each in findings if each.kind is Kind.UNCHECKED]
    yield "Can't be checked", "What is not told", open_
    yield "Hold", "Numbers that agree", [each for each in findings if each.kind is Kind.HOLDS]


def _line(each: Finding) -> Line:
    return Line(
        (each.claim.claim, each.line, each.claim.text, str(each.kind)),
        _LOOKS.get(each.kind, "fail"),
        (*each.arithmetic, f"source: {each.claim.source}"),
    )


def document(claims: Claims, findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the findings for JSON, in the file's order."""
    return {
        "claims_of": claims.claims_of,
        "source": claims.source,
        "wrong": sum(each.kind.wrong for each in findings),
        "findings": [
            {
                "claim": each.claim.claim,
                "line": each.line,
                "finding": str(each.kind),
                "text": each.claim.text,
                "source": each.claim.source,
                "arithmetic": list(each.arithmetic),
            }
            for each in findings
        ],
    }
