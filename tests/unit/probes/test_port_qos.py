"""Which tool tells of lossless priorities: the port's driver decides, dcb is the last."""

from typing import Any

import pytest

from kvgate.probes import port_qos

NIC = "ens0f0np0"
NO_MLNX = {("mlnx_qos", "-i", NIC): (127, b"", b"")}


def place(driver: str) -> bytes:
    return (
        f"{NIC}/device/uevent:DRIVER={driver}\n{NIC}/device/uevent:PCI_SLOT_NAME=0000:06:00.0\n"
    ).encode()


def test_mlnx_qos_is_enough(server: Any, told: Any) -> None:
    witness = server()
    found = told(port_qos.ask_qos(witness))
    assert (found["nic.pfc_priorities", NIC], found["nic.trust", NIC]) == ("3", "dscp")
    assert found["nic.dscp_of_lossless", NIC]
    assert {argv[0] for argv in witness.transport.asked} == {"mlnx_qos"}


def test_dcb_tells_priorities_and_dscps(server: Any, told: Any) -> None:
    found = told(port_qos.ask_qos(server(NO_MLNX)))
    assert found["nic.pfc_priorities", NIC] == "3"
    assert found["nic.trust", NIC] == "dscp"
    assert found["nic.dscp_of_lossless", NIC] == "26"


def test_dcb_without_table_tells_no_trust(server: Any, told: Any) -> None:
    none = {("dcb", "-j", "app", "show", "dev", NIC): b"{}\n"}
    found = told(port_qos.ask_qos(server(NO_MLNX | none)))
    assert found["nic.pfc_priorities", NIC] == "3"
    assert found["nic.trust", NIC] == "dcb tells no trust"
    assert found["nic.dscp_of_lossless", NIC] == "no DSCP maps to a lossless priority"


def test_without_any_tool_the_packages_are_named(server: Any, told: Any) -> None:
    gone = {("dcb", "-j", "pfc", "show", "dev", NIC): (127, b"", b"")}
    assert "neither" in told(port_qos.ask_qos(server(NO_MLNX | gone)))["nic.pfc_priorities", NIC]


@pytest.mark.parametrize(
    ("driver", "tool", "sample", "codes"),
    [
        ("bnxt_en", port_qos.niccli_argv, "niccli/composed-232-two-ports.txt", "26"),
        ("ionic", port_qos.nicctl_argv, "nicctl/composed-1.117-two-nics.txt", "26"),
    ],
)
def test_the_vendors_tool_is_asked_once_and_found_by_pci_address(
    server: Any, told: Any, recorded: Any, driver: str, tool: Any, sample: str, codes: str
) -> None:
    witness = server()
    nics = [nic.name for nic in witness.host.declared.nics]
    changed: dict[Any, Any] = {("mlnx_qos", "-i", nic): (127, b"", b"") for nic in nics}
    changed |= {port_qos.PLACES: place(driver), tool(witness.host): recorded(sample)}
    witness = server(changed)
    found = told(port_qos.ask_qos(witness))
    assert (found["nic.pfc_priorities", NIC], found["nic.trust", NIC]) == ("3", "dscp")
    assert found["nic.dscp_of_lossless", NIC] == codes
    assert found["nic.dscp26_lossless", NIC] is True
    asked = [argv for argv in witness.transport.asked if argv == tool(witness.host)]
    assert len(asked) == 1


def test_a_vendors_tool_that_does_not_know_the_port(server: Any, told: Any, recorded: Any) -> None:
    witness = server(nics=[{"name": NIC}])
    other = recorded("nicctl/composed-1.117-two-nics.txt").replace(b"0000:06", b"0000:99")
    changed = NO_MLNX | {port_qos.PLACES: place("ionic"), port_qos.nicctl_argv(witness.host): other}
    found = told(port_qos.ask_qos(server(changed, nics=[{"name": NIC}])))
    assert "tells nothing of" in found["nic.pfc_priorities", NIC]


def test_odd_answers_cost_their_port_only(server: Any, told: Any, composed: Any) -> None:
    found = told(port_qos.ask_qos(server({("mlnx_qos", "-i", NIC): b"nonsense\n"})))
    assert "mlnx_qos" in found["nic.trust", NIC]
    assert found["nic.trust", composed.NICS[1]] == "dscp"
