"""Five hosts of twenty are dead, hung, lying, another or full: fifteen are judged as ever."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Hostile, Site

pytestmark = pytest.mark.whole

SURVEY = '''
from kvgate.probes import clock, identity
from kvgate.probes.base import Probe, answer, reading
from kvgate.suite import reach
from kvgate.transport import pump

# Short, so that the hung host is not slow: what is tested is that they bound it.
pump.GIVE_UP_S = pump.STATUS_S = 0.5
identity.SHORT_S = reach.SIGN_OF_LIFE_S = 3.0
reach._UNENDED = 1

def kernel(witness):
    asked = witness.ask(["uname", "-r"], timeout_s=8)
    return answer([reading("a.kernel", asked.stdout.strip() != b"")], asked)

def offset(witness):
    asked = witness.ask(["date", "-u", "+%s.%N"], timeout_s=8)
    return answer([reading("a.offset", Quantity(clock.compare(asked).offset_s, "s"))], asked)

def writes(witness):
    name = f"/tmp/kvgate-twenty-{witness.host.name}"
    witness.transport.write_file(name, b"some data")
    asked = witness.ask(["rm", "-f", name], timeout_s=8)
    return answer([reading("a.writes", asked.result.ok)], asked)

@settles("G1.1", "G1.2", "G1.3")
def test_kernel_clock_and_disk(bench: Bench) -> None:
    """Ask every host, all at once."""
    probes = [
        Probe(name=name, measures=(f"a.{name}",), ask=ask)
        for name, ask in (("kernel", kernel), ("offset", offset), ("writes", writes))
    ]
    bench.survey(probes, bench.hosts(), phase="inspection")
'''
LIMITS = {
    "G1.1": ("a.kernel", "{equals: true}"),
    "G1.2": ("a.offset", "{within: [-600 s, 600 s]}"),
    "G1.3": ("a.writes", "{equals: true}"),
}
# The host → the criterion that tells of it, the verdict, and the cause that it has to name.
BAD = {
    "dead": ("G1.1", "inconclusive", "Connection refused"),
    "hung": ("G1.1", "inconclusive", "by its deadline"),
    "changed-key": ("G1.1", "inconclusive", "the host key has changed"),
    "day-off": ("G1.2", "fail", "% over 600 s"),
    "full-disk": ("G1.3", "inconclusive", "No space left on device"),
}
HEALTHY = [f"node-{number}" for number in range(1, 16)]


@pytest.fixture
def nobody() -> Iterator[int]:
    """Return a port that refuses: held, but not listened on."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])


@pytest.fixture
def entries(hostile: Hostile, nobody: int) -> dict[str, Any]:
    """Return the twenty hosts, the bad ones among the others."""
    quick = {"connect_timeout": "20 s"}
    bad = {
        name: hostile.entry(name.replace("-", "_"), **quick) for name in BAD if name != "dead"
    } | {"dead": hostile.entry("behaves", port=nobody, **quick)}
    good = {
        name: hostile.entry("behaves", address=f"127.0.1.{number}", **quick)
        for number, name in enumerate(HEALTHY, start=1)
    }
    mixed: dict[str, Any] = {}
    for number, (name, entry) in enumerate(good.items()):
        mixed[name] = entry
        if number % 3 == 0:
            last = sorted(bad)[number // 3]
            mixed[last] = bad[last]
    return mixed


def test_fifteen_are_judged_unharmed_and_five_are_named_with_their_cause(
    site: Site, entries: dict[str, Any]
) -> None:
    assert len(entries) == 20
    path = site.root / "inventory/local/this-machine.yaml"
    path.write_text(json.dumps({"inventory": "small", "hosts": entries}))  # JSON is YAML
    site.gate("G1", LIMITS, SURVEY)
    done = site.kvgate("run")
    assert done.returncode == 1, done.stderr  # the clock of one is wrong, and that is a failure
    found = site.findings()
    told = {
        (criterion, part["host"]): (part["verdict"], part["because"])
        for criterion, finding in found.items()
        for part in finding["hosts"]
    }
    for name in HEALTHY:
        assert {told[criterion, name][0] for criterion in LIMITS} == {"pass"}
    for name, (criterion, verdict, cause) in BAD.items():
        assert told[criterion, name][0] == verdict
        assert re.search(cause, told[criterion, name][1]), told[criterion, name][1]
        assert name in told[criterion, name][1] or name in found[criterion]["because"]
    not_passed = {host for (_, host), (verdict, _) in told.items() if verdict != "pass"}
    assert not_passed == set(BAD)
    lies_only = {told[criterion, "day-off"][0] for criterion in ("G1.1", "G1.3")}
    assert lies_only == {"pass"}  # what it does not lie about counts
    report = (site.newest() / "report/report.md").read_text()
    assert all(name in report for name in BAD)
