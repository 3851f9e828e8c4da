"""The page as JUnit XML: a suite a gate, a case a criterion, for the tools that read nothing else.

Follows Jenkins' junit-10.xsd. A fail is a ``failure``, inconclusive an ``error`` (the device is
not to blame), not run and scoped out are ``skipped`` with their reasons.
"""

from __future__ import annotations

from collections import Counter
from xml.etree import ElementTree as ET

from kvgate.report.text import visible
from kvgate.report.views import CriterionView, GateView, Mark, Page

_OUTCOMES = {
    "fail": "failure",
    "inconclusive": "error",
    "not_run": "skipped",
    "scoped_out": "skipped",
}


def render(page: Page) -> bytes:
    """Return the page as JUnit XML in UTF-8."""
    root = ET.Element("testsuites", name=_legal(f"kvgate {page.run}"))
    tallies = [_suite(root, gate, page) for gate in page.gates]
    for name, outcome in (("tests", "case"), ("failures", "failure"), ("errors", "error")):
        root.set(name, str(sum(tally[outcome] for tally in tallies)))
    ET.indent(root)
    body: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return body + b"\n"


def _suite(root: ET.Element, gate: GateView, page: Page) -> Counter[str]:
    suite = ET.SubElement(root, "testsuite", name=_legal(f"{gate.id} {gate.title}"), id=gate.id)
    _properties(suite, gate, page)
    tally: Counter[str] = Counter()
    for criterion in gate.criteria:
        message = " ".join(
            [criterion.because, *(("Next:",) if criterion.hint else ()), *criterion.hint]
        )
        name = f"{criterion.id} {criterion.text}"
        case = _case(suite, gate, name, criterion.mark, message, tally)
        ET.SubElement(case, "system-out").text = _legal(_told(criterion))
    for part in gate.scoped_out:
        _case(
            suite,
            gate,
            f"{part.criterion} {part.text}",
            part.mark,
            f"scoped out: {part.reason}",
            tally,
        )
    if not gate.criteria:
        _case(suite, gate, f"{gate.id} as a whole", gate.mark, gate.because, tally)
    for name, outcome in (
        ("tests", "case"),
        ("failures", "failure"),
        ("errors", "error"),
        ("skipped", "skipped"),
    ):
        suite.set(name, str(tally[outcome]))
    if gate.took:
        suite.set("time", f"{gate.took_s:.3f}")
    if gate.began:
        suite.set("timestamp", gate.began.removesuffix(" UTC").replace(" ", "T"))
    return tally


def _properties(suite: ET.Element, gate: GateView, page: Page) -> None:
    told = {
        "run": page.run,
        "verdict": gate.mark.key,
        "disposition": gate.disposition,
        "because": gate.because,
        "forced": gate.forced,
        "banner": page.banner,
    }
    properties = ET.SubElement(suite, "properties")
    for name, value in told.items():
        if value:
            ET.SubElement(properties, "property", name=name, value=_legal(value))


def _case(
    suite: ET.Element, gate: GateView, name: str, mark: Mark, message: str, tally: Counter[str]
) -> ET.Element:
    case = ET.SubElement(suite, "testcase", name=_legal(name), classname=f"kvgate.{gate.id}")
    tally["case"] += 1
    if outcome := _OUTCOMES.get(mark.key):
        tally[outcome] += 1
        ET.SubElement(case, outcome, type=mark.key, message=_legal(message))
    return case


def _told(criterion: CriterionView) -> str:
    lines = [
        f"limit: {criterion.limit}",
        f"measured: {criterion.measured.text or 'nothing'}",
        f"verdict: {criterion.mark.key}{' (marginal)' if criterion.marginal else ''}",
        f"because: {criterion.because}",
    ]
    lines += [f"evidence: {link.sha256}" for link in criterion.evidence]
    return "\n".join(_legal(line) for line in lines)


def _legal(text: str) -> str:
    """Return `text` without what XML 1.0 forbids, even where a text was made outside the page."""
    return visible(text)
