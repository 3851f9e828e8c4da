"""The path part of G2 as shipped, on two composed initiators: each planted fault is found alone.

The answers are those of a lab machine (tests/recorded) with what a fault changes in them; nothing
is broken while they are asked, so that a recording can tell it all.
"""

from __future__ import annotations

import datetime
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kvgate.engine import path_traffic
from kvgate.probes import (
    kernel_since,
    nvmeof,
    nvmeof_discovery,
    nvmeof_paths,
    pings,
    roce,
    roce_counters,
)
from kvgate.spec.fabric_load import PathsWorkload
from kvgate.spec.inventory import Host
from kvgate.transport.base import CommandResult
from kvgate.transport.recording import Answered, Recording, to_bytes
from kvgate.witness import Witness

if TYPE_CHECKING:
    from conftest import Site  # the small site of this folder

pytestmark = pytest.mark.whole

SHIPPED = Path(__file__).resolve().parents[2]
RECORDED = SHIPPED / "tests/recorded"
SYSFS = (RECORDED / "sysfs_nvme_subsystem/linux-6.12-lab-rdma.txt").read_bytes()
DISCOVERED = (RECORDED / "nvme_discover/2.13-lab.json").read_bytes()
NOW = datetime.datetime(2026, 11, 30, tzinfo=datetime.UTC)
BOOT = b"5a1c0de0-0001-4000-8000-000000000001\n"
LOAD = PathsWorkload.model_validate({"runtime": "1 s", "least": "64 KiB"})
JUDGED = {f"G2.{n}" for n in (*range(100, 123), 140, 141, 142, 143)}
DECLARED = {
    "nvmeof": [
        {
            "name": "array1",
            "nqn": "nqn.2026-11.lab:array1",
            "transport": "rdma",
            "serial": "LAB0000000000001",
            "namespaces": 1,
            "iopolicy": "round-robin",
            "keep_alive": "3 s",
            "ctrl_loss_tmo": "600 s",
            "reconnect_delay": "2 s",
            "fast_io_fail_tmo": "2 s",
            "queues": 1,
            "mtu": "4200 B",
            "discovery": [{"target": "10.77.1.1", "port": 4420}],
            "paths": [
                {"name": "a", "target": "10.77.1.1", "host": "10.77.1.2"},
                {"name": "b", "target": "10.77.2.1", "host": "10.77.2.2"},
            ],
        }
    ],
}
LOOKS = 4
"""How often sysfs is asked before reads begin: by three probes, and once more."""

Given = dict[tuple[str, ...], list[bytes]]


def link(number: int, other: int) -> dict[str, Any]:
    return {
        "name": "a",
        "nic": "dataA",
        "address": f"10.77.1.{number + 1}",
        "gid_index": 1,
        "to": f"n{other}",
        "to_nic": "dataA",
        "to_address": f"10.77.1.{other + 1}",
        "mtu": "4200 B",
    }


def host(number: int) -> dict[str, Any]:
    return {
        "roles": ["serving"],
        "transport": "recorded",
        "recording": f"n{number}.jsonl",
        "declared": {**DECLARED, "fabric": [link(number, 3 - number)]},
    }


def carried(told: bytes, a: int, b: int) -> bytes:
    """Return sysfs after so many sectors more were read by each path."""
    for name, more in ((b"nvme3c3n1", a), (b"nvme3c4n1", b)):
        pattern = re.compile(name + rb"/stat:( +\d+ +\d+ +)(\d+)")
        told = pattern.sub(
            lambda m, name=name, more=more: name + b"/stat:%s%d" % (m[1], int(m[2]) + more), told
        )
    return told


def ping(size: int, received: int = 3) -> bytes:
    return (
        f"PING x (x) {size}({size + 28}) bytes of data.\n\n"
        f"3 packets transmitted, {received} received, {99 - 33 * received}% packet loss, time 1ms\n"
    ).encode()


