"""The kernel log over a whole gate: from the mark at its beginning to the end of its tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kvgate.store.reader import RunReader

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Site  # the small site of this folder

pytestmark = pytest.mark.whole

BOOT, OTHER = (f"00000000-0000-4000-8000-00000000000{n}\n" for n in (1, 2))
BUG = "BUG: unable to handle page fault for address: ffffa1b2c3d4e5f6"
OLD = f"[    1.000000] {BUG}\n[    2.000000] EXT4-fs (vda1): mounted filesystem\n"
OOM = "[    9.000000] Out of memory: Killed process 4711 (java) total-vm:1kB, anon-rss:1kB\n"
MEANWHILE = {
    "quiet": ("log", ""),
    "others": ("log", OOM),
    "fatal": ("log", f"[    9.000000] {BUG}\n"),
    "booted": ("boot", OTHER),
    "lost": ("log", "over"),  # as a ring buffer does: the mark is not there any more
    "forbidden": ("log", ""),
}
"""Host → what is added to its log (or is its boot, or its whole log) while the gate tests."""

VERDICTS = {
    "quiet": "pass",
    "others": "pass",
    "fatal": "fail",
    "booted": "inconclusive",
    "lost": "inconclusive",
    "forbidden": "inconclusive",
}
CRITERIA = {"G2.1": ("a.done", "{equals: true}"), "G2.70": ("log.new_fatal", "{equals: 0}")}
SHELL = """\
#!/bin/sh
case "$2" in
*boot_id*) {reads} ;;
esac
exec /bin/sh "$@"
"""
REFUSED = "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1"
SUITE = f"""
import os, pathlib, signal

@settles("G2.1")
def test_the_paths(bench: Bench) -> None:
    \"\"\"Let the kernels say something meanwhile; be killed where the file `kill` is.\"\"\"
    say(bench, "a.done", True)
    for host, (name, text) in {MEANWHILE!r}.items():
        file = pathlib.Path(host) / name
        if text == "over":
            file.write_text("[    9.500000] all that is left\\n")
        elif text not in file.read_text():
            file.write_text(text if name == "boot" else file.read_text() + text)
    if pathlib.Path("kill").exists():
        pathlib.Path("kill").unlink()
        bench.run.sync()
        os.kill(os.getpid(), signal.SIGKILL)

@settles("G2.70")
def test_zz_the_kernel_log(bench: Bench) -> None:
    \"\"\"Read it since the gate began.\"\"\"
    bench.survey_kernel_logs(phase="inspection")
"""


def compose(site: Site) -> None:
    """Make a site of hosts whose kernels say something while their gate tests."""
    entries = ""
    for host in MEANWHILE:
        folder = site.root / host
        folder.mkdir()
        reads = REFUSED if host == "forbidden" else f"exec cat {folder}/boot {folder}/log"
        (folder / "sh").write_text(SHELL.format(reads=reads))
        (folder / "sh").chmod(0o700)
        (folder / "boot").write_text(BOOT)
        (folder / "log").write_text(OLD)
        entries += (
            f"  {host}: {{roles: [serving], transport: local, tools: {{sh: {folder / 'sh'}}}}}\n"
        )
    (site.root / "inventory/local/this-machine.yaml").write_text(
        f"inventory: small\nhosts:\n{entries}"
    )
    site.gate("G2", CRITERIA, SUITE)
    site.plan("G2")


def told(site: Site) -> dict[str, Any]:
    """Return host → what the newest run says of its kernel log."""
    return {each["host"]: each for each in site.findings()["G2.70"]["hosts"]}


def verdicts(site: Site) -> dict[str, str]:
    return {host: each["verdict"] for host, each in told(site).items()}


def named(run: Path) -> dict[str, Any]:
    """Return host → the first fatal line that was measured since the mark."""
    taken = RunReader(run).measurements()
    return {m.host: m.value for m in taken if m.name == "log.first_new_fatal"}


def test_only_what_is_fatal_and_new_fails_and_silence_needs_the_mark(site: Site) -> None:
    compose(site)
    done = site.kvgate("run")
    assert verdicts(site) == VERDICTS, done.stderr
    assert named(site.newest()) == {
        "quiet": "none",
        "others": "none",
        "fatal": BUG,
        "booted": None,
        "lost": None,
        "forbidden": None,
    }
    said = {host: str(each) for host, each in told(site).items()}
    assert "booted again" in said["booted"]
    assert "lines were lost" in said["lost"]
    assert "not permitted" in said["forbidden"]
    marks = {each["host"]: each for each in site.events("kernel_mark")}
    assert marks.keys() == MEANWHILE.keys()
    assert marks["quiet"]["boot_id"] + "\n" == BOOT
    assert (marks["quiet"]["stamp"], marks["quiet"]["times"]) == ("2.000000", 1)


def test_a_run_that_was_killed_keeps_its_marks_and_replays(site: Site) -> None:
    """What was logged before the kill is in the window of the run that goes on."""
    compose(site)
    (site.root / "kill").touch()
    site.kvgate("run")
    done = site.kvgate("run", "--resume", site.newest().name)
    assert verdicts(site) == VERDICTS, done.stderr
    assert len(site.events("gate_begin")) == 2
    assert len(site.events("kernel_mark")) == len(MEANWHILE), "marked once"
    folder = "inventory/recorded/here"
    made = site.kvgate("record", site.newest().name, "--out", folder)
    assert made.returncode == 0, made.stderr
    replay = ("--inventory", f"{folder}/inventory.yaml", "--plan", f"{folder}/plan.yaml")
    again = site.kvgate("run", *replay)
    assert verdicts(site) == VERDICTS, again.stderr
