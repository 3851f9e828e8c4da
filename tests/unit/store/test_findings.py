from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from kvgate.errors import DamagedRunError, StoreError
from kvgate.model.finding import Finding, GateResult, HostFinding, RunResult, ScopedOut
from kvgate.model.verdict import Disposition, Verdict
from kvgate.store.findings import findings_bytes, findings_name, read_findings, write_findings
from kvgate.store.seal import seal, verify

T = st.text(max_size=12)
VERDICTS = st.sampled_from(Verdict)
REFS = st.lists(T, max_size=2).map(tuple)
HOSTS = st.builds(
    HostFinding,
    host=T,
    verdict=VERDICTS,
    measured=T,
    because=T,
    item=T,
    marginal=st.booleans(),
    evidence=REFS,
)
FINDINGS = st.builds(
    Finding,
    criterion=T,
    verdict=VERDICTS,
    because=T,
    limit=T,
    measured=T,
    hint=T,
    marginal=st.booleans(),
    hosts=st.lists(HOSTS, max_size=2).map(tuple),
    evidence=REFS,
)
GATES = st.builds(
    GateResult,
    gate=T,
    verdict=VERDICTS,
    because=T,
    forced=T,
    findings=st.lists(FINDINGS, max_size=2).map(tuple),
    scoped_out=st.lists(st.builds(ScopedOut, criterion=T, reason=T), max_size=2).map(tuple),
    disposition=st.none() | st.sampled_from(Disposition),
)
RESULTS = st.builds(
    RunResult,
    run=T,
    profile=T,
    verdict=VERDICTS,
    gates=st.lists(GATES, max_size=2).map(tuple),
    criteria_digest=T,
    journal_digest=T,
)

RESULT = RunResult(
    run="r",
    profile="rehearsal",
    verdict=Verdict.PASS,
    gates=(
        GateResult(
            gate="G1",
            verdict=Verdict.PASS,
            because="b",
            disposition=Disposition.ACCEPTED,
            findings=(
                Finding(criterion="G1.1", verdict=Verdict.PASS, because="b", limit="at most 1 ms"),
            ),
        ),
    ),
    criteria_digest="c",
    journal_digest="j",
)


@given(RESULTS)
def test_results_survive_the_way_there_and_back(result: RunResult) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = write_findings(Path(folder), result)
        assert read_findings(file) == read_findings(Path(folder)) == result
        assert file.read_bytes() == findings_bytes(read_findings(file))


def test_findings_are_replaced_until_they_are_sealed(small_run: Path) -> None:
    other = dataclasses.replace(RESULT, verdict=Verdict.FAIL)
    write_findings(small_run, RESULT)
    write_findings(small_run, other)
    assert read_findings(small_run) == other
    seal(small_run)
    write_findings(small_run, RESULT)  # the run is sealed, its findings are not
    seal(small_run)
    write_findings(small_run, RESULT)  # the same bytes: nothing to do
    with pytest.raises(StoreError, match="sealed with other findings"):
        write_findings(small_run, other)
    name = findings_name(other)
    assert read_findings(write_findings(small_run, other, name=name)) == other
    assert [p.path for p in verify(small_run).problems] == [name]
    assert read_findings(small_run) == RESULT


@pytest.mark.parametrize(
    "name", ["other.json", "../findings.json", "findings-.json", "journal.jsonl"]
)
def test_findings_have_their_own_names(small_run: Path, name: str) -> None:
    with pytest.raises(StoreError, match="no name for findings"):
        write_findings(small_run, RESULT, name=name)


def test_findings_that_we_did_not_write_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not judged yet"):
        read_findings(tmp_path)
    good = json.loads(findings_bytes(RESULT))
    for change in ({"verdict": "maybe"}, {"gates": {}}, {"more": "x"}, {"run": 5}):
        (tmp_path / "findings.json").write_text(json.dumps({**good, **change}))
        with pytest.raises(DamagedRunError):
            read_findings(tmp_path)
    (tmp_path / "findings.json").write_text(json.dumps({**good, "format": "kvgate-findings/9"}))
    with pytest.raises(StoreError, match=r"kvgate-findings/9.*newer than kvgate-findings/1"):
        read_findings(tmp_path)
