"""Whole gates on a small site: kvgate shows that it can see every kind of failure."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from kvgate.engine.judging import judge_stored

if TYPE_CHECKING:
    from conftest import Site  # the small site of this folder

HELD = 'say(bench, "a.held", Quantity.of(1, "ms"))'
ALL_KINDS = '''
@settles("G1.1")
def test_what_holds(bench: Bench) -> None:
    """Hold."""
    say(bench, "a.held", Quantity.of(1, "ms"))

@settles("G1.2")
def test_what_is_over(bench: Bench) -> None:
    """Be over."""
    say(bench, "a.over", Quantity.of(3, "ms"))

@settles("G1.3")
def test_what_has_a_problem(bench: Bench) -> None:
    """Have no value."""
    say(bench, "a.problem", problem="the counter went back")

@settles("G1.4")
def test_what_lacks_something(bench: Bench) -> None:
    """Lack two things."""
    bench.require("there is no GPU", "", "there is no array")

@settles("G1.5")
def test_what_breaks(bench: Bench) -> None:
    """Break."""
    raise ZeroDivisionError("planted")

@settles("G1.6")
def test_what_records_nothing(bench: Bench) -> None:
    """Say nothing."""

@settles("G1.7")
def test_what_is_text(bench: Bench) -> None:
    """Be no quantity."""
    say(bench, "a.text", "3 ms or so")

@settles("G1.8")
def test_what_is_just_inside(bench: Bench) -> None:
    """Be close to the limit."""
    say(bench, "a.close", Quantity.of("1.99", "ms"))
'''
CRITERIA = {
    "G1.1": ("a.held", "{at_most: 2 ms}"),
    "G1.2": ("a.over", "{at_most: 2 ms}"),
    "G1.3": ("a.problem", "{at_most: 2 ms}"),
    "G1.4": ("a.lacking", "{at_most: 2 ms}"),
    "G1.5": ("a.broken", "{at_most: 2 ms}"),
    "G1.6": ("a.silent", "{at_most: 2 ms}"),
    "G1.7": ("a.text", "{at_most: 2 ms}"),
    "G1.8": ("a.close", "{at_most: 2 ms}"),
}


@pytest.fixture
def judged(site: Site) -> Site:
    """Return the site after a gate that has every kind of end."""
    site.gate("G1", CRITERIA, ALL_KINDS)
    done = site.kvgate("run")
    assert done.returncode == 1, done.stderr
    return site


def test_every_verdict_comes_out_once_with_its_reason(judged: Site) -> None:
    found = judged.findings()
    expected = {
        "G1.1": ("pass", "1 ms"),
        "G1.2": ("fail", "3 ms"),
        "G1.3": ("inconclusive", "the counter went back"),
        "G1.4": ("not_run", "there is no GPU"),
        "G1.5": ("inconclusive", "planted"),
        "G1.6": ("inconclusive", "not measured"),
        "G1.7": ("inconclusive", "3 ms or so"),
        "G1.8": ("pass", "1.99 ms"),
    }
    for criterion, (verdict, word) in expected.items():
        assert found[criterion]["verdict"] == verdict, found[criterion]
        assert word in found[criterion]["because"], found[criterion]
    assert "there is no array" in found["G1.4"]["because"]  # every reason, not just the first
    assert "scope_out" in found["G1.4"]["hint"]
    assert found["G1.8"]["marginal"]
    assert not found["G1.1"]["marginal"]
    assert found["G1.2"]["evidence"]


def test_the_next_step_of_what_ended_a_test_is_the_first_of_its_findings_hint(site: Site) -> None:
    site.gate(
        "G1",
        {id_: ("a.lacking", "{at_most: 2 ms}") for id_ in ("G1.1", "G1.2", "G1.3", "G1.4")},
        '''
@settles("G1.1", "G1.2", "G1.3")
def test_what_lacks_a_tool(bench: Bench) -> None:
    """Lack it."""
    raise NotRunError(("fio is not there",), hint="install the package 'fio' there")

@settles("G1.4")
def test_what_is_killed(bench: Bench) -> None:
    """Be killed."""
    raise HarnessError("fio was ended by SIGKILL", hint="look for 'Out of memory'")
'''.replace("\n@", "\nfrom kvgate.errors import HarnessError, NotRunError\n\n@", 1),
    )
    assert site.kvgate("run").returncode == 2
    found = site.findings()
    for criterion, advice in {
        "G1.1": "install the package 'fio' there",
        "G1.4": "look for 'Out of memory'",
    }.items():
        assert found[criterion]["hint"].splitlines()[:2] == [advice, "look at the small site"]
    page = (site.newest() / "report/report.html").read_text()
    assert "3 criteria: G1.1, G1.2, G1.3" in page
    assert "see what ended it" not in page
    assert page.count("install the package &#39;fio&#39; there") >= 2


def test_a_stored_run_is_judged_again_to_the_same_bytes(judged: Site) -> None:
    run = judged.newest()
    before = (run / "findings.json").read_bytes()
    assert judged.kvgate("judge", str(run)).returncode == 1
    assert (run / "findings.json").read_bytes() == before
    assert judge_stored(run) == judge_stored(run)


def test_other_limits_give_other_findings_beside_the_first(judged: Site) -> None:
    run = judged.newest()
    before = (run / "findings.json").read_bytes()
    gate = judged.root / "gates/g1-small.yaml"
    gate.write_text(gate.read_text().replace("at_most: 2 ms", "at_most: 5 ms"))
    judged.kvgate("judge", str(run), "--gates", "gates")
    assert (run / "findings.json").read_bytes() == before
    others = list(run.glob("findings-*.json"))
    assert len(others) == 1
    found = json.loads(others[0].read_bytes())
    verdicts = {f["criterion"]: f["verdict"] for f in found["gates"][0]["findings"]}
    assert verdicts["G1.2"] == "pass"


def test_an_ended_run_is_sealed_and_every_changed_byte_is_named(judged: Site) -> None:
    run = judged.newest()
    assert judged.kvgate("verify", str(run)).returncode == 0
    report = run / "report/report.html"
    report.write_bytes(report.read_bytes().replace(b"fail", b"pass", 1))
    (run / "extra.txt").write_text("added")
    done = judged.kvgate("verify", run.name)
    assert done.returncode == 1
    assert "report/report.html" in done.stdout
    assert "extra.txt" in done.stdout


def test_the_seal_is_checked_by_sha256sum_too(judged: Site) -> None:
    subprocess.run(
        ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"],
        cwd=judged.newest(),
        check=True,
        timeout=60,
    )


def test_a_gate_that_did_not_pass_keeps_the_next_one_closed(site: Site) -> None:
    site.gate(
        "G1",
        {"G1.1": ("a.over", "{at_most: 2 ms}")},
        '''
@settles("G1.1")
def test_what_is_over(bench: Bench) -> None:
    """Be over."""
    say(bench, "a.over", Quantity.of(3, "ms"))
''',
    )
    site.gate(
        "G2",
        {"G2.1": ("a.held", "{at_most: 2 ms}")},
        f'''
@settles("G2.1")
def test_what_holds(bench: Bench) -> None:
    """Hold."""
    {HELD}
''',
        entry="G1",
    )
    site.plan("G1", "G2")
    assert site.kvgate("run").returncode == 1
    found = site.findings()
    assert found["G2.1"]["verdict"] == "not_run"
    assert [e["gate"] for e in site.events("gate_begin")] == ["G1"]


def test_a_criterion_that_is_scoped_out_is_listed_and_not_judged(site: Site) -> None:
    site.gate(
        "G1",
        {"G1.1": ("a.held", "{at_most: 2 ms}"), "G1.2": ("a.gpu", "{at_least: 8}")},
        f'''
@settles("G1.1")
def test_what_holds(bench: Bench) -> None:
    """Hold."""
    {HELD}
''',
    )
    site.plan("G1", more="scope_out: [{criteria: [G1.2], reason: this site has no GPU}]\n")
    done = site.kvgate("run")
    assert done.returncode == 0, done.stdout + done.stderr
    gate = json.loads((site.newest() / "findings.json").read_bytes())["gates"][0]
    assert gate["scoped_out"] == [{"criterion": "G1.2", "reason": "this site has no GPU"}]
    assert "this site has no GPU" in (site.newest() / "report/report.html").read_text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("gates/g1-small.yaml", "{at_most: 2 ms}", "{at_mots: 2 ms}"), "did you mean 'at_most'"),
        (("gates/g1-small.yaml", "id: G1.1", "id: G1.9"), "no test in suites/g1 settles G1.9"),
        (("gates/plans/rehearsal.yaml", "gate: G1", "gate: G7"), "no gate file decides 'G7'"),
        (
            ("gates/g1-small.yaml", "rehearsal:", "acceptance:"),
            "has a limit for profile 'rehearsal'",
        ),
        (("inventory/local/this-machine.yaml", "[serving]", "[client]"), "nothing is declared"),
    ],
)
def test_what_is_unsound_is_refused_before_any_run(
    site: Site, change: tuple[str, str, str], message: str
) -> None:
    site.gate(
        "G1",
        {"G1.1": ("a.held", "{at_most: 2 ms}")},
        f'''
@settles("G1.1")
def test_what_holds(bench: Bench) -> None:
    """Hold."""
    {HELD}
''',
    )
    assert site.kvgate("check").returncode == 0
    name, old, new = change
    path = site.root / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    checked = site.kvgate("check")
    assert checked.returncode == 1
    assert message in checked.stderr
    assert site.kvgate("run").returncode == 64
    assert site.runs() == []
