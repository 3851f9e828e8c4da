"""Ordered parts against reported ones: every way in which a delivery can be wrong."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.judge.bom import Compared, Found, Status, compare
from kvgate.spec.bom import Bom

HOSTS = ("node1", "node2")
TOLD = {(host, kind): "" for host in HOSTS for kind in ("drive", "gpu", "dimm")}


def bom(*lines: dict[str, Any]) -> Bom:
    return Bom.model_validate({"bom": "b", "lines": list(lines)})


def drives(host: str, *serials: str, **more: Any) -> dict[str, Any]:
    return {
        "kind": "drive",
        "model": "M1",
        "quantity": len(serials),
        "serials": list(serials),
        "where": {"host": host},
    } | more


def drive(host: str, serial: str, *places: str, model: str = "M1", fault: str = "") -> Found:
    return Found(host=host, kind="drive", serial=serial, model=model, places=places, fault=fault)


def judged(
    order: Bom, *found: Found, told: dict[tuple[str, str], str] | None = None
) -> tuple[dict[str, str], Compared]:
    compared = compare(order, found, TOLD if told is None else told, HOSTS)
    return {line.ordered.item: line.text for line in compared.lines}, compared


def test_everything_as_ordered() -> None:
    said, compared = judged(
        bom(drives("node1", "S1", "S2")), drive("node1", "S1"), drive("node1", "S2")
    )
    assert set(said.values()) == {"as_ordered"}
    assert compared.surplus == {"node1": ()}
    assert compared.unsure == {}


def test_a_serial_number_that_nobody_reports_is_missing() -> None:
    said, _ = judged(bom(drives("node1", "S1", "S2")), drive("node1", "S1"))
    assert said["drive/S2"] == "missing: no drive with serial number S2 is in node1"


def test_a_part_in_another_host_is_swapped_and_both_places_are_named() -> None:
    said, compared = judged(
        bom(drives("node1", "S1"), drives("node2", "S2")),
        drive("node1", "S2", "3"),
        drive("node2", "S1", "4"),
    )
    assert said["drive/S1"] == "swapped: it is in node2 4, ordered for node1"
    assert said["drive/S2"] == "swapped: it is in node1 3, ordered for node2"
    assert compared.surplus == {"node1": (), "node2": ()}


def test_a_part_in_another_slot_is_swapped_whatever_the_slot_is_called() -> None:
    units = [{"serial": "S1", "slot": "0000:41:00.0"}, {"serial": "S2", "slot": "4"}]
    order = bom(drives("node1") | {"quantity": 2, "units": units, "serials": []})
    at = {"3": ("3", "0000:41:00.0", "nvme0"), "4": ("4", "0000:42:00.0", "nvme1")}
    said, _ = judged(order, drive("node1", "S1", *at["3"]), drive("node1", "S2", *at["4"]))
    assert set(said.values()) == {"as_ordered"}
    said, _ = judged(order, drive("node1", "S1", *at["4"]), drive("node1", "S2", *at["3"]))
    assert said["drive/S1"] == "swapped: it is in node1 4, ordered for node1 slot 0000:41:00.0"


def test_another_model_under_the_ordered_serial_number() -> None:
    said, _ = judged(bom(drives("node1", "S1")), drive("node1", "S1", "3", model="M2"))
    assert said["drive/S1"] == "wrong_model: node1 3 has M2, ordered: M1"


@pytest.mark.parametrize(
    ("ordered", "told", "same"),
    [
        ("MI308X", "AMD Instinct MI308X", True),
        ("mi308x", "AMD Instinct MI308X", True),
        ("MI308X", "AMD Instinct MI308X-HF", False),
        ("A10", "NVIDIA A100", False),
        ("M1 ", "M 1", True),
    ],
)
def test_models_are_compared_by_whole_words(ordered: str, told: str, same: bool) -> None:
    order = bom(drives("node1", "S1", model=ordered))
    said, _ = judged(order, drive("node1", "S1", model=told))
    assert (said["drive/S1"] == "as_ordered") is same


def test_a_part_that_nobody_ordered_in_the_place_of_one_that_was() -> None:
    said, compared = judged(bom(drives("node1", "S1")), drive("node1", "S9", "3"))
    assert said["drive/S1"] == "serial_unknown: drive S9 in node1 3 is not on the list"
    assert [part.serial for part in compared.surplus["node1"]] == ["S9"]


def test_one_stranger_explains_one_absence_only() -> None:
    said, _ = judged(bom(drives("node1", "S1", "S2")), drive("node1", "S9"))
    assert sorted(text.partition(":")[0] for text in said.values()) == [
        "missing",
        "serial_unknown",
    ]


def test_a_dead_part_is_doa_with_or_without_its_serial_number() -> None:
    dead = "its controller is 'dead'"
    said, _ = judged(bom(drives("node1", "S1")), drive("node1", "S1", "3", fault=dead))
    assert said["drive/S1"] == f"doa: node1 3: {dead}"
    said, compared = judged(
        bom(drives("node1", "S1", "S2")),
        drive("node1", "S2", "4"),
        drive("node1", "", "3", model="", fault="no driver drives it"),
    )
    assert said["drive/S1"] == "doa: node1 3: no driver drives it"
    assert compared.surplus == {"node1": ()}


def test_surplus_is_of_kinds_and_hosts_that_the_bill_speaks_of() -> None:
    gpu = Found(host="node1", kind="gpu", serial="G1")
    said, compared = judged(
        bom(drives("node1", "S1")),
        drive("node1", "S1"),
        drive("node1", "S2", "7"),
        drive("node2", "S3"),
        gpu,
    )
    assert said["drive/S1"] == "as_ordered"
    assert [part.named for part in compared.surplus["node1"]] == ["drive S2 in node1 7"]
    assert "node2" not in compared.surplus


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({}, "nothing there tells of parts of kind drive"),
        ({("node1", "drive"): "not permitted"}, "not permitted"),
    ],
)
def test_what_could_not_be_told_is_never_as_ordered_nor_missing(
    told: dict[tuple[str, str], str], why: str
) -> None:
    said, compared = judged(bom(drives("node1", "S1")), told=told)
    assert said["drive/S1"] == f"not_known: node1: {why}"
    assert bool(compared.unsure) is bool(told)


def test_a_part_that_tells_no_serial_number_is_not_known() -> None:
    said, _ = judged(bom(drives("node1", "S1")), drive("node1", "", "vda"))
    assert said["drive/S1"].startswith("not_known: drive M1 in node1 vda does not tell")


def test_parts_without_serial_numbers_are_counted() -> None:
    order = bom({"kind": "dimm", "model": "D64", "quantity": 2, "where": {"host": "node1"}})
    dimm = Found(host="node1", kind="dimm", model="D64")
    item = "dimm/line 1"
    assert judged(order, dimm, dimm)[0][item] == "as_ordered"
    assert judged(order, dimm)[0][item] == "missing: 1 of 2 are there"
    said, compared = judged(order, dimm, dimm, dimm)
    assert said[item] == "as_ordered"
    assert len(compared.surplus["node1"]) == 1
    other = Found(host="node1", kind="dimm", model="D32")
    assert judged(order, dimm, other)[0][item] == "wrong_model: 1 of 2 are there; also there: D32"
    assert judged(order, dimm, told={})[0][item].startswith("not_known")


def test_a_part_for_anywhere_is_looked_for_everywhere() -> None:
    order = bom({**drives("node1", "S1"), "where": {}})
    assert judged(order, drive("node2", "S1"))[0]["drive/S1"] == "as_ordered"
    lost = "missing: no drive with serial number S1 is in node1, node2"
    assert judged(order)[0]["drive/S1"] == lost
    silent = {("node1", "drive"): "", ("node2", "drive"): "no root"}
    assert judged(order, told=silent)[0]["drive/S1"] == "not_known: node2: no root"


def test_a_host_and_its_bmc_tell_of_one_part() -> None:
    twice = (drive("node1", "S1", "3"), drive("node1", "S1", "Bay 3", model=""))
    said, compared = judged(bom(drives("node1", "S1")), *twice)
    assert said["drive/S1"] == "as_ordered"
    assert compared.surplus == {"node1": ()}


def test_serial_numbers_are_compared_without_case_and_padding() -> None:
    said, _ = judged(bom(drives("node1", "s1 a")), drive("node1", "S1 A"))
    assert said == {"drive/S1 A": "as_ordered"}


def test_what_people_count_is_not_judged() -> None:
    said, _ = judged(bom({"kind": "cable", "description": "3 m", "quantity": 4}))
    assert said == {}


serial = st.sampled_from(["S1", "S2", "S3", "S4", ""])
found_parts = st.lists(
    st.builds(
        drive,
        st.sampled_from(HOSTS),
        serial,
        st.sampled_from(["1", "2"]),
        model=st.sampled_from(["M1", "M2", ""]),
        fault=st.sampled_from(["", "dead"]),
    ),
    max_size=6,
)
orders = st.lists(
    st.sampled_from(["S1", "S2", "S3", "S4"]), min_size=1, max_size=4, unique=True
).map(lambda serials: bom(*(drives(HOSTS[i % 2], s) for i, s in enumerate(serials))))


@settings(deadline=None, max_examples=50)
@given(orders, found_parts, st.permutations(range(6)))
def test_the_order_told_changes_nothing_and_no_part_is_lost(
    order: Bom, found: list[Found], shuffle: list[int]
) -> None:
    """Every ordered part gets one status; nothing passes that is not there, alive and in place."""
    first = compare(order, found, TOLD, HOSTS)
    mixed = [found[at] for at in shuffle if at < len(found)]
    assert compare(order, mixed, TOLD, HOSTS) == first
    assert [line.ordered for line in first.lines] == list(order.judged())
    for line in first.lines:
        if line.status is Status.AS_ORDERED:
            assert any(
                (part.host, part.serial) == (line.ordered.host, line.ordered.serial)
                and part.model in ("M1", "")
                for part in found
            )