def gids(number: int) -> bytes:
    gid = f"0000:0000:0000:0000:0000:ffff:0a4d:010{number + 1}"
    rows = {"gids/1": gid, "gid_attrs/types/1": "RoCE v2", "gid_attrs/ndevs/1": "dataA"}
    return "".join(f"rxeA/ports/1/{key}:{value}\n" for key, value in rows.items()).encode()


def answers(number: int) -> Given:
    """Return what a healthy initiator answers, one time after another."""
    named = SYSFS.replace(b"-000000000002", b"-%012d" % number)
    sourced = named.replace(
        b"10.77.1.1,trsvcid=4420", b"10.77.1.1,trsvcid=4420,src_addr=10.77.1.2"
    ).replace(b"10.77.2.1,trsvcid=4420", b"10.77.2.1,trsvcid=4420,src_addr=10.77.2.2")
    me = Host.model_validate(host(number))
    record = me.declared.nvmeof[0]
    log = json.loads(DISCOVERED)
    log["records"].append(log["records"][-1] | {"traddr": "10.77.2.1"})
    counters = gids(number) + b"rxeA/ports/1/hw_counters/out_of_seq_request:7\n"
    far, near = f"10.77.1.{4 - number}", f"10.77.1.{number + 1}"
    given: Given = {
        nvmeof.SYSFS: [*[sourced] * LOOKS, carried(sourced, 4000, 4000)],
        nvmeof_paths.MULTIPATH: [b"nvme_core/parameters/multipath:Y\n"],
        nvmeof_discovery.argv(me, record.transport, record.discovery[0]): [
            json.dumps(log).encode()
        ],
        path_traffic.argv(_asked(me), ("nvme3n1",), LOAD): [b"{}"],
        roce.GIDS: [gids(number)],
        roce_counters.SYSFS: [counters],
        ("ethtool", "-S", "dataA"): [b"NIC statistics:\n     rx_discards_phy: 2\n"],
        roce_counters.UPTIME: [b"100.00 9.0\n" + BOOT, b"110.00 9.0\n" + BOOT],
        ("sh", "-c", kernel_since.SCRIPT): [BOOT + b"[    1.000000] Linux version 6.12\n"],
    }
    for path in record.paths:
        given[pings.argv(path.target, 4200, path.host)] = [ping(4172)]
        given[pings.argv(path.target, 1500, path.host)] = [ping(1472)]
    given[pings.argv(far, 4200, near)] = [ping(4172)]
    given[pings.argv(far, 1500, near)] = [ping(1472)]
    return given


def _asked(me: Host) -> Witness:
    nobody: Any = None
    return Witness(me, nobody, nobody)


def recording(name: str, given: Given) -> bytes:
    """Return a recording in which the last answer of each command is there many times."""
    told = [
        Answered(
            result=CommandResult(
                host=name, argv=argv, exit_status=0, stdout=out, stderr=b"", started_at=NOW,
                elapsed_s=0.01,
            )
        )
        for argv, outs in given.items()
        for out in outs + [outs[-1]] * 8
    ]  # fmt: skip
    return to_bytes(Recording(host=name, source="composed by a test", answers=tuple(told)))


Change = Callable[[Given], None]


def on_sysfs(change: Callable[[bytes], bytes]) -> Change:
    def planted(given: Given) -> None:
        given[nvmeof.SYSFS] = [change(each) for each in given[nvmeof.SYSFS]]

    return planted


def numa(given: Given) -> None:
    """Use one path while two exist."""
    told = given[nvmeof.SYSFS][0].replace(b"iopolicy:round-robin", b"iopolicy:numa")
    given[nvmeof.SYSFS] = [*[told] * LOOKS, carried(told, 8000, 0)]


def missing(told: bytes) -> bytes:
    return b"".join(line for line in told.splitlines(keepends=True) if b"nvme4" not in line)


def short_frames(given: Given) -> None:
    for argv in given:
        if "4172" in argv:
            given[argv] = [ping(4172, 0)]


def went_back(given: Given) -> None:
    told = given[roce_counters.SYSFS][0]
    given[roce_counters.SYSFS] = [
        told,
        told.replace(b"out_of_seq_request:7", b"out_of_seq_request:1"),
    ]


