"""Folders that someone else prepared: always an answer or a StoreError, never anything else."""

from __future__ import annotations

import shutil
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import HealthCheck, given, settings

from kvgate.errors import StoreError
from kvgate.store import canonical, chain
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter
from kvgate.store.seal import seal, verify

JSONS = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 12) | st.text(max_size=5) | st.just("a"),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["count", "chain", "evidence", "measurements", "telemetry", "pack"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=6,
)
KINDS = st.sampled_from(
    ["block_begin", "block_end", "block_discarded", "measurements_synced", "attempt", "note"]
)
RECORDS = st.fixed_dictionaries(
    {"kind": KINDS, "seq": st.integers(1, 4)},
    optional={
        name: JSONS
        for name in (
            "block",
            "begin",
            "digest",
            "measurements",
            "stored",
            "criterion",
            "boot",
            "mono",
        )
    },
)
LINES = st.fixed_dictionaries(
    {},
    optional={
        "begin": JSONS,
        "n": st.integers(0, 3),
        "sample": JSONS,
        "measurement": st.dictionaries(st.sampled_from(["evidence", "name", "value"]), JSONS),
    },
)


def use(path: Path) -> None:
    """Do all that can be done with a run; only StoreError may come of it."""
    reader = RunReader(path)
    for read in (
        reader.measurements,
        reader.attempts,
        reader.journal_digest,
        lambda: list(reader.telemetry()),
        lambda: RunWriter.open(path).close(),
    ):
        try:
            read()
        except StoreError:
            continue


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_change_of_a_sealed_run_is_noticed(small_run: Path, data: st.DataObject) -> None:
    if not (small_run / "SHA256SUMS").exists():
        seal(small_run)
    files = sorted(file for file in small_run.rglob("*") if file.is_file() and file.name != "lock")
    file = data.draw(st.sampled_from([file for file in files if file.name != "SHA256SUMS"]))
    whole = file.read_bytes()
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, min(len(whole), start + 400)))
    changed = whole[:start] + data.draw(st.binary(max_size=20)) + whole[end:]
    try:
        file.write_bytes(changed)
        state = verify(small_run)
        name = str(file.relative_to(small_run))
        assert changed == whole or any(p.path == name for p in state.problems)
        assert state.ok is (changed == whole)
    finally:
        file.write_bytes(whole)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(records=st.lists(RECORDS, max_size=4), lines=st.lists(LINES, max_size=3))
def test_records_of_any_shape_whose_chain_holds(
    tmp_path: Path, records: list[dict[str, object]], lines: list[dict[str, object]]
) -> None:
    path = tmp_path / "run"
    RunWriter.create(path, {}, {}).close()
    first = (path / "journal.jsonl").read_bytes()
    parts = chain.split(first)
    assert parts is not None
    before, journal = parts[1], first
    for number, record in enumerate(records, 2):
        body = {"boot": "", "mono": 1.0, "utc": "2026-05-12T12:00:00.000000Z", **record}
        line, before = chain.link(before, canonical.compact({**body, "seq": number}))
        journal += line
    (path / "journal.jsonl").write_bytes(journal)
    for name in ("measurements.jsonl", "telemetry.jsonl"):
        before, out = canonical.sha256((path / "manifest.json").read_bytes()), b""
        for record in lines:
            line, before = chain.link(before, canonical.compact({"n": 1, **record}))
            out += line
        (path / name).write_bytes(out)
    assert not verify(path).ok
    use(path)
    shutil.rmtree(path)
