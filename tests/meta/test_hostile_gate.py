"""Whole gates over one healthy host and many hostile ones; and no secret in anything of a run."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kvgate.model.record import Evidence
from kvgate.store import pack
from kvgate.store.reader import RunReader
from kvgate.transport.sshd import PrivateSshd

if TYPE_CHECKING:
    from conftest import Hostile, Site

pytestmark = pytest.mark.sshd

# Short deadlines, so that the slowest host is not slow: what is tested is what they bound.
SURVEYS = '''
from kvgate.probes import clock, identity
from kvgate.probes.base import Probe, answer, reading
from kvgate.suite import reach
from kvgate.transport import pump

pump.GIVE_UP_S = pump.STATUS_S = 0.5
identity.SHORT_S = reach.SIGN_OF_LIFE_S = 1.5

def kernel(witness):
    asked = witness.ask(["uname", "-r"], timeout_s=1.5)
    return answer([reading("a.kernel", asked.stdout.strip() != b"")], asked)

def offset(witness):
    asked = witness.ask(["date", "-u", "+%s.%N"], timeout_s=1.5)
    return answer([reading("a.offset", Quantity(clock.compare(asked).offset_s, "s"))], asked)

@settles("G1.1", "G1.2")
def test_kernel_and_clock(bench: Bench) -> None:
    """Ask every host, all at once, twice over."""
    for name, ask in (("a.kernel", kernel), ("a.offset", offset)):
        probe = Probe(name=name, measures=(name,), ask=ask)
        bench.survey([probe], bench.hosts(), phase="inspection")
'''
HOSTILE = {
    "silent": "no SSH handshake within 1 s",
    "slow_banner": "no SSH handshake within 1 s",
    "no_ssh": "no SSH handshake: ",
    "endless_banner": "no SSH in them",
    "huge_packet": "which none has",
    "changed_key": "the host key has changed",
    "auth_hangs": "no answer to the login within 1 s",
    "no_session": "the host opens no session",
    "open_hangs": "opened no session within",
    "exec_hangs": "took no command within",
    "exec_refused": "the host takes no command",
    "hung": "by its deadline",
    "half_closed": "without an exit status",
    "no_status": "without an exit status",
    "disconnects": "the link was lost",
    "garbage": "exited 1",
    "escapes": "exited 1",
    "endless": "by its deadline",
}
FINE = ("here", "behaves", "noisy")
LIMITS = {"G1.1": ("a.kernel", "{equals: true}"), "G1.2": ("a.offset", "{within: [-5 s, 5 s]}")}


@pytest.fixture
def inventory(site: Site, sshd: PrivateSshd, hostile: Hostile) -> dict[str, Any]:
    """Return entries of hosts that behave well and of those that don't; `use` writes them."""
    names = (*HOSTILE, *FINE[1:], "day_off")
    entries = {name.replace("_", "-"): hostile.entry(name, connect_timeout="1 s") for name in names}
    entries["here"] = {"roles": ["serving"], **sshd.host_entry()}
    return entries


def use(site: Site, entries: dict[str, Any]) -> None:
    path = site.root / "inventory/local/this-machine.yaml"
    path.write_text(json.dumps({"inventory": "small", "hosts": entries}))  # JSON is YAML


