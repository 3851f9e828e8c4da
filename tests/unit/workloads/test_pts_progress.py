"""How far SNIA's tests have come by what was recorded: ended, interrupted, begun anew."""

from __future__ import annotations

import datetime
from fractions import Fraction

import pytest

from kvgate.model.quantity import Quantity
from kvgate.model.record import Measurement
from kvgate.spec.pts import PtsWorkload
from kvgate.workloads import pts, pts_progress
from kvgate.workloads.pts import Loop

START = datetime.datetime(2026, 12, 31, 23, 59, tzinfo=datetime.UTC)


def loop_of(name: str) -> Loop:
    asked = PtsWorkload.model_validate(
        {
            "tests": ["iops", "throughput", "latency", "saturation"],
            "profile": "full",
            "serials": ["S1"],
            "purge": "format",
        }
    )
    return next(each for each in pts.loops(asked) if each.name == name)


class Record:
    """Measurements as a run of the suite leaves them, a minute apart."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.taken: list[Measurement] = []
        self.now = START

    def add(self, name: str, value: Quantity | str | None, series: int = 1, **labels: str) -> None:
        self.taken.append(
            Measurement(
                name=name,
                value=value,
                problem="" if value is not None else "fio moved nothing",
                host=labels.pop("host", "ini1"),
                phase="precondition",
                taken_at=self.now,
                evidence=(f"{len(self.taken):064d}",),
                labels={
                    "test": self.loop.name,
                    "device": "S1",
                    "series": str(series),
                    **labels,
                },
            )
        )

    def round(self, number: int, value: float | None, series: int = 1) -> None:
        self.now += datetime.timedelta(minutes=1)
        for point in self.loop.points:
            unit = {"pts.iops": "IOPS", "pts.bw": "MB/s", "pts.lat_mean": "ms"}[self.loop.measure]
            taken = None if value is None else Quantity.of(value, unit)
            self.add(self.loop.measure, taken, series, round=str(number), **point.labels)
            self.add(
                "pts.written", Quantity.of(10**9, "B"), series, round=str(number), **point.labels
            )

    def known(self) -> pts_progress.Progress:
        return pts_progress.so_far(self.taken, self.loop, "ini1", "S1")

    def why(self, most_rounds: int = 25) -> str:
        return pts_progress.ended(
            self.loop, self.known(), most_rounds=most_rounds, saturation=(3, 100 * 10**9)
        )


def test_rounds_go_on_until_steady_and_no_further() -> None:
    record = Record(loop_of("latency"))
    assert record.known().series == 0
    record.add("pts.purge", "NVMe format")
    assert (record.known().series, record.known().rounds) == (1, ())
    for number, value in enumerate((9, 5, 2, 2, 2, 2), 1):
        record.round(number, value)
        assert record.why() == ""
    record.round(7, 2)
    assert record.why() == "steady after round 7"
    results = {
        (each.reading.name, *each.labels.values()): each.reading.value
        for each in pts_progress.results(record.loop, record.known(), record.why())
    }
    assert results["pts.steady",] is True
    assert results["pts.rounds",] == Quantity.of(7, "")
    assert results["pts.spread", "0/100", "4 KiB"] == Quantity.of(0, "%")
    figures = list(pts_progress.figures(record.loop, record.known(), record.taken))
    assert {each.reading.name for each in figures} == {"pts.lat_mean"}
    assert all(each.reading.value == Quantity.of(2, "ms") for each in figures)
    assert len(figures) == 9
    cited = pts_progress.cited(record.loop, record.known(), record.taken)
    assert len(cited) == 5


def test_not_steady_is_a_reason_and_no_value() -> None:
    record = Record(loop_of("throughput-128k"))
    for number in range(1, 26):
        assert record.why() == ""
        record.round(number, 2**number)
    assert record.why() == "not steady after 25 rounds"
    steady = next(pts_progress.results(record.loop, record.known(), record.why()))
    assert (steady.reading.value, steady.reading.problem) == (None, "not steady after 25 rounds")
    early = Record(loop_of("throughput-128k"))
    for number in range(1, 7):
        early.round(number, 2**number)
    assert early.why(most_rounds=6) == "not steady after 6 rounds"


def test_a_tracked_value_that_is_missing_ends_the_test_undecided() -> None:
    record = Record(loop_of("latency"))
    for number in range(1, 4):
        record.round(number, 5)
    record.round(4, None)
    assert record.why() == "round 4: fio moved nothing"
    steady = next(pts_progress.results(record.loop, record.known(), record.why()))
    assert (steady.reading.value, steady.reading.problem) == (None, "round 4: fio moved nothing")
    assert list(pts_progress.figures(record.loop, record.known(), record.taken)) == []


def test_saturation_ends_by_rounds_or_bytes() -> None:
    record = Record(loop_of("saturation"))
    for number in (1, 2, 3):
        assert record.why() == ""
        record.round(number, 100)
    assert record.why() == "3 rounds, as planned"
    assert record.known().written == 3 * 10**9
    record.add("pts.written", Quantity.of(97 * 10**9, "B"), round="3")
    assert "four times the active range" in record.why()
    assert list(pts_progress.results(record.loop, record.known(), record.why())) == []


def test_only_the_newest_series_of_this_target_counts() -> None:
    record = Record(loop_of("latency"))
    for number in range(1, 4):
        record.round(number, 100)
    record.add("pts.purge", "NVMe format", series=2)
    record.round(1, 7, series=2)
    record.add("pts.lat_mean", Quantity.of(1, "ms"), series=3, host="ini2")
    known = record.known()
    assert (known.series, len(known.rounds)) == (2, 1)
    assert set(known.rounds[0].values()) == {Fraction(7, 1000)}


@pytest.mark.parametrize(
    ("after_s", "survives", "says"),
    [
        (0, True, ""),
        (599, True, ""),
        (600, True, ""),
        (601, True, "601 s passed since its last round, more than 600 s"),
        (-5, True, "the clock went backwards"),
        (5, False, pts_progress.GONE),
    ],
)
def test_an_interruption_of_some_length_begins_a_new_series(
    after_s: float, survives: bool, says: str
) -> None:
    record = Record(loop_of("latency"))
    now = START + datetime.timedelta(seconds=after_s)
    assert pts_progress.why_again(record.known(), now, most_gap_s=600, survives=survives) == ""
    record.add("pts.purge", "NVMe format")
    why = pts_progress.why_again(record.known(), now, most_gap_s=600, survives=survives)
    assert why.startswith(says) if says else why == ""
