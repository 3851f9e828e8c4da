from typing import Any

import pytest

from kvgate.model.quantity import Quantity
from kvgate.probes import pci

SERVER = "sysfs_pci/composed-server.txt"


def test_links_of_a_server(scripted: Any, recorded: Any, told: Any) -> None:
    at = ("0000:05:00.0", "0000:41:00.0", "0000:43:00.0", "0000:99:00.0")
    witness = scripted(
        {"/sys/bus/pci": recorded(SERVER)}, {"pcie": [{"address": address} for address in at]}
    )
    found = told(pci.ask_links(witness))
    assert [found["pcie.present", address] for address in at] == [True, True, True, False]
    assert found["pcie.id", at[0]] == "1002:74a2"
    assert found["pcie.speed", at[0]] == Quantity.of(32, "GT/s")
    assert found["pcie.width", at[1]] == Quantity.of(8, "")
    assert found["pcie.width_max", at[1]] == Quantity.of(16, "")
    assert found["pcie.width", at[2]] == f"{at[2]} reports no link width"
    assert found["pcie.speed", at[3]] == f"there is no PCI device {at[3]}"


@pytest.mark.parametrize(("wanted", "count"), [("1002:74a2", 2), ("1002:74a8", 0)])
def test_gpus_are_counted_by_their_id(
    scripted: Any, recorded: Any, told: Any, wanted: str, count: int
) -> None:
    witness = scripted({"/sys/bus/pci": recorded(SERVER)}, {"gpus": {"count": 8, "id": wanted}})
    assert told(pci.ask_gpus(witness)) == {("gpu.count", ""): Quantity.of(count, "")}


def test_no_gpu_is_looked_for_where_none_is_declared(scripted: Any) -> None:
    witness = scripted({}, {})
    assert pci.ask_gpus(witness).readings == ()
    assert witness.transport.asked == []
