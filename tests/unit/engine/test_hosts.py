"""The survey of hosts: what is read from an answer, and that a dead host harms no other."""

from __future__ import annotations

import datetime
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import pytest

from kvgate.engine import hosts
from kvgate.errors import ParseError
from kvgate.spec.inventory import Host, Inventory
from kvgate.transport.base import CommandResult
from kvgate.transport.connect import Connections
from kvgate.transport.local import LocalTransport
from kvgate.transport.sshd import PrivateSshd

LOCAL = Host.model_validate({"roles": ["serving"], "transport": "local", "name": "n1"})
NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


def answer(stdout: bytes, *, elapsed_s: float = 1.0) -> CommandResult:
    return CommandResult(
        host="n1",
        argv=("sh",),
        exit_status=0,
        stdout=stdout,
        stderr=b"",
        started_at=NOON,
        elapsed_s=elapsed_s,
    )


def said(host: Host = LOCAL, **changed: str) -> bytes:
    """Return what a host answers whose clock is 250 ms ahead, with some lines `changed`."""
    at = NOON.timestamp()
    words = {
        "begun": f"{at + 0.4 + 0.25:.6f}",
        "kernel": "6.1.0",
        "os": "Debian GNU/Linux 12",
        "like": "debian ",
        "sudo": "unused",
    } | changed
    rows = [f"{kind}\t{word}\t" for kind, word in words.items() if kind != "ended"]
    names = [*hosts.PACKAGES, *(name for name in host.tools if name not in hosts.PACKAGES)]
    for name in names:
        there = name not in ("nvme", "ip")
        rest = f"path\t/usr/bin/{name}\t{name} 1.2" if there else "none\t\t"
        rows.append(f"tool\t{name}\t{rest}\t")
    rows.append("ended\t" + changed.get("ended", f"{at + 0.6 + 0.25:.6f}") + "\t")
    return "".join(row + "\n" for row in rows).encode()


def test_an_answer_becomes_facts() -> None:
    facts = hosts.read_answer(LOCAL, answer(said()))
    assert (facts.os, facts.kernel, facts.sudo) == ("Debian GNU/Linux 12", "6.1.0", "never")
    assert facts.tool("fio") == hosts.Tool("fio", "path", "/usr/bin/fio", "fio 1.2")
    assert facts.clock_offset_ms == pytest.approx(250, abs=0.01)
    assert facts.clock_uncertainty_ms == pytest.approx(400, abs=0.01)


@pytest.mark.parametrize(
    ("like", "packages"),
    [
        ("debian ", (("nvme", "nvme-cli"), ("ip", "iproute2"))),
        ("ubuntu debian", (("nvme", "nvme-cli"), ("ip", "iproute2"))),
        ("rocky rhel centos fedora", (("nvme", "nvme-cli"), ("ip", "iproute"))),
    ],
)
def test_a_missing_tool_names_the_package_of_that_system(
    like: str, packages: tuple[tuple[str, str], ...]
) -> None:
    facts = hosts.read_answer(LOCAL, answer(said(like=like)))
    report = hosts.HostReport("n1", ("serving",), 0.01, facts)
    assert report.missing == packages
    assert report.ok
    assert len(report.row()) == 7
    assert "nvme (package nvme-cli)" in report.row()[-1]


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"garbage\n",
        said() + b"more\t\n",
        said().replace(b"tool\tfio", b"tool\tfoi"),
        said().replace(b"unused", b"perhaps"),
        said().replace(b"6.1.0", b""),
        said().replace(b"kernel\t", b"core\t"),
        said()[:-10],
        said(begun="yesterday"),
        said(begun="1e9"),
        b"Welcome!\n" + said(),
    ],
)
def test_an_answer_that_is_another_is_refused(wrong: bytes) -> None:
    with pytest.raises(ParseError, match="n1: the answer to the survey"):
        hosts.read_answer(LOCAL, answer(wrong))


@hypothesis.given(st.binary(max_size=400))
def test_no_answer_does_more_than_be_refused(data: bytes) -> None:
    with pytest.raises(ParseError):
        hosts.read_answer(LOCAL, answer(data))


def test_a_date_without_fractions_gives_no_offset() -> None:
    for date in ("1767268800", "1767268800.N", "1767268800.%N"):
        facts = hosts.read_answer(LOCAL, answer(said(begun=date, ended=date)))
        assert facts.clock_offset_ms is None
        assert hosts.HostReport("n1", (), 0, facts).row()[4] == "unknown"


def test_what_a_host_says_cannot_act_on_a_terminal() -> None:
    facts = hosts.read_answer(LOCAL, answer(said(os="\x1b[2J\x07evil")))
    assert facts.os == "?[2J?evil"


def test_this_machine_tells_its_facts_and_what_it_lacks(tmp_path: Path) -> None:
    tool = tmp_path / "odd tool"
    tool.write_text("#!/bin/sh\nprintf 'odd\\t1.0\\nsecond line\\n'\n")
    tool.chmod(0o755)
    host = Host.model_validate(
        {
            "roles": ["serving"],
            "transport": "local",
            "tools": {"odd": str(tool), "fio": str(tmp_path / "no fio")},
        }
    )
    inventory = Inventory.model_validate({"inventory": "x", "hosts": {"n1": host}})
    (report,) = hosts.survey_hosts(inventory, Connections(inventory))
    assert report.facts is not None, report.problem()
    assert report.facts.tool("odd") == hosts.Tool("odd", "path", str(tool), "odd 1.0")
    assert ("fio", "fio") in report.missing
    assert report.facts.clock_offset_ms is not None
    assert report.facts.clock_uncertainty_ms is not None
    assert abs(report.facts.clock_offset_ms) <= report.facts.clock_uncertainty_ms + 1


def test_a_tool_that_only_sbin_has_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    host = LOCAL.model_copy(update={"tools": {"chroot": "chroot"}})
    result = LocalTransport("n1").run(hosts.question(LOCAL), timeout_s=30).expect_ok()
    for tool in hosts.read_answer(LOCAL, result).tools:
        assert (tool.found == "sbin") == ("/sbin/" in tool.path)
    result = LocalTransport("n1").run(hosts.question(host), timeout_s=30).expect_ok()
    assert hosts.read_answer(host, result).tool("chroot").found == "none"


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Return a port that accepts connections and never says anything."""
    with socket.create_server(("127.0.0.1", 0), backlog=8) as listening:
        yield listening.getsockname()[1]


@pytest.mark.sshd
def test_a_dead_host_delays_only_itself(sshd: PrivateSshd, silent_port: int) -> None:
    entry = {"roles": ["client"], **sshd.host_entry()}
    inventory = Inventory.model_validate(
        {
            "inventory": "x",
            "hosts": {
                "dead": {**entry, "port": silent_port, "connect_timeout": "2 s"},
                "well": entry,
                "keyless": {**entry, "known_hosts": "/nonexistent"},
            },
        }
    )
    begun = time.monotonic()
    with Connections(inventory) as connections:
        dead, well, keyless = hosts.survey_hosts(inventory, connections)
    assert (dead.name, dead.ok) == ("dead", False)
    assert "no SSH handshake" in dead.problem()
    assert (keyless.ok, "not known" in keyless.problem()) == (False, True)
    assert well.ok, well.problem()
    assert well.facts is not None
    assert well.connect_s < 2
    assert dead.connect_s >= 1.9
    assert time.monotonic() - begun < 10
