"""Recorded sites: what a run's hosts answered, replayed: the same findings, and never accepted."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kvgate.store.reader import RunReader

if TYPE_CHECKING:
    from conftest import Site  # the small site of this folder

pytestmark = pytest.mark.whole

REPLAY = ("--inventory", "inventory/recorded/here/inventory.yaml")
LIMITS = {
    "G1.1": ("a.threads", "{at_least: 1}"),
    "G1.2": ("a.turn", "{at_most: 2}"),
    "G1.3": ("a.failed", "{at_most: 1}"),
}
SUITE = '''
from kvgate.suite import NotRunError


def number(bench, host, name, argv, phase="inspection", **labels):
    told = bench.witness(host).ask(argv, timeout_s=10)
    reading = Reading(name=name, value=Quantity.of(told.stdout.decode().strip(), ""))
    bench.record(Answer((reading,), (told.ref,)), host=host, phase=phase, **labels)


@settles("G1.1", "G1.2")
def test_what_changes_from_turn_to_turn(bench: Bench) -> None:
    """Count up in a file, so that the same command has another answer each time."""
    count = "n=$(cat turn 2>/dev/null || echo 0); echo $((n + 1)) > turn; cat turn; cat secret >&2"
    for host in bench.hosts("serving"):
        for block in bench.blocks("turn", turn=range(1, 3), host=[host.name]):
            with block:
                number(bench, host, "a.threads", ["nproc"], turn=block["turn"])
                number(bench, host, "a.turn", ["sh", "-c", count], turn=block["turn"])


@settles("G1.3")
def test_what_fails(bench: Bench) -> None:
    """Ask a command that fails: its exit status and complaint are the problem."""
    for host in bench.hosts("serving"):
        number(bench, host, "a.failed", ["sh", "-c", "echo no luck >&2; exit 3"])
'''
SECRET = "hunter2-hunter2"


def comparable(run: Path) -> dict[str, Any]:
    """Return a run's findings without the three values that say which run it is."""
    found: dict[str, Any] = json.loads((run / "findings.json").read_bytes())
    for name in ("run", "criteria_digest", "journal_digest"):
        del found[name]
    return found


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the recorded site is kept, so that it is made only once."""
    return tmp_path_factory.mktemp("recorded") / "site"


@pytest.fixture
def recorded(site: Site, kept: Path) -> Path:
    """Return the run of a small site, recorded in inventory/recorded/here."""
    if not kept.exists():
        _record(site)
        shutil.copytree(site.root, kept, ignore=shutil.ignore_patterns("templates"))
    shutil.rmtree(site.root / "inventory")
    shutil.copytree(kept, site.root, dirs_exist_ok=True)
    return site.newest()


def _record(site: Site) -> None:
    site.gate("G1", LIMITS, SUITE)
    (site.root / "secret").write_text(f"password={SECRET}\n")
    done = site.kvgate("run")
    assert done.returncode == 2, done.stderr  # G1.3's harness error is inconclusive
    run = site.newest()
    made = site.kvgate("record", run.name, "--out", "inventory/recorded/here")
    assert made.returncode == 0, made.stderr
    assert "replay it with: kvgate run --plan inventory/recorded/here/plan.yaml" in made.stdout
    shutil.rmtree(site.root / "inventory/local")
    for name in ("turn", "secret"):  # the host is gone: only its recording answers
        (site.root / name).unlink()


def test_a_replay_finds_what_the_site_found(site: Site, recorded: Path) -> None:
    replay = site.kvgate("run", *REPLAY)
    assert replay.returncode == 2, replay.stderr
    assert "RECORDED — can never be signed as an acceptance" in replay.stdout
    run = site.newest()
    assert comparable(run) == comparable(recorded)
    assert comparable(run)["gates"][0]["findings"][1]["measured"] == "2"
    assert not (site.root / "turn").exists()
    assert site.kvgate("judge", run.name).returncode == 2
    assert comparable(run) == comparable(recorded)
    again = site.kvgate("record", run.name, "--out", "inventory/recorded/again")
    assert again.returncode == 0, again.stderr
    first, second = (
        (site.root / f"inventory/recorded/{name}/hosts/here.jsonl").read_text().splitlines()[1:]
        for name in ("here", "again")
    )
    assert first == second  # a recording of a replay is the recording
    check_marked(site, run, recorded)


def check_marked(site: Site, run: Path, recorded: Path) -> None:
    """Look for the mark of a recorded run in its manifest, reports and outline."""
    assert json.loads((run / "manifest.json").read_bytes())["recorded"] is True
    assert "recorded" not in json.loads((recorded / "manifest.json").read_bytes())
    for name in ("report.html", "report.md", "report.json"):
        assert "RECORDED" in (run / "report" / name).read_text("utf-8"), name
    page = (run / "report/report.html").read_text("utf-8")
    assert 'class="band" role="note"><span>RECORDED' in page  # fixed: on every printed page
    outline = site.kvgate("plan", *REPLAY).stdout
    assert "on recorded hosts, never an acceptance" in " ".join(outline.split())


def test_secrets_are_not_recorded(site: Site, recorded: Path) -> None:
    for path in (site.root / "inventory/recorded").rglob("*"):
        assert path.is_dir() or SECRET not in path.read_text("utf-8"), path
    assert "[masked]" in (site.root / "inventory/recorded/here/hosts/here.jsonl").read_text()


def test_what_was_not_recorded_is_an_error_that_names_it(site: Site, recorded: Path) -> None:
    suite = site.root / "suites/g1/test_small.py"
    suite.write_text(suite.read_text().replace('["nproc"]', '["nproc", "--all"]'))
    assert site.kvgate("run", *REPLAY).returncode == 2
    finding = site.findings()["G1.1"]
    assert finding["verdict"] == "inconclusive"
    assert "here: `nproc --all` is not in the recording" in finding["because"]


def test_timing_takes_as_long_as_it_took(site: Site, recorded: Path) -> None:
    path = site.root / "inventory/recorded/here/hosts/here.jsonl"
    head, *lines = (json.loads(line) for line in path.read_text().splitlines())
    for line in lines:
        line["elapsed_us"] = 700_000 if line["command"] == ["nproc"] else 1
    path.write_text("".join(json.dumps(line) + "\n" for line in (head, *lines)))
    for more, at_least, at_most in (((), 0.0, 0.6), (("--timing",), 0.7, 60.0)):
        assert site.kvgate("run", *REPLAY, *more).returncode == 2
        begins, ends = (
            [event.mono for event in RunReader(site.newest()).events(kind)]
            for kind in ("block_begin", "block_end")
        )
        spans = [end - begin for begin, end in zip(begins, ends, strict=True)]
        assert min(spans) < at_most, more
        assert min(spans) >= at_least, more


def test_a_recorded_run_opens_no_gate_on_hosts(site: Site) -> None:
    """A gate that opens on G1 does not open on a replay of it."""
    holds = '''
@settles("{}")
def test_it(bench: Bench) -> None:
    """Hold."""
    say(bench, "a.held", Quantity.of(1, "ms"))
'''
    site.gate("G1", {"G1.1": ("a.held", "{at_most: 2 ms}")}, holds.format("G1.1"))
    site.gate("G2", {"G2.1": ("a.held", "{at_most: 2 ms}")}, holds.format("G2.1"), entry="G1")
    site.plan("G1", "G2")
    assert site.kvgate("run", "--gate", "G1").returncode == 0
    first = site.newest()
    out = ("--out", "inventory/recorded/here")
    assert site.kvgate("record", first.name, *out).returncode == 0
    assert site.kvgate("run", "--gate", "G1", *REPLAY).returncode == 0
    shutil.rmtree(first)
    assert site.kvgate("run", "--gate", "G2").returncode == 2
    assert "G1 was not run yet" in site.events("gate_refused")[0]["because"]


def test_a_torn_recording_is_refused_before_anything_runs(site: Site, recorded: Path) -> None:
    path = site.root / "inventory/recorded/here/hosts/here.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    runs = site.runs()
    done = site.kvgate("run", *REPLAY)
    assert done.returncode == 64
    assert "here.jsonl:" in done.stderr
    assert "answers of" in done.stderr
    path.unlink()
    assert "No such file" in site.kvgate("check", *REPLAY).stderr
    assert site.runs() == runs


def test_a_folder_that_is_there_is_not_recorded_over(site: Site, recorded: Path) -> None:
    done = site.kvgate("record", recorded.name, "--out", "inventory/recorded/here")
    assert done.returncode == 64
    assert "is there already" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="asks this machine as a Linux host")
def test_g1_as_shipped_replays_byte_for_byte(site: Site) -> None:
    """Ask this machine what the shipped G1 asks, record it, and find the same on the recording."""
    shipped = Path(__file__).resolve().parents[2]
    for name in ("gates", "suites"):
        shutil.rmtree(site.root / name)
        ignore = shutil.ignore_patterns("local", "__pycache__")
        shutil.copytree(shipped / name, site.root / name, ignore=ignore)
    shutil.copy(shipped / "inventory/baseline.yaml", site.root / "inventory")
    assert site.kvgate("draft").returncode == 0
    live = site.kvgate("run", "--gate", "G1")
    first = site.newest()
    out = ("--out", "inventory/recorded/here")
    assert site.kvgate("record", first.name, *out).returncode == 0
    plan = ("--plan", "inventory/recorded/here/plan.yaml")
    replay = site.kvgate("run", "--gate", "G1", *plan, *REPLAY)
    assert replay.returncode == live.returncode, replay.stderr
    assert len(comparable(first)["gates"][0]["findings"]) > 10
    assert comparable(site.newest()) == comparable(first)
