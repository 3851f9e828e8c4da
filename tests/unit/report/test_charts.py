import dataclasses
import datetime
import re
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree as ET

import hypothesis
import pytest
from hypothesis import strategies as st

from kvgate.engine.workspace import frozen_setup
from kvgate.model.quantity import Quantity
from kvgate.model.record import Measurement, Value
from kvgate.report import bars, charts, series, strips, svg
from kvgate.report.sources import Sources
from kvgate.report.views import Chart

T0 = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
HOSTILE = "</text><script>x</script>\x1b\u202e"


def measured(
    name: str,
    value: Value | None,
    host: str = "ini1",
    problem: str = "",
    item: str = "",
    **labels: str,
) -> Measurement:
    return Measurement(
        name=name,
        value=value,
        host=host,
        phase="steady_state",
        taken_at=T0,
        labels=labels,
        problem=problem,
        item=item,
    )


def sources(sample: Any, taken: Sequence[Measurement], **changes: Any) -> Sources:
    run, result = sample
    setup = frozen_setup(run)
    run.taken = list(taken)
    for name, value in changes.items():
        setattr(run, name, value)
    return Sources.read(run, result, setup)


def texts(chart: Chart) -> list[str]:
    assert chart.svg is not None
    root = ET.fromstring(str(chart.svg))  # noqa: S314  made here
    assert not [element for element in root.iter() if element.tag.endswith("script")]
    return [element.text or "" for element in root.iter() if element.tag.endswith("}text")]


def mbps(number: float) -> Quantity:
    return Quantity.of(number, "MB/s")


def test_every_gate_with_charts_has_them(sample: Any) -> None:
    run, result = sample
    whole = Sources.read(run, result, frozen_setup(run))
    drawn = {
        gate: [chart.title for chart in charts.of_gate(gate, whole) if chart.svg]
        for gate in ("G1", "G2", "G3", "G4", "G9")
    }
    assert {gate: len(titles) for gate, titles in drawn.items()} == {
        "G1": 0,
        "G2": 3,
        "G3": 2,
        "G4": 1,
        "G9": 0,
    }


@pytest.mark.parametrize("gate", ["G2", "G3", "G4"])
def test_where_there_is_nothing_to_draw_the_chart_says_so(sample: Any, gate: str) -> None:
    for chart in charts.of_gate(gate, sources(sample, [], samples=[])):
        assert chart.svg is None
        assert chart.note.startswith("Nothing to draw: no measurement of")


def test_measurements_without_value_are_counted_not_drawn_as_zero(sample: Any) -> None:
    only = [measured("fio.read_bw", None, problem="fio died", job="kv-restore", round="1")]
    chart = charts.of_gate("G2", sources(sample, only))[0]
    assert chart.svg is None
    assert "1 measurement of fio.read_bw without a value" in chart.note
    both = [
        *only,
        measured("fio.read_bw", mbps(5), job="kv-restore", round="2"),
        measured("fio.read_bw", "five", job="kv-restore", round="3"),
        measured("fio.read_bw", Quantity.parse("5 ms"), job="kv-restore", round="4"),
    ]
    chart = charts.of_gate("G2", sources(sample, both))[0]
    assert "Measurements without a value: 3." in chart.note
    assert chart.rows == (("kv-restore", "5.00 MB/s", "5.00 MB/s", "limit ≥ 200 MB/s"),)


def test_a_bar_is_the_median_of_its_rounds_and_carries_unit_and_limit(sample: Any) -> None:
    taken = [
        measured("fio.read_bw", mbps(value), job="kv-restore", round=str(number))
        for number, value in enumerate((900, 1000, 1400))
    ]
    chart = charts.of_gate("G2", sources(sample, taken))[0]
    found = texts(chart)
    assert "1.00 GB/s" in found
    assert "GB/s" in found
    assert "limit ≥ 200 MB/s" in found
    assert str(chart.svg).count("<circle") == 3
    assert 'class="limit"' in str(chart.svg)