def parts(finding: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {
        part["host"].replace("-", "_"): (part["verdict"], part["because"])
        for part in finding["hosts"]
    }


def test_hostile_hosts_are_inconclusive_and_the_others_are_judged(
    site: Site, inventory: dict[str, Any]
) -> None:
    site.gate("G1", LIMITS, SURVEYS)
    use(site, inventory)
    done = site.kvgate("run")
    assert done.returncode == 1, done.stderr  # the clock of one is wrong, and that is a failure
    found = site.findings()
    kernels, offsets = parts(found["G1.1"]), parts(found["G1.2"])
    for name in FINE:
        assert (kernels[name][0], offsets[name][0]) == ("pass", "pass")
    assert kernels["day_off"][0] == "pass"
    assert offsets["day_off"][0] == "fail"
    for name, cause in HOSTILE.items():
        for verdict, because in (kernels[name], offsets[name]):
            assert verdict == "inconclusive"
            assert cause in because
            assert because.startswith(name.replace("_", "-")) or name.replace("_", "-") in because
    assert all(c.isprintable() or c in "\n" for c in done.stdout + done.stderr)
    assert gate_seconds(site.newest()) < 30  # one after the other they take over 70 s by themselves


def gate_seconds(run: Path) -> float:
    """Return how long the gate was open, by the run's own monotonic clock."""
    events = list(RunReader(run).events("gate_begin", "gate_end"))
    return events[-1].mono - events[0].mono


LOOSE = '''
from kvgate.probes.base import Probe, answer, reading

def said(witness):
    asked = witness.ask(["cat", "kvgate-ok"], timeout_s=10)
    return answer([reading("a.said", asked.stdout.decode())], asked)

@settles("G1.1")
def test_what_is_said_is_measured(bench: Bench) -> None:
    """Take all that the host says as a value."""
    probe = Probe(name="said", measures=("a.said",), ask=said)
    bench.survey([probe], bench.hosts(), phase="inspection")

@settles("G1.2")
def test_a_complaint_is_a_problem(bench: Bench) -> None:
    """Ask what the host refuses."""
    def ask(witness):
        return answer([reading("a.fails", witness.ask(["id"], timeout_s=10).stdout)])

    fails = Probe(name="fails", measures=("a.fails",), ask=ask)
    bench.survey([fails], bench.hosts(), phase="inspection")

@settles("G1.3")
def test_that_breaks_over_raw_output(bench: Bench) -> None:
    """Break with the raw bytes in the exception, on the host that is hostile."""
    raw = []
    for host in bench.hosts():
        process = bench.witness(host).transport.start(
            ["cat", "kvgate-ok"], deadline_s=10, on_stdout=raw.append)
        process.wait(10)
    with bench.step("breaks"):
        raise ValueError(b"".join(raw).decode() + "\\x1b[31mred")

@settles("G1.4")
def test_of_evidence_made_elsewhere(bench: Bench) -> None:
    """Keep a piece that no command gave, as a client of HTTP does."""
    import datetime
    from kvgate.model.record import Evidence
    now = datetime.datetime.now(datetime.UTC)
    for host in bench.hosts():
        for block in bench.blocks("made", host=[host.name]):
            with block:
                ref = bench.witness(host).keep(Evidence(
                    host=host.name, command=("GET", "http://u:hunter" + "22@x/"), exit_status=None,
                    stdout=b"Authorization: Bearer abcdef012345" + b"6789.token", stderr=b"",
                    started_at=now, ended_at=now))
                because = "password=correct-" + "horse-battery"
                made = Reading(name="a.made", value=None, problem=because)
                bench.record(Answer((made,), (ref,)), host=host, phase="inspection")
'''
SAID = {f"G1.{n}": (f"a.{name}", "{equals: nothing}") for n, name in enumerate(
    ("said", "fails", "broken", "made"), 1)}  # fmt: skip


def pieces(run: Path) -> list[Evidence]:
    """Return every piece of evidence of a run."""
    reader, found = RunReader(run), []
    for number in pack.packs(run / "evidence"):
        for piece in pack.Scan(run / "evidence" / pack.pack_name(number), 0):
            found.append(reader.evidence(piece.ref))
    return found


def test_no_secret_is_in_anything_of_a_run(
    site: Site, hostile: Hostile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    locked = tmp_path / "locked"
    shutil.copy(hostile.folder / "client_key", locked)
    locked.chmod(0o600)
    subprocess.run(
        ["ssh-keygen", "-q", "-p", "-P", "", "-N", hostile.secret, "-f", str(locked)],
        check=True,
        timeout=60,
        stdout=subprocess.DEVNULL,
    )
    monkeypatch.setenv("KVGATE_TEST_PASSPHRASE", hostile.secret)
    entry = hostile.entry("secrets", key={"file": str(locked)}, connect_timeout="10 s")
    use(site, {"leaky": entry | {"key_passphrase": {"env": "KVGATE_TEST_PASSPHRASE"}}})
    site.gate("G1", SAID, LOOSE)
    done = site.kvgate("run")
    run = site.newest()
    body = locked.read_text().splitlines()[1:-1]
    secrets = [hostile.secret, "correct-horse", "abcdef0123456789", "hunter22"]
    secrets += ["b3BlbnNzaC1rZXktdjEAAAAA", "c2VjcmV0LWJvZHk", *body]
    files = [path for path in run.rglob("*") if path.is_file()]
    assert {"findings.json", "report.html", "G1.log"} <= {path.name for path in files}
    told = {str(path): path.read_bytes() for path in files}
    told |= {"stdout": done.stdout.encode(), "stderr": done.stderr.encode()}
    assert [(name, s) for name, data in told.items() for s in secrets if s.encode() in data] == []
    assert b"\x1b" not in told[str(run / "logs/G1.log")]
    assert b"[masked]" in told[str(run / "logs/G1.log")]
    marked = [piece for piece in pieces(run) if b"[masked]" in piece.stdout + piece.stderr]
    assert marked
    for piece in marked:
        assert any(note.startswith("masked: ") for note in piece.notes)
    said = next(piece for piece in marked if piece.command == ("cat", "kvgate-ok"))
    assert "masked: 8 places" in said.notes  # four forms, in stdout and in stderr
    assert "[masked]" in site.findings()["G1.2"]["hosts"][0]["because"]
