from typing import Any

import pytest

from kvgate.errors import ParseError
from kvgate.model.quantity import Quantity
from kvgate.parse import pcie_tree
from kvgate.probes import pci, pcie_path


def test_a_healthy_way(server: Any, told: Any, composed: Any) -> None:
    found = told(pcie_path.ask_ways(server()))
    assert {found["pcie.slow_links", at] for at in composed.GPUS} == {Quantity.of(0, "")}
    assert found["pcie.slow_link_names", composed.GPUS[0]] == "none"


@pytest.mark.parametrize("which", ["speed", "width"])
def test_a_degraded_uplink_of_a_switch_is_found(
    server: Any, told: Any, composed: Any, which: str
) -> None:
    gpu = composed.GPUS[0]
    root, upstream, _, _ = composed.way_of(gpu)
    before, after = {"speed": ("32.0 GT/s PCIe", "2.5 GT/s PCIe"), "width": ("16", "8")}[which]
    listed = composed.sysfs_pci()
    for end in (root, upstream):
        name = f"{end}/current_link_{which}:".encode()
        listed = listed.replace(name + before.encode(), name + after.encode())
    found = told(pcie_path.ask_ways(server({pci.SYSFS: listed})))
    assert found["pcie.slow_links", gpu] == Quantity.of(1, "")
    assert f"{root}–{upstream} at" in found["pcie.slow_link_names", gpu]
    assert found["pcie.slow_links", composed.GPUS[1]] == Quantity.of(0, "")
    own = told(pci.ask_links(server({pci.SYSFS: listed})))
    assert own["pcie.width", gpu] == Quantity.of(16, "")  # an endpoint alone shows nothing


def test_a_link_is_able_to_what_its_weaker_end_is(server: Any, told: Any, composed: Any) -> None:
    nic = composed.NIC_AT[0]
    listed = composed.sysfs_pci()
    for end in (nic, composed.root_of(nic)):
        now = f"{end}/current_link_speed:".encode()
        listed = listed.replace(now + b"32.0", now + b"16.0")
    listed = listed.replace(
        f"{nic}/max_link_speed:32.0".encode(), f"{nic}/max_link_speed:16.0".encode()
    )
    found = told(pcie_path.ask_ways(server({pci.SYSFS: listed})))
    assert found["pcie.slow_links", nic] == Quantity.of(0, "")


def test_errors_of_the_device_its_partner_and_the_root_port(
    server: Any, told: Any, composed: Any
) -> None:
    gpu = composed.GPUS[0]
    root, _, partner, _ = composed.way_of(gpu)
    counts = composed.aer()
    for name, word, count in (
        (f"{gpu}/aer_dev_fatal", "TOTAL_ERR_FATAL", 1),
        (f"{partner}/aer_dev_fatal", "TOTAL_ERR_FATAL", 2),
        (f"{partner}/aer_dev_correctable", "TOTAL_ERR_COR", 5),
    ):
        counts = counts.replace(f"{name}:{word} 0".encode(), f"{name}:{word} {count}".encode())
    rooted = f"{root}/aer_rootport_total_err_nonfatal:".encode()
    counts = counts.replace(rooted + b"0", rooted + b"7")
    found = told(pcie_path.ask_aer(server({pcie_path.AER: counts})))
    assert found["pcie.aer_fatal", gpu] == Quantity.of(3, "")
    assert found["pcie.aer_correctable", gpu] == Quantity.of(5, "")
    assert found["pcie.root_nonfatal", gpu] == Quantity.of(7, "")


def test_hidden_counters_are_no_zeros(server: Any, told: Any, composed: Any) -> None:
    gpu = composed.GPUS[0]
    partner = composed.way_of(gpu)[-2].encode()
    kept = [line for line in composed.aer().split(b"\n") if not line.startswith(partner)]
    found = told(pcie_path.ask_aer(server({pcie_path.AER: b"\n".join(kept)})))
    assert "keeps no AER counters" in found["pcie.aer_fatal", gpu]


def test_acs_on_the_way_is_told(server: Any, told: Any, composed: Any) -> None:
    argv = ("lspci", "-Dvvnn", "-d", "::0604")
    assert told(pcie_path.ask_acs(server()))["pcie.acs", composed.GPUS[0]] is False
    on = composed.acs().replace(b"ACSCtl:\tSrcValid-", b"ACSCtl:\tSrcValid+")
    assert told(pcie_path.ask_acs(server({argv: on})))["pcie.acs", composed.GPUS[0]] is True
    denied = b"".join(
        line if not line.lstrip().startswith(b"ACS") else b""
        for line in on.replace(
            b"Capabilities: [2a0 v1] Access Control Services", b"Capabilities: <access denied>"
        ).splitlines(keepends=True)
    )
    found = told(pcie_path.ask_acs(server({argv: denied})))
    assert found["pcie.acs", composed.GPUS[0]] == "lspci needs root to read ACS"


def test_a_device_that_is_not_there(server: Any, told: Any) -> None:
    gone = server(pcie=[{"address": "ffff:ff:1f.7"}])
    for ask in (pcie_path.ask_ways, pcie_path.ask_aer):
        assert set(told(ask(gone)).values()) == {"there is no PCI device ffff:ff:1f.7"}


@pytest.mark.parametrize(
    ("read", "answer"),
    [
        (pcie_tree.ways, b"total 0\nodd\n"),
        (pcie_tree.ways, b"l 0000:05:00.0 -> ../../../devices/pci0000:00/0000:06:00.0\n"),
        (pcie_tree.aer, b"0000:05:00.0/aer_dev_fatal:TOTAL_ERR_FATAL x\n"),
    ],
)
def test_odd_answers_are_refused(read: Any, answer: bytes) -> None:
    with pytest.raises(ParseError):
        read(answer)
