"""Sweeps as tables of colour: each cell with its value and share, whatever is varied."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from kvgate.model.quantity import Quantity
from kvgate.model.record import Measurement
from kvgate.report import heat
from kvgate.report.views import Chart

T0 = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def cell(mbps: float, name: str = "fio.read_bw", host: str = "ini1", **labels: str) -> Measurement:
    return Measurement(
        name=name,
        value=Quantity.of(mbps, "MB/s"),
        host=host,
        phase="steady_state",
        taken_at=T0,
        labels={"grid": "path", "pattern": "randread", "round": "1", **labels},
    )


def drawn(
    taken: Sequence[Measurement], ceilings: dict[str, float] | None = None
) -> tuple[Chart, ...]:
    return tuple(heat.charts("G2", taken, ceilings or {}))


def texts(chart: Chart) -> list[str]:
    root = ET.fromstring(str(chart.svg))  # noqa: S314  made here
    return [element.text or "" for element in root.iter() if element.tag.endswith("}text")]


SWEEP = [
    cell(rate, block_size=block, depth=depth)
    for block, depth, rate in (
        ("1m", "16", 9000),
        ("1m", "2", 4000),
        ("512b", "2", 5),
        ("4k", "2", 40),
        ("4k", "16", 400),
    )
]


def test_rows_and_columns_stand_by_size_and_each_cell_tells_its_share() -> None:
    (chart,) = drawn(SWEEP, {"fio.read_bw/ini1": 12.5e9})
    assert chart.title == "Sweep 'path': randread"
    assert [row[:2] for row in chart.rows] == [
        ("512b", "2"),
        ("4k", "2"),
        ("4k", "16"),
        ("1m", "2"),
        ("1m", "16"),
    ]
    assert chart.rows[-1][3] == "72.0 %"
    found = texts(chart)
    assert found[:2] == ["QD 2", "QD 16"]
    assert {"512 B", "4 KiB", "1 MiB", "72.0 %"} <= set(found)
    assert str(chart.svg).count("heat heat5") == 1, "the highest alone has the strongest colour"
    assert len([text for text in found if text.endswith(" %")]) == 5


def test_without_a_ceiling_it_says_so() -> None:
    (chart,) = drawn(SWEEP)
    assert "No ceiling of the path is known." in chart.note
    assert {row[3] for row in chart.rows} == {"no ceiling known"}


def test_each_pattern_direction_host_and_kind_has_a_table_of_its_own() -> None:
    both = [
        dataclasses.replace(each, labels={**each.labels, "pattern": "randrw"}, name=name)
        for each in SWEEP
        for name in ("fio.read_bw", "fio.write_bw")
    ]
    assert [chart.title for chart in drawn(both)] == [
        "Sweep 'path': randrw, its reads",
        "Sweep 'path': randrw, its writes",
    ]
    hosts = SWEEP + [dataclasses.replace(each, host="ini2") for each in SWEEP]
    assert [chart.title.rpartition(" ")[2] for chart in drawn(hosts)] == ["ini1", "ini2"]
    assert len({chart.id for chart in drawn(hosts)}) == 2
    buffered = SWEEP + [
        dataclasses.replace(each, labels={**each.labels, "buffered": "yes"}) for each in SWEEP
    ]
    titles = [chart.title for chart in drawn(buffered)]
    assert titles == ["Sweep 'path': randread", "Sweep 'path': randread, buffered yes"]


def test_kinds_of_data_are_the_sides_where_only_they_vary() -> None:
    taken = [
        cell(100, pattern="write", block_size="1m", depth="4", dedupe=dedupe, compress=compress)
        for dedupe in ("0", "80")
        for compress in ("0", "50")
    ]
    (chart,) = drawn(taken)
    assert texts(chart)[:3] == ["compress 0 %", "compress 50 %", "dedup 0 %"]
    assert chart.columns[:2] == ("Dedup", "Compress")


def test_one_cell_is_no_table_and_what_has_no_value_is_left_out() -> None:
    lost = dataclasses.replace(SWEEP[1], value=None, problem="fio died")
    assert drawn([SWEEP[0], lost]) == ()
    assert drawn([dataclasses.replace(each, labels={}) for each in SWEEP]) == ()


def test_hostile_labels_are_only_text() -> None:
    odd = "</text><script>x</script>"
    taken = [cell(1, block_size=odd, depth="1"), cell(2, block_size="4k", depth=odd)]
    (chart,) = drawn(taken)
    assert "<script" not in str(chart.svg)
    ET.fromstring(str(chart.svg))  # noqa: S314  made here
