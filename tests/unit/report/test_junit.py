import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from kvgate.report.render import render

# What Jenkins' junit-10.xsd allows, by element: attributes, and the children that may follow.
ALLOWED = {
    "testsuites": ({"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {
            "name",
            "tests",
            "failures",
            "errors",
            "group",
            "time",
            "skipped",
            "timestamp",
            "hostname",
            "id",
            "package",
            "file",
            "log",
            "url",
        },
        {"testsuite", "properties", "testcase", "system-out", "system-err"},
    ),
    "properties": (set(), {"property"}),
    "property": ({"name", "value"}, set()),
    "testcase": (
        {"name", "time", "classname", "group"},
        {"skipped", "error", "failure", "system-out", "system-err"},
    ),
    "failure": ({"type", "message"}, set()),
    "error": ({"type", "message"}, set()),
    "skipped": ({"type", "message"}, set()),
    "system-out": (set(), set()),
}
REQUIRED = {
    "testsuite": {"name", "tests", "failures", "errors"},
    "testcase": {"name"},
    "property": {"name", "value"},
}


@pytest.fixture
def root(sample: Any, templates: Path) -> ET.Element:
    run, result = sample
    made = render(run, result, formats=("junit",), templates=templates)["junit.xml"]
    return ET.fromstring(made)  # noqa: S314  made here


def test_it_follows_the_schema(root: ET.Element) -> None:
    for element in root.iter():
        attributes, children = ALLOWED[element.tag]
        assert set(element.attrib) <= attributes, element.tag
        assert REQUIRED.get(element.tag, set()) <= set(element.attrib)
        assert {child.tag for child in element} <= children, element.tag


def test_a_suite_a_gate_a_case_a_criterion(root: ET.Element) -> None:
    assert [suite.get("id") for suite in root] == ["G1", "G2", "G3", "G4"]
    names = [case.get("name", "").split()[0] for case in root.iter("testcase")]
    assert names == [
        "G1.1",
        "G1.2",
        "G1.3",
        "G1.4",
        "G1.6",
        "G1.5",
        "G2.1",
        "G2.2",
        "G2.3",
        "G3.1",
        "G3.2",
        "G3.3",
        "G3.5",
        "G4.1",
        "G4.2",
    ]


def test_verdicts_become_what_the_readers_of_junit_know(root: ET.Element) -> None:
    found = {
        case.get("name", "").split()[0]: {child.tag for child in case} - {"system-out"}
        for case in root.iter("testcase")
    }
    assert found["G1.3"] == {"failure"}
    assert found["G1.4"] == {"error"}
    assert found["G3.3"] == {"skipped"}
    assert found["G1.5"] == {"skipped"}
    assert found["G2.1"] == set()
    scoped = next(case for case in root.iter("testcase") if "G1.5" in case.get("name", ""))
    message = scoped[0].get("message", "")
    assert message.startswith("scoped out: The virtual NICs")


def test_the_counts_are_those_of_the_cases(root: ET.Element) -> None:
    whole: Counter[str] = Counter()
    for suite in root:
        kinds = Counter(child.tag for case in suite.iter("testcase") for child in case)
        kinds["tests"] = len(list(suite.iter("testcase")))
        for name, kind in (
            ("tests", "tests"),
            ("failures", "failure"),
            ("errors", "error"),
            ("skipped", "skipped"),
        ):
            assert suite.get(name) == str(kinds[kind]), (suite.get("id"), name)
        whole += kinds
    assert root.get("tests") == str(whole["tests"]) == "15"
    assert root.get("failures") == str(whole["failure"]) == "1"
    assert root.get("errors") == str(whole["error"]) == "1"


def test_a_gate_without_findings_is_a_case_and_not_nothing(sample: Any, templates: Path) -> None:
    run, result = sample
    empty = dataclasses.replace(result.gates[2], findings=(), because="no test was run")
    other = dataclasses.replace(result, gates=(empty,))
    made = render(run, other, formats=("junit",), templates=templates)["junit.xml"]
    suite = ET.fromstring(made)[0]  # noqa: S314  made here
    assert suite.get("tests") == "2"
    assert suite.get("skipped") == "2"
    whole = next(case for case in suite.iter("testcase") if case.get("name") == "G3 as a whole")
    assert whole[0].get("message") == "no test was run"
