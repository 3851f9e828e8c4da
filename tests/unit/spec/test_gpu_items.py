"""GPUs by address: each is an item that a criterion can judge by itself."""

import pydantic
import pytest

from kvgate.spec.declared import Gpus
from kvgate.spec.expect import coverage, expectations
from kvgate.spec.gate import Criterion
from kvgate.spec.inventory import Host, Inventory

AT = ["0000:05:00.0", "0000:15:00.0"]
EACH = Criterion.model_validate(
    {
        "id": "G1.65",
        "text": "No GPU has an error",
        "measure": "card.ras_uncorrectable",
        "phase": "inspection",
        "hosts": "all",
        "each": "gpu",
        "limits": {"acceptance": {"at_most": 0}},
        "basis": "a test",
    }
)


def inventory(addresses: list[str]) -> Inventory:
    gpus = {"count": 2, "id": "1002:74a2", "addresses": addresses}
    host = {"roles": ["serving"], "transport": "local", "declared": {"gpus": gpus}}
    return Inventory.model_validate({"inventory": "site", "hosts": {"node1": host}})


def test_each_declared_address_is_expected_and_covered() -> None:
    site = inventory(AT)
    expected = expectations(site, None)
    assert [key[2] for key in expected if key[1] == "card.present"] == AT
    assert coverage(EACH, site, expected) == {"node1": tuple(AT)}


def test_without_addresses_the_host_is_judged_as_a_whole_only() -> None:
    site = inventory([])
    assert coverage(EACH, site, expectations(site, None)) == {}
    assert Host.model_validate({"roles": ["client"], "transport": "local"}).items("gpu") == ()


@pytest.mark.parametrize(
    "addresses", [AT[:1], [AT[0], AT[0]], [*AT, "0000:25:00.0"], ["05:00.0", AT[1]]]
)
def test_addresses_are_one_a_gpu_with_their_domain(addresses: list[str]) -> None:
    with pytest.raises(pydantic.ValidationError):
        Gpus(count=2, id="1002:74a2", addresses=addresses)


def test_the_maker_is_the_ids_first_half() -> None:
    assert Gpus(count=1, id="10de:20b2").maker == "10de"
