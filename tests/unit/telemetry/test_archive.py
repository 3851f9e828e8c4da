from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvgate.errors import DamagedRunError, UsageError
from kvgate.telemetry.archive import Archive, Gap, has_telemetry

HOUR_MS = 1_796_083_200_000


@pytest.fixture
def site(told: Any) -> Any:
    """Return a run with 40 minutes of two hosts around the turn of an hour, with a gap."""
    rng = np.random.default_rng(4)
    start = HOUR_MS - 20 * 60_000
    told.truth = {"ini1": [], "ini2": []}
    told.now_s = start / 1000
    with told.recording() as record:
        for host, truth in told.truth.items():
            record.names(host, "fast", 1000, (("disk.a.reads", "c"), ("load.1min", "l100")))
            total = 0
            for n in range(590):
                t = start + 4000 * n + (60_000 if n > 400 else 0)
                step, level = int(rng.integers(0, 4000)), int(rng.integers(0, 300))
                total += step
                record.numbers(host, "fast", t, t - start, (total, level))
                truth.append((t / 1000, step, level / 100))
    return told


@pytest.fixture
def archive(site: Any) -> Archive:
    return Archive(site.path)


def brute(truth: list[tuple[float, int, float]], width: float) -> dict[float, list[float]]:
    found: dict[float, list[float]] = {}
    for t, _, level in truth:
        found.setdefault(t // width * width, []).append(level)
    return found


@pytest.mark.parametrize("most", [2, 5, 41, 300])
def test_points_are_what_a_plain_loop_finds_and_never_too_many(
    archive: Archive, site: Any, most: int
) -> None:
    line = archive.line("ini2", "load.1min", at_most=most)
    assert 1 <= len(line.points) <= most
    wanted = brute(site.truth["ini2"], line.width_s)
    assert [point.at for point in line.points] == sorted(wanted)
    for point in line.points:
        values = wanted[point.at]
        assert (point.low, point.high, point.count) == (min(values), max(values), len(values))
        assert point.mean == pytest.approx(sum(values) / len(values))


def test_a_window_is_told_by_samples_where_these_are_few(archive: Archive, site: Any) -> None:
    begin, end = HOUR_MS / 1000 - 60, HOUR_MS / 1000 + 60
    line = archive.line("ini1", "load.1min", begin, end, at_most=500)
    assert line.width_s == 0
    assert [(p.at, p.mean) for p in line.points] == [
        (t, level) for t, _, level in site.truth["ini1"] if begin <= t < end
    ]


def test_counters_are_rates_a_second_by_the_hosts_own_time(archive: Archive, site: Any) -> None:
    line = archive.line("ini1", "disk.a.reads", at_most=10**6)
    truth = site.truth["ini1"]
    assert line.points[0].mean == truth[1][1] / 4  # a sample every 4 s
    assert line.series.counter


def test_a_gap_is_no_nought(archive: Archive) -> None:
    whole = archive.line("ini1", "load.1min", at_most=10**6)
    assert whole.gaps == tuple(archive.gaps()["ini1"])  # four seconds are late for every second
    begin = max(archive.gaps("ini1")["ini1"], key=lambda gap: gap.end - gap.begin)
    assert begin.end - begin.begin == 64
    coarse = archive.line("ini1", "load.1min", at_most=300)
    assert coarse.width_s == 10
    assert all(point.count > 0 for point in coarse.points)
    assert any(gap.begin >= begin.begin and gap.end <= begin.end + 10 for gap in coarse.gaps)
    assert Gap(0, 1) not in coarse.gaps


def test_what_there_is_is_listed(archive: Archive, site: Any) -> None:
    assert [(each.host, each.name) for each in archive.series()] == [
        (host, name) for host in ("ini1", "ini2") for name in ("disk.a.reads", "load.1min")
    ]
    assert archive.span() == (site.truth["ini1"][0][0], site.truth["ini1"][-1][0])
    with pytest.raises(UsageError, match="no line"):
        archive.line("ini1", "load.1min", at_most=1)
    with pytest.raises(UsageError, match="ini1 has no series 'nothing'"):
        archive.line("ini1", "nothing")


def test_an_empty_run_has_none(tmp_path: Any) -> None:
    assert not has_telemetry(tmp_path)
    archive = Archive(tmp_path)
    assert (archive.series(), archive.span(), archive.gaps()) == ((), None, {})


def test_files_of_others_and_bytes_that_changed_are_named(site: Any) -> None:
    folder = site.path / "telemetry"
    victim = next(folder.glob("*.bins.parquet"))
    data = victim.read_bytes()
    victim.write_bytes(data[:-9])
    with pytest.raises(DamagedRunError, match="can't be read as telemetry"):
        Archive(site.path)
    victim.unlink()
    with pytest.raises(DamagedRunError, match="neither its log nor its bins"):
        Archive(site.path)
