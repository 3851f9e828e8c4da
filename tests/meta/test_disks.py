"""A run that is moved or copied; a workspace on a full or read-only disk."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kvgate.store.reader import RunReader
from kvgate.store.seal import verify

if TYPE_CHECKING:
    from conftest import Site  # the small site of this folder

pytestmark = pytest.mark.whole

LARGE = '''
@settles("G1.1")
def test_with_large_answers(bench: Bench) -> None:
    """Keep much evidence, block by block."""
    for host in bench.hosts("serving"):
        for block in bench.blocks("large", host=[host.name], round=range(1, 5)):
            with block:
                noise = ["head", "-c", "200000", "/dev/urandom"]
                told = bench.witness(host).ask(noise, timeout_s=9)
                reading = Reading(name="a.held", value=Quantity.of(1, "ms"))
                bench.record(Answer((reading,), (told.ref,)), host=host, phase="inspection")
'''
LIMITS = {"G1.1": ("a.held", "{at_most: 2 ms}")}
KVGATE = f"{sys.executable} -m kvgate"


def in_namespace(site: Site, script: str) -> str:
    """Run `script` where it may mount file systems that nobody else sees; return what it says."""
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode != 0:
        pytest.skip("needs user and mount namespaces (unshare -rm)")
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script],
        cwd=site.root,
        capture_output=True,
        text=True,
        timeout=200,
    )
    return done.stdout + done.stderr


def test_a_run_that_was_moved_or_copied_stays_what_it_was(site: Site) -> None:
    site.gate("G1", LIMITS, LARGE)
    assert site.kvgate("run").returncode == 0
    run = site.newest()
    before = (run / "findings.json").read_bytes()
    elsewhere = site.root / "elsewhere" / "renamed"
    elsewhere.parent.mkdir()
    shutil.copytree(run, elsewhere)
    shutil.move(run, site.root / "moved")
    for place in (elsewhere, site.root / "moved"):
        assert site.kvgate("verify", str(place)).returncode == 0
        judged = site.kvgate("judge", str(place))
        assert judged.returncode == 0, judged.stderr
        assert (place / "findings.json").read_bytes() == before
        assert verify(place).ok


def test_an_unfinished_run_goes_on_in_another_workspace(site: Site) -> None:
    site.gate(
        "G1",
        LIMITS,
        LARGE + "\n                if bench.run.path.parent.name == 'runs' and "
        "block['round'] == '3':\n                    import os\n                    "
        "os._exit(9)\n",
    )
    assert site.kvgate("run").returncode == 3
    run = site.newest()
    assert len(site.events("block_end")) == 2
    other = site.root / "other"
    other.mkdir()
    for name in ("gates", "suites", "inventory", "templates"):
        shutil.copytree(site.root / name, other / name)
    (other / "later").mkdir()
    shutil.move(run, other / "later" / "renamed")
    done = site.kvgate("run", "--resume", str(other / "later" / "renamed"))
    assert done.returncode == 0, done.stderr
    blocks = [e.fields["block"] for e in RunReader(other / "later" / "renamed").events("block_end")]
    assert len(blocks) == len(set(blocks)) == 4
    assert verify(other / "later" / "renamed").ok


@pytest.mark.parametrize("size_kib", [4, 40, 500])
def test_a_full_disk_is_named_and_the_run_goes_on_when_there_is_room(
    site: Site, size_kib: int
) -> None:
    site.gate("G1", LIMITS, LARGE)
    said = in_namespace(
        site,
        f"""
        mount -t tmpfs -o size={size_kib}k none runs
        {KVGATE} run >first 2>first.err; echo "first $?"
        mount -o remount,size=64m runs
        run=$(ls runs | head -1)
        [ -f "runs/$run/journal.jsonl" ] || {{ rm -rf "runs/$run"; exit; }}
        {KVGATE} run --resume "$run" >second 2>&1; echo "second $?"
        {KVGATE} verify "$run" >>second 2>&1; echo "verified $?"
        """,
    )
    error = (site.root / "first.err").read_text()
    assert "first 3" in said, said + error
    assert "No space left on device" in error
    assert "free some space" in error
    assert "Traceback" not in error
    assert "fault of kvgate" not in error
    if size_kib == 500:
        assert "second 0\nverified 0" in said, (site.root / "second").read_text()


def test_a_read_only_disk_is_named_before_any_host_is_touched(site: Site) -> None:
    site.gate("G1", LIMITS, LARGE)
    script = f"""
        mount -t tmpfs none runs && mount -o remount,ro runs
        {KVGATE} run >first 2>first.err; echo "first $?"
        """
    said = in_namespace(site, script)
    error = (site.root / "first.err").read_text()
    assert "first 3" in said, said + error
    assert "Read-only file system" in error
    assert "/runs/" in error
    assert "Traceback" not in error


def test_a_read_only_run_can_be_verified_and_read(site: Site) -> None:
    site.gate("G1", LIMITS, LARGE)
    assert site.kvgate("run").returncode == 0
    said = in_namespace(
        site,
        f"""
        mount --bind runs runs && mount -o remount,bind,ro runs
        {KVGATE} verify {site.newest().name}; echo "verified $?"
        {KVGATE} judge {site.newest().name}; echo "judged $?"
        {KVGATE} seal {site.newest().name}; echo "sealed $?"
        """,
    )
    assert "verified 0" in said, said
    assert "judged 0" in said, said
    assert "sealed 3" in said, said
    assert "Traceback" not in said, said
