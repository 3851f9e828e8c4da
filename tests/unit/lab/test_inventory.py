from __future__ import annotations

from pathlib import Path

from kvgate.lab import inventory
from kvgate.lab.places import Places
from kvgate.lab.vm import INI, VMS
from kvgate.spec.load import load_inventory

ROOT = Path(__file__).resolve().parents[3]


def test_the_shipped_inventory_is_that_of_the_default_lab() -> None:
    assert (ROOT / "inventory/lab.yaml").read_text("utf-8") == inventory.shipped()


def test_what_up_writes_is_an_inventory_with_the_ports_of_the_lab(tmp_path: Path) -> None:
    places = Places(tmp_path, "mine")
    places.state.mkdir(parents=True)
    places.keys.mkdir()
    (places.keys / "host_key.pub").write_text("ssh-ed25519 AAAA kvgate\n")
    ports = {"tgt": 5001, "ini": 5002}
    told = load_inventory(inventory.write(places, ports)).value
    assert {name: told.hosts[name].port for name in ports} == ports
    assert [host.name for host in told.with_role("serving")] == ["ini"]
    assert told.hosts["labhost"].transport == "local"
    for name in ports:
        assert told.hosts[name].address == "127.0.0.1"
        assert {disk.serial for disk in told.hosts[name].declared.disks} >= {
            drive.serial for drive in VMS[name].drives
        }
    known = (places.state / "known_hosts").read_text().splitlines()
    assert known == ["[127.0.0.1]:5001 ssh-ed25519 AAAA", "[127.0.0.1]:5002 ssh-ed25519 AAAA"]


def test_only_drives_meant_for_it_may_be_written() -> None:
    text = inventory.shipped()
    may = {line for line in text.splitlines() if "destructive: true" in line}
    assert {each for each in ("LAB-INI-FREE", "LAB-INI-USED") if any(each in m for m in may)}
    for drive in INI.drives:
        if drive.name in ("local", "dual"):
            assert not any(drive.serial in line for line in may)
