"""Whole gates on simulated devices: healthy ones pass, each fault and lie is a finding."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kvgate.simulate import array, redfish, state
from kvgate.simulate.devices import ARRAY, BMC, SWITCH, simulated
from kvgate.simulate.web import WebDevice

if TYPE_CHECKING:
    from conftest import Site  # the small site of this folder

pytestmark = pytest.mark.whole

ROOT = Path(__file__).resolve().parents[2]
DEVICES = ("array", "switch", "bmc")

PLAN = """\
plan: devices
title: Only devices
profile: acceptance
seed: 7
gates: [{gate: G1, suite: suites/g1, give_up_after: 120 s}]
workloads: {}
"""


class DeviceSite:
    """A small site with the shipped criteria, suite and adapters of devices."""

    def __init__(self, site: Site, folder: Path, entries: dict[str, Any]) -> None:
        self.site = site
        self.folder = folder
        self.entries = entries
        gate = yaml.safe_load((ROOT / "gates" / "g1-arrival.yaml").read_text("utf-8"))
        gate["criteria"] = [each for each in gate["criteria"] if each["hosts"] in DEVICES]
        self.criteria = {each["id"]: each["measure"] for each in gate["criteria"]}
        (site.root / "gates" / "g1-devices.yaml").write_text(yaml.safe_dump(gate, width=10**6))
        (site.root / "gates/plans/rehearsal.yaml").write_text(PLAN)
        (site.root / "suites" / "g1").mkdir()
        suite = ROOT / "suites" / "g1_arrival" / "test_devices.py"
        shutil.copy(suite, site.root / "suites" / "g1")
        shutil.copytree(ROOT / "inventory" / "adapters", site.root / "inventory" / "adapters")
        self.write(entries)

    def write(self, entries: dict[str, Any]) -> None:
        hosts = {"here": {"roles": ["serving"], "transport": "local"}, **entries}
        text = yaml.safe_dump({"inventory": "small", "hosts": hosts}, sort_keys=False)
        (self.site.root / "inventory/local/this-machine.yaml").write_text(text)

    def run(self) -> tuple[int, dict[str, dict[str, Any]]]:
        """Run G1; return the exit code and measure → finding."""
        done = self.site.kvgate("run")
        assert "Traceback" not in done.stderr, done.stderr
        found = self.site.findings()
        return done.returncode, {self.criteria[key]: each for key, each in found.items()}


@pytest.fixture
def devices(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeviceSite]:
    folder = tmp_path_factory.mktemp("devices")
    with simulated(folder, of="here") as entries:
        yield DeviceSite(site, folder, entries)


@pytest.mark.sshd
def test_healthy_devices_pass_are_recorded_and_replayed(devices: DeviceSite) -> None:
    code, found = devices.run()
    assert (code, {each["verdict"] for each in found.values()}) == (0, {"pass"})
    site = devices.site
    run = site.newest()
    assert {e["host"]: e["serials"] for e in site.events("identity")}[ARRAY] == [
        "array:SIMARRAY0001"
    ]
    page = (run / "report" / "report.html").read_text("utf-8")
    assert "SIMULATED DEVICES" in page
    assert f"simulated: https to 127.0.0.1 port {devices.entries[ARRAY]['port']}" in page
    secret = (devices.folder / "password").read_bytes()
    assert not [p for p in run.rglob("*") if p.is_file() and secret in p.read_bytes()]

    listed = site.kvgate("hosts")
    assert listed.returncode == 0
    assert "simulated, firmware SONiC.simulated-1" in listed.stdout

    recorded = site.kvgate("record", run.name, "--out", "inventory/recorded/site")
    assert recorded.returncode == 0, recorded.stderr
    folder = site.root / "inventory/recorded/site"
    assert "127.0.0.1" not in (folder / "hosts" / f"{ARRAY}.jsonl").read_text()
    replayed = site.kvgate(
        *("run", "--plan", str(folder / "plan.yaml")),
        *("--inventory", str(folder / "inventory.yaml")),
    )
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    runs = [json.loads((each / "findings.json").read_bytes())["gates"] for each in site.runs()]
    assert runs[0] == runs[1]


def _lesser(site: Site) -> dict[str, Any]:
    """Write an adapter that knows only who the array is."""
    whole = yaml.safe_load((site.root / "inventory/adapters/array-rest-example.yaml").read_text())
    whole |= {"adapter": "lesser", "questions": whole["questions"][:1]}
    (site.root / "inventory/adapters/lesser.yaml").write_text(yaml.safe_dump(whole))
    return {"adapter": "lesser"}


@pytest.mark.sshd
def test_each_fault_and_each_dead_or_lying_device_is_a_finding_of_its_own(
    devices: DeviceSite,
) -> None:
    entries, folder = devices.entries, devices.folder
    bmc = {**entries[BMC], "declared": {"psus": 2, "fans": 4}}

    def of_bmc() -> Any:
        return redfish.documents(state.healthy("bmc"))

    with (
        socket.socket() as held,
        WebDevice(folder, of_bmc) as changed,
        WebDevice(folder, of_bmc) as stranger,
        WebDevice(folder, lambda: array.documents(state.healthy("array"))) as other,
    ):
        held.bind(("127.0.0.1", 0))
        more = {
            "dead": {**bmc, "port": held.getsockname()[1]},
            "changed": {**bmc, "port": changed.port, "tls": {"fingerprint": "ab" * 32}},
            "stranger": {**bmc, "port": stranger.port},
            "lesser": {**entries[ARRAY], "port": other.port, **_lesser(devices.site)},
        }
        del more["stranger"]["tls"]
        devices.write({**entries, **more})
        for fault in ("psu-failed", "pool-degraded", "port-down", "wrong-mtu", "pfc-off"):
            state.plant(folder, fault)
        code, found = devices.run()
    assert code == 1
    expected = {
        "bmc.psu.faulty": f"PSU2 (Critical) on {BMC}",
        "array.pool.state": f"degraded on {ARRAY} (pool0)",
        "switch.port.state": f"down on {SWITCH} (Ethernet4)",
        "switch.port.mtu": f"1500 B on {SWITCH} (Ethernet0)",
        "switch.port.pfc": f"none on {SWITCH} (Ethernet0)",
    }
    for measure, because in expected.items():
        assert found[measure]["verdict"] == "fail"
        assert because in found[measure]["because"]
    fans = {each["host"]: each for each in found["bmc.fans"]["hosts"]}
    assert fans[BMC]["verdict"] == "pass"
    for name, because in {
        "dead": "Connection refused",
        "changed": "the certificate has changed",
        "stranger": "the certificate is not trusted",
    }.items():
        assert fans[name]["verdict"] == "inconclusive"
        assert f"{name}: " in fans[name]["because"]
        assert because in fans[name]["because"]
    lesser = [e for e in found["array.drives"]["hosts"] if e["host"] == "lesser"]
    assert lesser[0]["verdict"] == "inconclusive"
    assert "adapter lesser has no question for array.drives" in lesser[0]["because"]


@pytest.mark.sshd
def test_another_array_than_the_accepted_one_closes_the_next_gate(devices: DeviceSite) -> None:
    site = devices.site
    suite = '''
@settles("G2.1")
def test_what_holds(bench: Bench) -> None:
    """Hold."""
    say(bench, "a.held", Quantity.of(1, "ms"))
'''
    site.gate("G2", {"G2.1": ("a.held", "{at_most: 2 s}")}, suite, entry="G1")
    second = ", {gate: G2, suite: suites/g2, give_up_after: 120 s}]"
    plan = PLAN.replace("s}]", "s}" + second).replace("acceptance", "rehearsal")
    (site.root / "gates/plans/rehearsal.yaml").write_text(plan)
    assert site.kvgate("run", "--gate", "G1").returncode == 0
    other = state.healthy("array") | {"serial": "SIMARRAY0002"}
    state.write(devices.folder, "array", other)
    closed = site.kvgate("run", "--gate", "G2")
    assert closed.returncode == 2
    assert f"{ARRAY} is not what G1 accepted" in closed.stdout
    assert "gone array:SIMARRAY0001, new array:SIMARRAY0002" in closed.stdout