def test_measurements_of_another_gate_stay_out(sample: Any) -> None:
    mine = measured("fio.read_bw", mbps(1), job="kv-mixed", round="1")
    taken = [
        dataclasses.replace(mine, block="G2/fio/job=kv-mixed"),
        dataclasses.replace(mine, value=mbps(99), block="G4/soak/window=1"),
    ]
    chart = charts.of_gate("G2", sources(sample, taken))[0]
    assert [row[1] for row in chart.rows] == ["1.00 MB/s"]


def test_arms_stand_in_order_and_concurrency_by_value() -> None:
    taken = [
        measured("g3.ttft", Quantity.of(10, "ms"), arm=arm, concurrency=level, round="1")
        for arm in ("device", "local", "recompute", "odd")
        for level in ("16", "2", "")
    ]
    chart = strips.draw("x", "t", series.grouped(taken, "g3.ttft", "arm", "concurrency"))
    assert [row[0] for row in chart.rows[:4]] == ["recompute", "local", "device", "odd"]
    assert list(dict.fromkeys(row[1] for row in chart.rows)) == ["2", "16", ""]
    assert chart.wide


def test_values_far_apart_get_a_logarithmic_scale_and_say_so() -> None:
    taken = [
        measured("g3.ttft", Quantity.of(ms, "ms"), arm=arm, concurrency="8", round="1")
        for arm, ms in (("recompute", 9000), ("local", 12))
    ]
    chart = strips.draw("x", "t", series.grouped(taken, "g3.ttft", "arm", "concurrency"))
    assert "Logarithmic scale" in chart.note


def test_the_soak_shows_windows_fault_and_cpu_on_one_axis(sample: Any) -> None:
    run, result = sample
    chart = charts.of_gate("G4", Sources.read(run, result, frozen_setup(run)))[0]
    found = texts(chart)
    assert "engine killed on ini1: 9.3 s to its repair" in found
    assert "TTFT, median of each window, ms" in found
    assert "CPU busy, %" in found
    assert len(chart.rows) == 18
    assert chart.rows[3][1:2] == ("35",)


def test_a_step_of_the_clock_moves_no_fault(sample: Any) -> None:
    run, result = sample
    before = charts.of_gate("G4", Sources.read(run, result, frozen_setup(run)))[0]
    begun = next(each.seq for each in run.journal if each.kind == "fault_begin")
    hour = datetime.timedelta(hours=1)
    journal = [
        dataclasses.replace(each, utc=each.utc + hour) if each.seq > begun else each
        for each in run.journal
    ]
    stepped = charts.of_gate("G4", sources(sample, run.taken, journal=journal))[0]
    assert "engine killed on ini1: 9.3 s to its repair" in texts(stepped)
    assert [each for each in texts(stepped) if "engine killed" in each] == [
        each for each in texts(before) if "engine killed" in each
    ]


def test_a_soak_without_telemetry_or_repair_says_so(sample: Any) -> None:
    run, _ = sample
    journal = [event for event in run.journal if event.kind != "fault_repaired"]
    chart = charts.of_gate("G4", sources(sample, run.taken, samples=[], journal=journal))[0]
    assert "No telemetry of the CPU was recorded." in chart.note
    assert "engine killed on ini1: repair not proven" in texts(chart)


def test_odd_windows_and_samples_do_not_break_the_timeline(sample: Any) -> None:
    taken = [
        measured("soak.ttft_p50", Quantity.of(5, "ms"), item="0", window="0", state="normal"),
        measured("soak.ttft_p50", None, problem="engine away", item="1", window="1", state="fault"),
        measured("soak.ttft_p50", Quantity.of(1, "GB/s"), item="2", window="2", state="??"),
        measured("soak.ttft_p50", Quantity.of(5, "ms"), item="x", window="y", state=HOSTILE),
        measured("soak.other", "text", item="0", window="0"),
    ]
    samples: list[dict[str, Any]] = [
        {},
        {"utc": "never"},
        {"utc": 5},
        {"utc": T0.isoformat(), "cpu_busy_pct": None},
        {"utc": T0.isoformat(), "cpu_busy_pct": float("nan")},
        {"utc": T0.isoformat(), "cpu_busy_pct": True},
    ]
    chart = charts.of_gate("G4", sources(sample, taken, samples=samples))[0]
    assert [row[2] for row in chart.rows] == ["5.00 ms"]
    assert "3 window values missing" in chart.note


