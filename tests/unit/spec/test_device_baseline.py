"""A device cites a baseline: firmware matrices of BMCs, switches and arrays."""

from __future__ import annotations

from kvgate.spec.baseline import Baseline
from kvgate.spec.bom import Bom
from kvgate.spec.expect import expectations
from kvgate.spec.inventory import Inventory

BASELINE = Baseline.model_validate(
    {
        "baselines": {
            "bmc": {
                "title": "BMCs",
                "settings": {
                    "bmc.firmware": {"version_at_least": "2.0"},
                    "bmc.bios": {"same_on_all_hosts": True},
                },
                "models": [
                    {
                        "kind": "server",
                        "model": "Big",
                        "settings": {"bmc.firmware": {"equals": "3.1"}},
                    },
                    {
                        "kind": "bmc",
                        "model": "Small",
                        "settings": {"bmc.firmware": {"equals": "2.7"}},
                    },
                ],
            },
            "leaf": {
                "title": "Leaves",
                "settings": {
                    "switch.firmware": {"equals": "S1"},
                    "switch.port.mtu": {"same_on_all_hosts": True},
                },
            },
        }
    }
)
DEVICE = {"transport": "https", "address": "192.0.2.9", "adapter": "redfish"}


def site() -> Inventory:
    def bmc(of: str, **declared: str) -> dict[str, object]:
        return {**DEVICE, "roles": ["bmc"], "of": of, "baseline": "bmc", "declared": declared}

    return Inventory.model_validate(
        {
            "inventory": "x",
            "baseline": "b.yaml",
            "hosts": {
                "n1": {"roles": ["serving"], "transport": "local"},
                "b1": bmc("n1"),
                "b2": bmc("n1", model="Small"),
                "b3": bmc("n1", firmware="9"),
                "leaf1": {
                    **DEVICE,
                    "roles": ["switch"],
                    "baseline": "leaf",
                    "declared": {"ports": [{"name": "E1"}, {"name": "E2"}]},
                },
            },
        }
    )


def test_a_device_is_held_to_its_baseline_item_by_item() -> None:
    found = expectations(site(), BASELINE)
    assert found["b1", "bmc.firmware", ""].how == "version_at_least"
    assert found["b1", "bmc.bios", ""].same
    assert found["b2", "bmc.firmware", ""].values == ("2.7",)  # its model's row
    assert found["b3", "bmc.firmware", ""].values == ("9",)  # what is declared stands above it
    assert found["leaf1", "switch.firmware", ""].values == ("S1",)
    assert {item for host, name, item in found if name == "switch.port.mtu"} == {"E1", "E2"}


def test_the_model_of_the_managed_host_counts() -> None:
    lines = [{"kind": "server", "model": "Big", "quantity": 1, "where": {"host": "n1"}}]
    bom = Bom.model_validate({"bom": "x", "lines": lines})
    assert expectations(site(), BASELINE, bom)["b1", "bmc.firmware", ""].values == ("3.1",)
