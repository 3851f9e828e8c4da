from typing import Any

from kvgate.model.quantity import Quantity
from kvgate.probes import network


def test_ports_of_a_server(scripted: Any, recorded: Any, told: Any) -> None:
    names = ("ens1f0np0", "ens1f1np1", "eno1", "gone0")
    witness = scripted(
        {"/sys/class/net": recorded("sysfs_net/composed-server.txt")},
        {"nics": [{"name": name} for name in names]},
    )
    found = told(network.ask_ports(witness))
    assert [found["nic.present", name] for name in names] == [True, True, True, False]
    assert found["nic.speed", "ens1f0np0"] == Quantity.of(100, "Gbit/s")
    assert found["nic.mac", "ens1f0np0"] == "02:00:00:00:00:01"
    assert found["nic.carrier", "ens1f0np0"] is True
    assert found["nic.carrier", "ens1f1np1"] is False
    assert "reports −1 for its speed (it has no link)" in found["nic.speed", "ens1f1np1"]
    assert "ip link set eno1 up" in found["nic.carrier", "eno1"]
    assert "reports no speed" in found["nic.speed", "eno1"]
    assert found["nic.carrier", "gone0"] == "there is no port 'gone0'"


def test_a_virtual_port_has_a_link_and_no_speed(scripted: Any, recorded: Any, told: Any) -> None:
    witness = scripted(
        {"/sys/class/net": recorded("sysfs_net/linux-6.18-virtio.txt")},
        {"nics": [{"name": "eth0"}]},
    )
    found = told(network.ask_ports(witness))
    assert "so it is virtual" in found["nic.speed", "eth0"]
    assert found["nic.carrier", "eth0"] is True