def test_windows_stand_where_they_ended_if_that_was_recorded(sample: Any) -> None:
    run, _ = sample
    begin = next(event for event in run.journal if event.fields.get("what") == "soak").utc
    taken = [
        dataclasses.replace(
            measured("soak.ttft_p50", Quantity.of(50, "ms"), window=str(number), state="normal"),
            taken_at=begin + datetime.timedelta(seconds=end),
        )
        for number, end in ((1, 12), (2, 22), (3, 61))  # the third waited for a repair
    ]
    chart = charts.of_gate("G4", sources(sample, taken))[0]
    assert [row[1] for row in chart.rows] == ["7", "17", "56"]


def test_windows_of_several_hosts_are_drawn_as_their_median(sample: Any) -> None:
    taken = [
        measured("soak.ttft_p50", Quantity.of(ms, "ms"), host=host, window="1", state="normal")
        for host, ms in (("a", 10), ("b", 20), ("c", 90))
    ]
    chart = charts.of_gate("G4", sources(sample, taken))[0]
    assert [row[2] for row in chart.rows] == ["20.0 ms"]
    assert "median of 3 hosts" in chart.note


def test_what_was_measured_while_preparing_is_not_drawn(sample: Any) -> None:
    cold = dataclasses.replace(
        measured("g3.ttft", Quantity.of(9, "s"), arm="local", concurrency="1", round="1"),
        phase="precondition",
    )
    assert charts.of_gate("G3", sources(sample, [cold]))[0].svg is None


def test_a_long_soak_is_thinned(sample: Any) -> None:
    taken = [
        measured(
            "soak.ttft_p50",
            Quantity.of(50 + n % 7, "ms"),
            item=str(n),
            window=str(n),
            state="normal",
        )
        for n in range(4320)
    ]
    samples = [
        {
            "utc": (T0 + datetime.timedelta(seconds=10 * n)).isoformat(),
            "host": f"h{n % 3}",
            "cpu_busy_pct": n % 100,
        }
        for n in range(4320)
    ]
    chart = charts.of_gate("G4", sources(sample, taken, samples=samples, journal=[]))[0]
    assert len(str(chart.svg)) < 40_000
    assert "CPU busy on 3 hosts, %" in texts(chart)
    assert "h since its start" in texts(chart)


LABELS = st.dictionaries(
    st.sampled_from(["job", "arm", "concurrency", "round"]), st.text(max_size=8) | st.just(HOSTILE)
)
VALUES = (
    st.none()
    | st.text(max_size=3)
    | st.booleans()
    | st.builds(
        Quantity.of, st.integers(-(10**12), 10**15), st.sampled_from(["B/s", "ns", "%", ""])
    )
)


@hypothesis.given(st.lists(st.tuples(VALUES, LABELS), max_size=30))
def test_any_measurements_give_sound_drawings(taken: list[tuple[Any, dict[str, str]]]) -> None:
    given = [
        measured("m", value, problem="" if value is not None else "none", **labels)
        for value, labels in taken
    ]
    by_job, by_arm = (
        series.grouped(given, "m", *labels) for labels in (("job",), ("arm", "concurrency"))
    )
    for chart in ([bars.draw("b", HOSTILE, by_job, {}, what="w")] if by_job.groups else []) + (
        [strips.draw("s", HOSTILE, by_arm)] if by_arm.groups else []
    ):
        texts(chart)
        assert not re.search(
            r"nan|inf(?!o)",
            re.sub(r"<title.*?</title>|<desc.*?</desc>|>[^<]*<", "", str(chart.svg)),
        )


