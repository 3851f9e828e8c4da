"""Ceilings of links, ports, queues and of trees of them, against figures known elsewhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvgate.kv import ceiling
from kvgate.kv.ceiling import Branch, Ceiling
from kvgate.model.quantity import Quantity


def gbs(found: Ceiling | None) -> float:
    assert found is not None
    return round(float(found.rate) / 10**9, 3)


@pytest.mark.parametrize(
    ("speed", "width", "rate"),
    [
        ("2.5 GT/s", 1, 0.25),
        ("5.0 GT/s", 8, 4.0),
        ("8.0 GT/s", 16, 15.754),  # "PCIe 3.0 x16 carries 15.75 GB/s"
        ("16.0 GT/s", 4, 7.877),
        ("32.0 GT/s", 4, 15.754),
        ("64.0 GT/s", 16, 118.0),
    ],
)
def test_pcie_links(speed: str, width: int, rate: float) -> None:
    assert gbs(ceiling.pcie(Quantity.parse(speed), width)) == rate


@pytest.mark.parametrize(("speed", "width"), [("3 GT/s", 4), ("8 GT/s", 0), ("8 GT/s", 64)])
def test_no_link_has_that_speed_or_width(speed: str, width: int) -> None:
    assert ceiling.pcie(Quantity.parse(speed), width) is None


def test_ports() -> None:
    assert gbs(ceiling.port(Quantity.parse("100 Gb/s"))) == 12.5
    assert gbs(ceiling.port(Quantity.parse("100 Gb/s"), "tcp")) == 12.5
    roce = ceiling.port(Quantity.parse("100 Gb/s"), "rdma")
    assert gbs(roce) == 12.255
    assert "RoCEv2" in str(roce)


def test_the_published_device_is_below_its_ports_ceiling() -> None:
    roce = ceiling.port(Quantity.parse("100 Gb/s"), "rdma")
    assert Quantity.parse("10.65 GB/s") < roce.quantity


def test_queues() -> None:
    assert gbs(ceiling.queue(8, 131_072, Quantity.parse("100 us"))) == 10.486
    with pytest.raises(ValueError, match="no load"):
        ceiling.queue(0, 4096, Quantity.parse("100 us"))
    with pytest.raises(ValueError, match="no load"):
        ceiling.queue(1, 4096, Quantity.parse("0 s"))


def test_a_usual_share_of_pcie_is_told_with_its_assumption() -> None:
    assert round(float(ceiling.usual_share_of_pcie()), 3) == 0.914


def made(name: str, number: int) -> tuple[str, Ceiling]:
    return name, ceiling.datasheet(Quantity.of(number, "GB/s"), name)


def test_the_lowest_link_of_a_way_counts_and_ends_add_up() -> None:
    up, down = made("switch", 30), made("slot", 8)
    drives = [Branch((up, made(f"slot{n}", 8)), made("", 7)[1]) for n in range(4)]
    assert gbs(ceiling.of_tree(drives[:1])) == 7
    assert gbs(ceiling.of_tree(drives)) == 28
    assert gbs(ceiling.of_tree([*drives, Branch((up, down))])) == 30  # their switch is full
    apart = Branch((made("other", 5),))
    assert gbs(ceiling.of_tree([*drives, Branch((up, down)), apart])) == 35


def test_one_end_without_a_ceiling_leaves_all_without() -> None:
    assert ceiling.of_tree([Branch((made("a", 5),)), Branch(())]) is None
    assert ceiling.of_tree([]) is None


def test_a_shared_link_bounds_ends_that_tell_nothing_more() -> None:
    assert gbs(ceiling.of_tree([Branch((made("port", 12),)) for _ in range(4)])) == 12


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 50)), min_size=1, max_size=6))
def test_a_tree_carries_no_more_than_its_ends_nor_than_its_trunks(
    ends: list[tuple[int, int]],
) -> None:
    branches = [Branch((made(f"t{trunk}", 40),), made("", rate)[1]) for trunk, rate in ends]
    found = gbs(ceiling.of_tree(branches))
    assert found <= sum(rate for _, rate in ends)
    assert found <= 40 * len({trunk for trunk, _ in ends})
    assert found >= min(40, *(rate for _, rate in ends))
