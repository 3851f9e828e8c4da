"""The simulated devices: healthy by themselves, and each planted fault is seen where it is."""

from __future__ import annotations

import functools
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvgate.errors import LoginError, UsageError
from kvgate.probes import devices
from kvgate.simulate import state, switch
from kvgate.simulate.devices import ARRAY, BMC, SWITCH, simulated
from kvgate.spec import yamlfile
from kvgate.spec.adapter import Adapter
from kvgate.spec.expect import expectations
from kvgate.spec.inventory import Inventory
from kvgate.spec.load_adapter import adapter_of
from kvgate.transport.connect import Connections
from kvgate.witness import Witness

ROOT = Path(__file__).parents[3]
Told = dict[tuple[str, str, str], str]


@functools.cache
def adapters() -> dict[str, Adapter]:
    files = (ROOT / "inventory" / "adapters").glob("*.yaml")
    return {path.stem: adapter_of(yamlfile.read(path)).value for path in files}


class Simulated:
    """The devices of one module's tests: asked anew, in the state of their files."""

    def __init__(self, folder: Path, entries: dict[str, Any]) -> None:
        self.folder = folder
        here = {"here": {"roles": ["serving"], "transport": "local"}}
        self.inventory = Inventory.model_validate({"inventory": "s", "hosts": here | entries})

    def heal(self) -> None:
        for kind in ("switch", "bmc", "array"):
            state.write(self.folder, kind, state.healthy(kind))

    def ask(self, *names: str) -> Told:
        found: Told = {}
        logins = {name: each.login for name, each in adapters().items()}
        with Connections(self.inventory, logins=logins) as connections:
            for name in names or (SWITCH, ARRAY, BMC):
                host = self.inventory.hosts[name]
                adapter = adapters()[host.adapter or ""]
                witness = Witness(host, connections.to(host), lambda _: "ref", adapter)
                for probe in devices.OF_ROLE[host.role.value]:
                    for each in probe.ask(witness).readings:
                        shown = f"!{each.problem}" if each.value is None else str(each.value)
                        found[name, each.name, each.item] = shown
        return found


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulated]:
    folder = tmp_path_factory.mktemp("simulated")
    with simulated(folder, of="here") as entries:
        yield Simulated(folder, entries)


@pytest.fixture
def site(running: Simulated) -> Simulated:
    running.heal()
    return running


@pytest.mark.sshd
def test_healthy_devices_are_what_their_entries_declare(site: Simulated) -> None:
    told = site.ask()
    assert not [key for key, value in told.items() if value.startswith("!")]
    for key, need in expectations(site.inventory, None).items():
        if key[0] != "here":
            assert told[key] == str(need.values[0]) or key[1].endswith("capacity"), key
    assert [v for (_, name, _), v in told.items() if name.endswith(".faulty")] == ["none"] * 5


SEEN = {
    "psu-failed": ("bmc.psu.faulty", "", "PSU2 (Critical)"),
    "fan-failed": ("bmc.fan.faulty", "", "Fan3 (Critical)"),
    "critical-event": ("bmc.sel.critical", "", "1"),
    "old-bios": ("bmc.bios", "", "1.2.0"),
    "pool-degraded": ("array.pool.state", "pool0", "degraded"),
    "drive-failed": ("array.drive.faulty", "", "D3 (failed)"),
    "controller-failed": ("array.controller.state", "B", "failed"),
    "array-port-down": ("array.port.state", "B1", "down"),
    "other-drive": ("array.drive.models", "", "SIM-NVME-3T84, SIM-NVME-7T68"),
    "port-down": ("switch.port.state", "Ethernet4", "down"),
    "wrong-mtu": ("switch.port.mtu", "Ethernet0", "1500 B"),
    "pfc-off": ("switch.port.pfc", "Ethernet0", "none"),
    "miscabled": ("switch.port.neighbour", "Ethernet0", "other sim0"),
    "drops": ("switch.port.tx_drops", "Ethernet0", "18682"),
}


def test_every_fault_is_tried() -> None:
    assert SEEN.keys() == state.FAULTS.keys()


@pytest.mark.sshd
@pytest.mark.parametrize("fault", SEEN)
def test_a_planted_fault_is_seen(site: Simulated, fault: str) -> None:
    measure, item, expected = SEEN[fault]
    state.plant(site.folder, fault)
    name = {"switch": SWITCH, "array": ARRAY, "bmc": BMC}[measure.partition(".")[0]]
    assert site.ask(name)[name, measure, item] == expected


def test_another_fault_is_refused(site: Simulated) -> None:
    with pytest.raises(UsageError, match="'fire' is no fault"):
        state.plant(site.folder, "fire")


@pytest.mark.sshd
def test_a_wrong_password_gets_nothing(site: Simulated, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("not it at all")
    for name in (ARRAY, BMC):
        wrong = {"password": {"file": str(tmp_path / "password")}}
        host = site.inventory.hosts[name]
        entry = {**host.model_dump(exclude={"name", "declared"}, exclude_unset=True), **wrong}
        odd = Simulated(site.folder, {name: entry})
        with pytest.raises(LoginError, match="user 'kvgate' was refused"):
            odd.ask(name)


@pytest.mark.sshd
def test_nothing_listens_afterwards_and_ports_can_be_had_again(tmp_path: Path) -> None:
    with simulated(tmp_path, of="here") as entries:
        ports = {name: int(entry["port"]) for name, entry in entries.items()}
        pins = {name: entry.get("tls") for name, entry in entries.items()}
    for port in ports.values():
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0
    with simulated(tmp_path, of="here", ports=ports) as again:
        assert {name: entry["port"] for name, entry in again.items()} == ports
        assert {name: entry.get("tls") for name, entry in again.items()} == pins


@pytest.mark.parametrize("command", ["", "show", "reboot", "show version; id", "config reload -y"])
def test_a_switch_knows_only_what_it_shows(command: str) -> None:
    status, text = switch.answer(command, state.healthy("switch"))
    assert status != 0
    assert "No such command" in text
