"""Fan-out: `true` and all facts on a fleet, beside what others take for `true`, in turns.

The hosts are one asyncssh server on this machine's cores. Ratios are of the medians of the turns,
and of their load: bars are told, and missed ones too, as this machine has other things to do.
Peers come with `pip install kvgate[bench]`; one that is not there is left out and said so.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kvgate.transport import sshd
from kvgate.transport.sshd import PrivateSshd

pytestmark = pytest.mark.timeout(3600)

HERE = Path(__file__).parent
HOSTS, SOME = 1000, 200
SSHDS, EACH = 4, 13
ROUNDS = int(os.environ.get("FANOUT_ROUNDS", "3"))
LIMIT_S = 600
KEX = "curve25519-sha256"
Turn = Callable[[], float]


class Fleet:
    """The hosts: their addresses, and where the key and known_hosts are."""

    def __init__(self, folder: Path, told: dict[str, Any]) -> None:
        self.folder = folder
        self.addresses: list[str] = told["addresses"]
        self.ports = {"near": told["port"], "far": told["far_port"]}
        self.known, self.key = folder / "known_hosts", folder / "client_key"

    def ours(self, count: int, what: str, *, way: str = "near") -> dict[str, float]:
        """Return what `fanout_ours.py` tells of a survey of the first `count` hosts."""
        entries = {
            f"node-{number}": {
                "roles": ["serving"],
                "address": address,
                "port": self.ports[way],
                "user": "root",
                "key": {"file": str(self.key)},
                "known_hosts": str(self.known),
                "connect_timeout": "60 s",
            }
            for number, address in enumerate(self.addresses[:count], start=1)
        }
        return survey(self.folder / f"{what}-{count}-{way}", entries, what)

    def peer(self, name: str, count: int, *, way: str = "near") -> float:
        """Return the seconds of a peer of `fanout_peers.py`."""
        spec = {
            "addresses": self.addresses[:count],
            "port": self.ports[way],
            "key": str(self.key),
            "known": str(self.known),
        }
        command = [sys.executable, str(HERE / "fanout_peers.py"), name, json.dumps(spec)]
        return float(output(command).splitlines()[-1])

    def xargs(self, count: int) -> float:
        """Return the seconds of `xargs -P 32 ssh`."""
        port = self.ports["near"]
        ways = [f"-p {port} root@{address}" for address in self.addresses[:count]]
        return by_xargs(ways, self.key, self.known)

    def ansible(self, count: int) -> float:
        """Return the seconds of `ansible -m raw`."""
        inventory = self.folder / "ansible.ini"
        inventory.write_text("".join(f"{each}\n" for each in self.addresses[:count]))
        common = (
            f"-F none -p {self.ports['near']} -o UserKnownHostsFile={self.known} "
            f"-o KexAlgorithms={KEX} -o IdentitiesOnly=yes -o IdentityAgent=none"
        )
        command = [
            str(Path(sys.executable).parent / "ansible"),
            *("all", "-i", str(inventory), "-m", "raw", "-a", "true", "-f", "64", "-u", "root"),
            *("--private-key", str(self.key), "--ssh-common-args", common),
        ]
        begun = time.perf_counter()
        told = output(command, ANSIBLE_NOCOLOR="1", ANSIBLE_HOME=str(self.folder / "ansible"))
        assert told.count("rc=0") == count, told[-2000:]
        return time.perf_counter() - begun


def output(command: list[str], **environment: str) -> str:
    """Return what a program prints; it has to end well."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, f"{command[:3]}: {done.stdout[-1000:]}{done.stderr[-3000:]}"
    return done.stdout


def survey(folder: Path, entries: dict[str, Any], what: str) -> dict[str, float]:
    """Return what `fanout_ours.py` tells of a survey of these hosts."""
    folder.mkdir(exist_ok=True)
    (folder / "site.json").write_text(json.dumps({"inventory": "fleet", "hosts": entries}))
    try:
        told = output([sys.executable, str(HERE / "fanout_ours.py"), str(folder), what])
    finally:
        shutil.rmtree(folder)
    found: dict[str, float] = json.loads(told.splitlines()[-1])
    return found