@pytest.mark.parametrize(
    ("top", "ticks"),
    [(0.0, (0, 0.2, 0.4, 0.6, 0.8, 1.0)), (7, (0, 2, 4, 6, 8)), (1234, (0, 500, 1000, 1500))],
)
def test_axes_begin_at_zero_and_have_round_ticks(top: float, ticks: tuple[float, ...]) -> None:
    scale = svg.from_zero([top], 0, 100)
    assert scale.ticks() == pytest.approx(ticks)
    assert scale.high >= top


def test_every_drawing_is_named_and_described_for_those_who_do_not_see_it(sample: Any) -> None:
    run, result = sample
    whole = Sources.read(run, result, frozen_setup(run))
    for gate in ("G2", "G3", "G4"):
        for chart in charts.of_gate(gate, whole):
            root = ET.fromstring(str(chart.svg))  # noqa: S314  made here
            assert root.get("role") == "img"
            title, description = root[0], root[1]
            assert root.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
            assert title.text == chart.title
            assert re.search(r"\d", description.text or "")


def test_bars_tell_their_share_of_the_paths_ceiling(sample: Any) -> None:
    taken = [
        measured("fio.read_bw", mbps(10_650), job="kv-restore", round="1"),
        measured("path.read_ceiling", mbps(12_500)),
    ]
    chart = charts.of_gate("G2", sources(sample, taken))[0]
    assert "85.2 % of ceiling" in texts(chart)
    assert (chart.columns[-1], chart.rows[0][-1]) == ("Of ceiling", "85.2 %")


def test_where_no_ceiling_is_known_the_chart_says_why(sample: Any) -> None:
    taken = [
        measured("fio.read_bw", mbps(1800), job="kv-restore", round="1"),
        measured("path.read_ceiling", None, problem="vda is virtio"),
    ]
    chart = charts.of_gate("G2", sources(sample, taken))[0]
    assert not any("of ceiling" in text for text in texts(chart))
    assert "No ceiling of the path is known: vda is virtio." in chart.note
    assert chart.rows[0][-1] == "no ceiling known: vda is virtio"


def test_arms_have_bars_with_intervals_and_each_its_own_ceiling(sample: Any) -> None:
    taken = []
    for arm, rate in (("local", 5000), ("device", 9000)):
        taken += [
            measured("arms.read_bw", mbps(rate + 10 * at), job="kv-restore", arm=arm, round=str(at))
            for at in range(5)
        ]
    taken.append(measured("path.read_ceiling", mbps(12500), arm="device"))
    taken.append(measured("path.read_ceiling", None, problem="a virtual disk", arm="local"))
    taken.append(measured("path.read_ceiling", mbps(1)))
    chart = next(
        each for each in charts.of_gate("G2", sources(sample, taken)) if "arm" in each.title
    )
    assert [(row[0], row[4]) for row in chart.rows] == [
        ("kv-restore on device", "72.2 %"),
        ("kv-restore on local", "no ceiling known: a virtual disk"),
    ]
    assert str(chart.svg).count('class="interval"') == 2 * 3
    assert "thin line: 95 % interval of the mean over rounds" in chart.note


def test_the_cells_of_a_sweep_are_no_bars(sample: Any) -> None:
    taken = [
        measured("fio.read_bw", mbps(1), grid="path", pattern="read", block_size="4k", depth=depth)
        for depth in ("1", "8")
    ]
    found = charts.of_gate("G2", sources(sample, taken))
    assert [each.title for each in found if each.svg] == ["Sweep 'path': read"]


def test_each_path_has_its_share(sample: Any) -> None:
    taken = [
        measured("nvmeof.path_share", Quantity.of(share, "%"), item=f"array1/{path}", load="nvme")
        for path, share in (("a", 100), ("b", 0))
    ]
    found = {chart.id: chart for chart in charts.of_gate("G2", sources(sample, taken))}
    chart = found["g2-nvmeof-path-share"]
    assert chart.columns[0] == "Path"
    assert [row[:2] for row in chart.rows] == [
        ("array1/a on ini1", "100 %"),
        ("array1/b on ini1", "0 %"),
    ]
    assert "array1/b" in texts(chart)
    assert "g2-perftest-rate" not in found