def renumbered(given: Given) -> None:
    """Let the controller come back under another number while its path is read."""
    told = given[nvmeof.SYSFS]
    given[nvmeof.SYSFS] = [*told[:-1], told[-1].replace(b"nvme4", b"nvme9")]


def elsewhere(told: bytes) -> bytes:
    return told.replace(b"traddr=10.77.2.1", b"traddr=10.77.3.1")


def cloned(told: bytes) -> bytes:
    return told.replace(b"-000000000002", b"-000000000001")


OF_PATH = {f"G2.{n}" for n in (101, *range(108, 114))}
PLANTED: dict[str, tuple[dict[str, list[Change]], dict[str, set[str]], dict[str, set[str]]]] = {
    "iopolicy numa, and a missing path": (
        {"n1": [numa], "n2": [on_sysfs(missing)]},
        {"n1": {"G2.104", "G2.120"}, "n2": {"G2.100", "G2.120"}},
        {"n2": OF_PATH},
    ),
    "short frames, and a cloned host": (
        {"n1": [short_frames], "n2": [on_sysfs(cloned)]},
        {
            "n1": {"G2.114", "G2.115", "G2.119", "G2.142"},
            "n2": {"G2.114", "G2.115", "G2.143"},
        },
        {},
    ),
    "a counter and a controller that changed, and a path elsewhere": (
        {"n1": [went_back, renumbered], "n2": [on_sysfs(elsewhere)]},
        {"n2": {"G2.100", "G2.102", "G2.120"}},
        {"n1": {"G2.120", "G2.122"}, "n2": OF_PATH},
    ),
}


def gate_of(site: Site) -> None:
    """Write the shipped path criteria, their suite, and a plan in the profile of an acceptance."""
    text = (SHIPPED / "gates/g2-paths.yaml").read_text("utf-8")
    told = yaml.safe_load(text) | {"entry": []}
    others = [each["id"] for each in told["criteria"] if each["id"] not in JUDGED]
    (site.root / "gates/g2.yaml").write_text(yaml.safe_dump(told, sort_keys=False), "utf-8")
    folder = site.root / "suites/g2"
    folder.mkdir()
    for name in ("test_nvmeof.py", "test_roce.py"):
        shutil.copy(SHIPPED / "suites/g2_paths" / name, folder / name)
    plan = {
        "plan": "composed",
        "title": "Paths of a composed site",
        "profile": "acceptance",
        "seed": 7,
        "gates": [{"gate": "G2", "suite": "suites/g2", "give_up_after": "100 s"}],
        "workloads": {"paths": {"runtime": "1 s", "least": "64 KiB"}},
        "scope_out": [{"criteria": others, "reason": "not composed"}],
    }
    (site.root / "gates/plans/rehearsal.yaml").write_text(yaml.safe_dump(plan), "utf-8")


@pytest.mark.parametrize("name", PLANTED)
def test_each_planted_fault_is_found_and_nothing_else(site: Site, name: str) -> None:
    changes, fails, undecided = PLANTED[name]
    gate_of(site)
    hosts = {"n1": host(1), "n2": host(2)}
    inventory = {"inventory": "composed", "composed": True, "hosts": hosts}
    home = site.root / "inventory/local"
    (home / "this-machine.yaml").write_text(yaml.safe_dump(inventory), "utf-8")
    for number, each in enumerate(hosts, start=1):
        given = answers(number)
        for change in changes.get(each, []):
            change(given)
        (home / f"{each}.jsonl").write_bytes(recording(each, given))
    done = site.kvgate("run", "--gate", "G2")
    found = site.findings()
    assert set(found) == JUDGED, done.stdout + done.stderr
    for verdict, planted in (("fail", fails), ("inconclusive", undecided)):
        told = {
            (place["host"], key)
            for key, finding in found.items()
            for place in finding["hosts"]
            if place["verdict"] == verdict
        }
        wanted = {(each, key) for each, keys in planted.items() for key in keys}
        assert told == wanted, [found[key]["because"] for _, key in sorted(told ^ wanted)]
    assert all(found[key]["hint"] for keys in fails.values() for key in keys)