def by_xargs(ways: list[str], key: Path, known: Path) -> float:
    """Return the seconds that OpenSSH's own client takes, 32 of them at a time.

    Each of `ways` are the words that name a host: ``-p PORT USER@ADDRESS``.
    """
    options = {
        "UserKnownHostsFile": known,
        "GlobalKnownHostsFile": "/dev/null",
        "KexAlgorithms": KEX,
        "Ciphers": "aes128-gcm@openssh.com",
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "BatchMode": "yes",
        "UpdateHostKeys": "no",
    }
    given = [word for each in options.items() for word in ("-o", "{}={}".format(*each))]
    ssh = ["sh", "-c", 'ways=$1; shift; exec ssh -F none "$@" $ways true', "ssh"]
    begun = time.perf_counter()
    done = subprocess.run(
        ["xargs", "-P", "32", "-I", "{}", *ssh, "{}", "-i", str(key), *given],
        input="\n".join(ways).encode(),
        capture_output=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return time.perf_counter() - begun


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Start a server that is a thousand hosts, with answers to what the facts ask."""
    for needed in ("asyncssh", "uvloop"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed: pip install kvgate[bench]")
    folder = tmp_path_factory.mktemp("fleet")
    answers = folder / "answers.json"
    answers.write_text(json.dumps(plain_machine()))
    program = [sys.executable, str(HERE / "fleet_server.py"), str(folder), str(HOSTS)]
    with subprocess.Popen(
        [*program, str(answers)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdin
        assert server.stdout
        yield Fleet(folder, json.loads(server.stdout.readline()))
        server.stdin.close()
        server.wait(30)


def plain_machine() -> list[tuple[list[str], int, str]]:
    """Return what this machine answers to all that facts ask: 20 KB, as each host will."""
    from kvgate.probes import ALL, gather
    from kvgate.spec.inventory import Host
    from kvgate.transport.local import LocalTransport

    host = Host.model_validate({"roles": ["serving"], "transport": "local"})
    commands = gather.commands_of(ALL, host.model_copy(update={"name": "this"}))
    found = gather.gather(LocalTransport("this"), commands)
    told = []
    for argv, result in found.answers.items():
        text = result.stdout.decode("utf-8", "replace")
        if argv == ("cat", "/etc/machine-id"):
            text = "0123456789abcdef0123456789abcdef\n"
        lines = text[:6000].rpartition("\n")
        told.append((list(argv), result.exit_status or 0, lines[0] + lines[1]))
    return told


def in_turns(**turns: Turn) -> dict[str, float]:
    """Return each one's median seconds, taken in turns."""
    took: dict[str, list[float]] = {name: [] for name in turns}
    for _ in range(ROUNDS):
        for name, turn in turns.items():
            took[name].append(turn())
    return {name: statistics.median(seconds) for name, seconds in took.items()}


def line(what: str, ours_s: float, other_s: float, bar: float, *, faster: bool) -> str:
    """Return one line: the ratio, the bar and whether it is met, and the machine's load."""
    ratio = other_s / ours_s if faster else ours_s / other_s
    met = ratio >= bar if faster else ratio <= bar
    kind = "times faster, bar: at least" if faster else "times as long, bar: at most"
    return (
        f"fan-out: {what}: ours {ours_s:.2f} s, theirs {other_s:.2f} s: {ratio:.2f} {kind} {bar:g}"
        f" ({'met' if met else 'MISSED'}; load {os.getloadavg()[0]:.1f})"
    )


def absent(*modules: str) -> list[str]:
    """Return the peers that are not installed."""
    return [name for name in modules if importlib.util.find_spec(name) is None]


def test_true_on_a_thousand_hosts(fleet: Fleet, told: list[str]) -> None:
    found = in_turns(
        ours=lambda: fleet.ours(HOSTS, "true")["seconds"],
        asyncssh=lambda: fleet.peer("asyncssh", HOSTS),
        xargs=lambda: fleet.xargs(HOSTS),
    )
    for name, bar in (("asyncssh", 1.5), ("xargs", 0.5)):
        told.append(
            line(f"true, 1,000 hosts, {name}", found["ours"], found[name], bar, faster=False)
        )


def test_all_facts_of_a_thousand_hosts(fleet: Fleet, told: list[str]) -> None:
    memory: list[float] = []
    evidence: list[float] = []

    def facts() -> float:
        one = fleet.ours(HOSTS, "facts")
        memory.append(one["mib"])
        evidence.append(one["evidence_bytes"])
        return one["seconds"]

    found = in_turns(
        facts=facts,
        true=lambda: fleet.ours(HOSTS, "true")["seconds"],
        read=lambda: fleet.ours(HOSTS, "read")["seconds"],
    )
    told.append(
        line("all facts, 1,000 hosts, our true", found["facts"], found["true"], 3, faster=False)
    )
    told.append(
        line(
            "all facts, read by all probes and measured (some 110,000 values), our true",
            found["read"],
            found["true"],
            3,
            faster=False,
        )
    )
    mb = max(memory) * 2**20 / 1e6
    told.append(
        f"fan-out: all facts, 1,000 hosts: {mb:.0f} MB in all processes, bar: at most 400 MB "
        f"({'met' if mb <= 400 else 'MISSED'}); {max(evidence) / 1e6:.0f} MB of evidence"
    )
    assert max(evidence) > HOSTS * 15_000


def test_two_hundred_hosts_beside_ansible(fleet: Fleet, told: list[str]) -> None:
    if absent("ansible"):
        pytest.skip("ansible-core is not installed: pip install kvgate[bench]")
    found = in_turns(
        ours=lambda: fleet.ours(SOME, "true")["seconds"], ansible=lambda: fleet.ansible(SOME)
    )
    told.append(line("true, 200 hosts, ansible", found["ours"], found["ansible"], 8, faster=True))


def test_two_hundred_hosts_far_away(fleet: Fleet, told: list[str]) -> None:
    if absent("pssh"):
        pytest.skip("parallel-ssh is not installed: pip install kvgate[bench]")
    found = in_turns(
        ours=lambda: fleet.ours(SOME, "true", way="far")["seconds"],
        pssh=lambda: fleet.peer("parallel-ssh", SOME, way="far"),
    )
    told.append(
        line(
            "true, 200 hosts 40 ms away, parallel-ssh",
            found["ours"],
            found["pssh"],
            20,
            faster=True,
        )
    )


def test_real_sshds(tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    # An sshd listens on 16 addresses at most, and a host has an address and port of its own.
    listening = "".join(f"ListenAddress 127.0.0.{n}:{{port}}\n" for n in range(2, EACH + 1))
    monkeypatch.setattr(sshd, "_CONFIG", listening + sshd._CONFIG)
    entries: dict[str, Any] = {}
    known = tmp_path / "known_hosts"
    with contextlib.ExitStack() as stack, known.open("w") as file:
        for number in range(SSHDS):
            running = stack.enter_context(PrivateSshd(tmp_path / "sshd"))
            entry = running.host_entry()
            line_of = Path(str(entry["known_hosts"])).read_text()
            for last in range(1, EACH + 1):
                address = f"127.0.0.{last}"
                file.write(line_of.replace("127.0.0.1", address))
                entries[f"node-{number}-{last}"] = {
                    "roles": ["serving"],
                    **entry,
                    "address": address,
                    "known_hosts": str(known),
                }
        file.flush()
        some = next(iter(entries.values()))
        key = Path(some["key"]["file"])
        ways = [f"-p {each['port']} {each['user']}@{each['address']}" for each in entries.values()]
        found = in_turns(
            ours=lambda: survey(tmp_path / "site", entries, "true")["seconds"],
            openssh=lambda: by_xargs(ways, key, known),
        )
    told.append(
        line(
            f"true, {len(entries)} hosts of real sshds, OpenSSH's own client",
            found["ours"],
            found["openssh"],
            1,
            faster=False,
        )
    )
