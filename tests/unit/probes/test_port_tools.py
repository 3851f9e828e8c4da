"""Ports by ethtool."""

from typing import Any

from kvgate.model.quantity import Quantity
from kvgate.probes import port_tools

NIC = "ens0f0np0"
PROBES = {probe.name: probe for probe in port_tools.PROBES}


def found(server: Any, told: Any, **changed: Any) -> dict[str, Any]:
    answers = {("ethtool", f"-{option}", NIC): say for option, say in changed.items()}
    readings: dict[tuple[str, str], Any] = {}
    for probe in port_tools.PROBES:
        readings |= told(probe.ask(server(answers)))
    return {name: value for (name, item), value in readings.items() if item == NIC}


def test_a_healthy_port(server: Any, told: Any) -> None:
    readings = found(server, told)
    assert readings["nic.driver"] == "mlx5_core"
    assert readings["nic.firmware"].startswith("22.39.2048")
    assert readings["nic.global_pause"] is False
    assert readings["nic.rings_full"] is False
    assert readings["nic.tx_ring"] == Quantity.of(1024, "")
    assert readings["nic.module"] == "SAMPLE OPTICS SQ28-SR4-100"
    assert readings["nic.rx_power"] == Quantity.parse("-3.66 dBm")
    assert readings["nic.tx_power"] == Quantity.parse("-0.01 dBm")
    assert readings["nic.module_temperature"] == Quantity.parse("41.52 degC")
    assert readings["nic.module_alarms"] == Quantity.of(1, "")
    assert readings["nic.losses"] == Quantity.of(0, "")


def test_no_light_is_no_number(server: Any, told: Any, recorded: Any) -> None:
    readings = found(server, told, m=recorded("ethtool_m/composed-6.x-sfp28-dark.txt"))
    assert readings["nic.rx_power"] == f"a lane of {NIC} is dark"
    assert readings["nic.tx_power"] == Quantity.parse("-1.74 dBm")
    assert readings["nic.module_alarms"] == Quantity.of(2, "")


def test_a_copper_cable_has_no_diagnostics(server: Any, told: Any, recorded: Any) -> None:
    readings = found(server, told, m=recorded("ethtool_m/composed-6.x-copper.txt"))
    assert readings["nic.module"] == "SAMPLE CABLES DAC-100-1M"
    for name in ("rx_power", "tx_power", "module_temperature", "module_alarms"):
        assert "copper cables have none" in readings[f"nic.{name}"]


def test_losses_and_pauses_are_kept_apart_by_digit(server: Any, told: Any) -> None:
    say = (
        b"NIC statistics:\n     rx_discards_phy: 2\n     rx_prio3_discards: 5\n"
        b"     rx_prio3_pause: 700\n     rx_prio7_pause: 11\n     rx_prio3_pause_duration: 99\n"
        b"     rx_discards: 1000\n"
    )
    readings = found(server, told, S=say)
    assert readings["nic.losses"] == Quantity.of(7, "")
    assert readings["nic.pauses"] == Quantity.of(711, "")


def test_counters_of_an_unknown_driver_are_no_zero(server: Any, told: Any) -> None:
    readings = found(server, told, S=b"NIC statistics:\n     my_packets: 2\n")
    assert readings["nic.losses"] == f"{NIC} counts no losses by name"
    assert readings["nic.pauses"] == f"{NIC} counts no pause frames by priority"


def test_a_missing_tool_names_its_package_and_odd_answers_cost_one_port(
    server: Any, told: Any, composed: Any
) -> None:
    readings = found(server, told, m=(127, b"", b""), g=b"nonsense")
    assert "install the package 'ethtool'" in readings["nic.module"]
    assert "ethtool -g" in readings["nic.rings_full"]
    others = told(PROBES["port rings"].ask(server({("ethtool", "-g", NIC): b"nonsense"})))
    assert others["nic.rx_ring", composed.NICS[1]] == Quantity.of(8192, "")
