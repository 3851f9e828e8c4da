"""Devices that are not hosts: the array, switches and BMCs, each by its adapter."""

from __future__ import annotations

from kvgate.suite import Bench, probes, settles


@settles(
    "G1.201",
    "G1.202",
    "G1.203",
    "G1.204",
    "G1.205",
    "G1.206",
    "G1.207",
    "G1.208",
    "G1.209",
    "G1.210",
    "G1.211",
    "G1.212",
    "G1.213",
    "G1.214",
    "G1.215",
    "G1.216",
    "G1.217",
)
def test_arrays_as_ordered_and_healthy(bench: Bench) -> None:
    """Ask every array for controllers, drives, pools, ports, firmware and capacity."""
    bench.survey(probes.devices.ARRAY, bench.hosts("array"), phase="inspection")


@settles(
    "G1.221",
    "G1.222",
    "G1.223",
    "G1.224",
    "G1.225",
    "G1.226",
    "G1.227",
    "G1.228",
    "G1.229",
)
def test_switches_as_agreed(bench: Bench) -> None:
    """Ask every switch for its ports, how they are set, and which neighbours they see."""
    bench.survey(probes.devices.SWITCH, bench.hosts("switch"), phase="inspection")


@settles(
    "G1.241",
    "G1.242",
    "G1.243",
    "G1.244",
    "G1.245",
    "G1.246",
    "G1.247",
    "G1.248",
    "G1.249",
    "G1.250",
    "G1.251",
    "G1.252",
)
def test_bmcs_for_what_only_they_see(bench: Bench) -> None:
    """Ask every BMC for power supplies, fans, sensors, firmware and its event log."""
    bench.survey(probes.devices.BMC, bench.hosts("bmc"), phase="inspection")
