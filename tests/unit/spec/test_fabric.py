"""Declared paths and pairs: what can't be meant is refused, and what is required follows."""

import json
from pathlib import Path
from typing import Any

import pydantic
import pytest

from kvgate.errors import SpecError
from kvgate.model.quantity import Quantity
from kvgate.spec.declared import Declared
from kvgate.spec.expect import coverage, expectations
from kvgate.spec.expect_fabric import line_rate, mtu_of
from kvgate.spec.fabric import NvmeSubsystem
from kvgate.spec.gate import Criterion
from kvgate.spec.inventory import Inventory
from kvgate.spec.load import load_inventory

ARRAY: dict[str, Any] = {
    "name": "array1",
    "nqn": "nqn.2026-11.com.example:array1",
    "transport": "rdma",
    "ctrl_loss_tmo": "600 s",
    "fast_io_fail_tmo": False,
    "paths": [{"name": "a", "target": "192.0.2.11"}, {"name": "b", "target": "192.0.2.12"}],
}
LINK: dict[str, Any] = {
    "name": "a", "nic": "e0", "address": "192.0.2.21", "to": "n2", "to_nic": "e0",
    "to_address": "192.0.2.22",
}  # fmt: skip


def inventory(**declared: Any) -> Inventory:
    host = {"roles": ["serving"], "transport": "local", "declared": declared}
    return Inventory.model_validate({"inventory": "i", "hosts": {"n1": host, "n2": host}})


def test_timeouts_are_seconds_or_off() -> None:
    found = NvmeSubsystem.model_validate(ARRAY | {"reconnect_delay": "1 min"})
    assert (found.ctrl_loss_tmo, found.fast_io_fail_tmo, found.reconnect_delay) == (
        "600",
        "off",
        "60",
    )


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"ctrl_loss_tmo": "1500 ms"}, "whole number of seconds"),
        ({"ctrl_loss_tmo": "soon"}, "no time-out"),
        ({"ctrl_loss_tmo": 600}, "no time-out"),
        ({"paths": []}, "empty"),
        ({"paths": ARRAY["paths"][:1] * 2}, "two paths have one name"),
        ({"paths": [{"name": n, "target": "192.0.2.11"} for n in "ab"]}, "the same addresses"),
        (
            {"paths": [{"name": "a", "target": "192.0.2.11"},
                       {"name": "b", "target": "192.0.2.11", "host": "192.0.2.21"}]},
            "told apart by 'host'",
        ),
        ({"paths": [{"name": "a", "target": "array; reboot"}]}, "address"),
        ({"nqn": "nqn with blanks"}, "nqn"),
    ],
)  # fmt: skip
def test_what_can_not_be_meant_is_refused(changed: dict[str, Any], why: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=why):
        NvmeSubsystem.model_validate(ARRAY | changed)


def test_names_that_stand_in_commands_are_safe() -> None:
    for key in ("nic", "to_nic"):
        with pytest.raises(pydantic.ValidationError):
            Declared.model_validate({"fabric": [LINK | {key: "e0;reboot"}]})


def test_required_is_what_is_declared() -> None:
    site = inventory(nvmeof=[ARRAY], host_nqn="nqn.host")
    needs = {key: str(need) for key, need in expectations(site, None).items()}
    assert needs["n1", "nvmeof.host_nqn", ""] == "nqn.host, different on all hosts"
    assert needs["n1", "nvmeof.ctrl_loss_tmo", "array1/a"] == "600 s"
    assert needs["n1", "nvmeof.fast_io_fail_tmo", "array1/b"] == "off"
    assert needs["n1", "nvmeof.path_ana", "array1/b"] == "one of optimized, non-optimized"
    assert ("n1", "nvmeof.iopolicy", "array1") not in needs
    assert ("n1", "nvmeof.discovered", "array1/a") not in needs
    assert not expectations(inventory(), None)


def test_each_path_subsystem_and_pair_is_covered() -> None:
    site = inventory(nvmeof=[ARRAY], fabric=[LINK])
    for each, items in (
        ("path", ("array1/a", "array1/b")),
        ("subsystem", ("array1",)),
        ("link", ("a",)),
        ("roce", ("e0",)),
    ):
        criterion = Criterion.model_validate(
            {"id": "G2.1", "text": "t", "measure": "m", "phase": "p", "hosts": "serving",
             "each": each, "limits": {"lab": {"equals": "live"}}, "basis": "b"}
        )  # fmt: skip
        assert coverage(criterion, site, {}) == {"n1": items, "n2": items}


def test_a_pair_has_the_ports_rate_and_mtu_unless_it_has_its_own() -> None:
    nic = {"name": "e0", "speed": "100 Gbit/s", "mtu": "9000 B"}
    host = inventory(nics=[nic], fabric=[LINK]).hosts["n1"]
    link = host.declared.fabric[0]
    assert line_rate(host, link) == Quantity.parse("100 Gbit/s")
    assert mtu_of(host, link) == Quantity.of(9000, "B")
    own = link.model_copy(update={"rate": Quantity.parse("25 Gbit/s")})
    assert line_rate(host, own) == Quantity.parse("25 Gbit/s")


def test_a_pair_leads_to_a_host_of_the_inventory(tmp_path: Path) -> None:
    path = tmp_path / "i.yaml"
    link = json.dumps(LINK | {"to": "nowhere"})
    path.write_text(
        "inventory: i\nhosts:\n  n1:\n    roles: [serving]\n    transport: local\n"
        f"    declared:\n      fabric:\n        - {link}\n"
    )
    with pytest.raises(SpecError, match=r"i.yaml:8: .*'nowhere' is no computer here"):
        load_inventory(path)
