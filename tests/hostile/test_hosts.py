"""Every way in which a host can be hostile, asked at once: each is named, and harms only itself."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from kvgate.cli import main, show
from kvgate.engine import hosts
from kvgate.engine.hosts import HostReport
from kvgate.transport import pump, ssh
from kvgate.transport.sshd import PrivateSshd

if TYPE_CHECKING:
    from conftest import Hostile

pytestmark = pytest.mark.sshd

CONNECT_S = 2.0
ASK_S = 4.0
GIVE_UP_S = 1.0
STATUS_S = 1.0

HOSTILE = {
    "silent": "no SSH handshake within 2 s",
    "slow_banner": "no SSH handshake within 2 s",
    "no_ssh": "no SSH handshake: ",
    "endless_banner": "no SSH handshake: .*more than 65536 bytes and no SSH in them",
    "huge_packet": "no SSH handshake: it sends a packet of 42949672[0-9]+ bytes",
    "changed_key": "the host key has changed: .* SHA256:.*; the host shows .*SHA256:",
    "auth_hangs": "no answer to the login within 2 s",
    "no_session": "the host opens no session: ",
    "open_hangs": "the host is connected and opened no session within 4 s",
    "exec_hangs": "the host is connected and took no command within 4 s",
    "exec_refused": "the host takes no command: ",
    "hung": "was ended after .* by its deadline",
    "no_window": "was ended after .* by its deadline",
    "half_closed": "ended after .* without an exit status",
    "no_status": "ended after .* without an exit status",
    "disconnects": "the link was lost while a command ran",
    "garbage": "exited 1 after ",
    "escapes": "exited 1 after .*owned",
    "endless": "was ended after .* by its deadline",
    "secrets": r"exited 1 after .*: db: password=\[masked\]",
}
FINE = ("here", "behaves", "noisy", "day_off")


class Asked(NamedTuple):
    reports: dict[str, HostReport]
    seconds: float
    code: int
    told: str


@pytest.fixture(scope="module")
def asked(hostile: Hostile, sshd: PrivateSshd, tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """Run `kvgate hosts` on an inventory of a healthy host and all the others."""
    workspace = tmp_path_factory.mktemp("site")
    for folder in ("gates", "suites", "inventory"):
        (workspace / folder).mkdir()
    entries: dict[str, Any] = {
        name.replace("_", "-"): hostile.entry(name) for name in (*HOSTILE, *FINE[1:])
    }
    entries["here"] = {"roles": ["serving"], **sshd.host_entry()}
    path = workspace / "inventory/site.yaml"
    path.write_text(json.dumps({"inventory": "site", "hosts": entries}))  # JSON is YAML
    seen: list[HostReport] = []
    shown = show.show_hosts

    def look(console: Any, reports: Any) -> None:
        seen.extend(reports)
        shown(console, reports)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(show, "show_hosts", look)
        patch.setattr(hosts, "ASK_S", ASK_S)
        patch.setattr(pump, "GIVE_UP_S", GIVE_UP_S)
        patch.setattr(pump, "STATUS_S", STATUS_S)
        out = workspace / "out"
        with out.open("w") as stream:
            patch.setattr("sys.stdout", stream)
            begun = time.monotonic()
            code = main(["--workspace", str(workspace), "hosts", "--inventory", str(path)])
            seconds = time.monotonic() - begun
    reports = {report.name.replace("-", "_"): report for report in seen}
    return Asked(reports, seconds, code, out.read_text())


@pytest.mark.parametrize(("behaviour", "cause"), HOSTILE.items())
def test_a_hostile_host_is_named_with_the_cause(asked: Asked, behaviour: str, cause: str) -> None:
    report = asked.reports[behaviour]
    assert not report.ok
    assert report.error.startswith(f"{report.name}: ")
    assert re.search(cause, report.error), report.error


@pytest.mark.parametrize("name", FINE)
def test_the_other_hosts_are_unharmed(asked: Asked, name: str) -> None:
    report = asked.reports[name]
    assert report.ok, report.error
    assert report.facts is not None
    day = 86_400_000
    offset = report.facts.clock_offset_ms
    assert offset == pytest.approx(day if name == "day_off" else 0, abs=5000)


def test_all_of_it_takes_as_long_as_the_slowest_host_alone(asked: Asked) -> None:
    assert asked.code == 2
    slowest = CONNECT_S + ASK_S + GIVE_UP_S + STATUS_S
    assert asked.seconds < slowest + 6  # a machine that is busy with other things


def test_nothing_reaches_the_terminal_but_text(asked: Asked) -> None:
    assert all(c.isprintable() or c == "\n" for c in asked.told)
    assert "owned" in asked.told


def test_no_secret_is_shown(asked: Asked, hostile: Hostile) -> None:
    for secret in ("correct-horse", "abcdef0123456789", "b3BlbnNzaC1rZXktdjEAAAAA"):
        assert secret not in asked.told


@pytest.mark.parametrize("behaviour", ["hung", "behaves"])
def test_a_request_time_is_no_longer_than_the_commands(hostile: Hostile, behaviour: str) -> None:
    transport = ssh.SshTransport(hostile.host(behaviour))
    begun = time.monotonic()
    result = transport.run(["sleep", "20"], timeout_s=0.5)
    assert result.timed_out
    assert time.monotonic() - begun < 0.5 + pump.GIVE_UP_S + 4
    transport.close()


def test_a_file_for_a_host_whose_window_never_opens(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pump, "GIVE_UP_S", 0.3)
    transport = ssh.SshTransport(hostile.host("no_window"))
    result = transport.run(["cat"], timeout_s=1.0, stdin=b"x" * 100_000)
    assert (result.timed_out, result.exit_status) == (True, None)
    transport.close()
