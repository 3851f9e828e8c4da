"""Logs: every form of a line, figures over time, gaps; what is damaged does not get through."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fiopy import (
    Course,
    FioError,
    FioOutputError,
    Job,
    LocalRunner,
    Pattern,
    Version,
    course,
    from_file,
    histograms,
    log_files,
    remove_logs,
    run,
)


def told(*logs: bytes, **options: object) -> Course:
    return course([[log] for log in logs], **options)  # type: ignore[arg-type]


def lines(*rows: str) -> bytes:
    return "".join(f"{row}\n" for row in rows).encode()


@pytest.mark.parametrize(
    ("rows", "most", "averaged"),
    [
        pytest.param(["5, 100, 0, 4096", "6, 300, 1, 4096"], 300, False, id="2.x"),
        pytest.param(
            ["5, 100, 0, 4096, 8192", "6, 300, 1, 4096, 4096"], 300, False, id="2.x-offset"
        ),
        pytest.param(["5, 100, 0, 4096, 0", "6, 300, 1, 4096, 1"], 300, False, id="3.x"),
        pytest.param(
            ["5, 100, 0, 4096, 8192, 0", "6, 300, 1, 4096, 0, 0"], 300, False, id="3.x-offset"
        ),
        pytest.param(["5, 100, 0, 4096, 0x0000", "6, 300, 1, 4096, 0x4002"], 300, False, id="prio"),
        pytest.param(
            ["5, 100, 0, 4096, 8192, 0x0000", "6, 300, 1, 4096, 0, 0x00ff"], 300, False, id="both"
        ),
        pytest.param(
            ["5, 100, 0, 4096, 8192, 0, 99999", "6, 300, 1, 4096, 0, 0, 99999"],
            300,
            False,
            id="issue-time",
        ),
        pytest.param(["5, 100, 0, 0, 0", "105, 300, 1, 0, 0"], 300, True, id="averages"),
        pytest.param(["5, 100, 170, 0, 0, 0", "105, 300, 950, 1, 0, 0"], 950, True, id="maximum"),
    ],
)
def test_every_form_of_a_line(rows: list[str], most: int, averaged: bool) -> None:
    found = told(lines(*rows))
    assert found.averaged is averaged
    assert found.figures["read"].mean == 100
    assert found.figures["write"].mean == 300
    assert max(each.most for each in found.figures.values()) == most
    assert found.samples == 2


@pytest.mark.parametrize(
    ("kind", "version", "unit", "value"),
    [
        ("lat", None, "ns", 7),
        ("lat", "fio-3.33", "ns", 7),
        ("lat", "fio-2.21", "ns", 7000),
        ("bw", None, "B/s", 7168),
        ("iops", None, "IOPS", 7),
    ],
)
def test_units_by_kind_and_version(kind: str, version: str | None, unit: str, value: int) -> None:
    found = told(
        lines("1, 7, 0, 4096, 0"),
        kind=kind,
        version=Version.parse(version) if version else None,
    )
    assert found.unit == unit
    assert found.figures["read"].most == value
    with pytest.raises(ValueError, match="no kind"):
        told(b"", kind="lattice")


def test_windows_percentiles_and_gaps_of_two_jobs() -> None:
    one = lines(*(f"{at}, {1000 + at}, 0, 4096, 0" for at in range(0, 1000)))
    two = lines(*(f"{at}, 5, 0, 4096, 0" for at in range(900, 3000, 2) if not 1500 < at < 2700))
    found = told(one, two, window_s=1)
    assert [window.begin_ms for window in found.windows] == [0, 1000, 2000]
    assert found.gaps["all"][0].length_ms == 1200
    assert found.gaps["all"][0].begin_ms == 1500
    first = {each.percent: each for each in found.windows[0].figures["read"].percentiles}
    assert first[99].ns is not None
    assert 1980 <= first[99].ns <= 1999 * (1 + 1 / 64)
    last = {each.percent: each for each in found.windows[2].figures["read"].percentiles}
    assert last[50].ns == 5
    assert last[99.9].ns is None
    assert "takes 1000 latencies; there are 150" in last[99.9].because


def test_averages_have_no_percentiles_and_gaps_only_to_their_window() -> None:
    found = told(lines(*(f"{at * 100}, {at + 1}, 0, 0, 0" for at in range(200) if at != 60)))
    assert (found.averaged, found.resolution_ms) == (True, 100)
    assert found.gaps["all"][0].length_ms == 200
    assert all(
        "percentile of averages" in each.because for each in found.figures["read"].percentiles
    )
    assert all(each.ns is None for each in found.figures["read"].percentiles)


def test_a_log_that_is_not_in_order_is_told_the_same() -> None:
    rows = [f"{at * 7}, {at}, {at % 2}, 4096, 0" for at in range(3000)]
    mixed = rows[:]
    random.Random(3).shuffle(mixed)  # noqa: S311  not for secrets
    assert told(lines(*rows), window_s=2) == told(lines(*mixed), window_s=2)


@given(st.integers(1, 40), st.integers(1, 200))
@settings(max_examples=60, deadline=None)
def test_pieces_of_any_size_tell_the_same(size: int, count: int) -> None:
    log = lines(*(f"{at * 3}, {at * 11 % 97}, {at % 3}, 512, 0" for at in range(count)))
    pieces = [log[at : at + size] for at in range(0, len(log), size)]
    assert course([pieces]) == told(log)


@pytest.mark.parametrize(
    ("log", "says"),
    [
        (b"", "log 1 is empty"),
        (b"5, 1, 0, 4096, 0\n6, 1, 0, 40", "line 2: .* is cut"),
        (b"5, 1, 0, 4096, 0\n6, 1, 0, 4096\n", "log 1"),
        (b"hello\n", "does not begin as a log"),
        (b"5, 1, 7, 4096, 0\n", "is the direction"),
        (b"5, -1, 0, 4096, 0\n", "line 1: b'5, -1"),
        (b"5, 1, 0, 0, 0\n6, 1, 0, 4096, 0\n", "can't be told together"),
        (b"1, 1, 0, 1, 0\n" * 600 + b"1, 1, 3, 1, 0\n", "line 601"),
        (b"1, 1, 0, 1, 0\n" * 600 + b"1, 1, 0, 1\n1, 1, 0, 1, 0, 0\n", "line 601"),
        (b"9" * 200_000, "longer than any line"),
        (b"1, 1, 0, 1, 0\n" * 600 + b"1, , 0, 1, 0\n", "line 601"),
    ],
)
def test_what_is_no_whole_log_is_refused_with_its_line(log: bytes, says: str) -> None:
    with pytest.raises(FioOutputError, match=says):
        told(log)
    with pytest.raises(FioOutputError):
        course([])


@given(st.integers(0, 10_000), st.binary(max_size=4), st.sampled_from(["cut", "insert", "replace"]))
@settings(max_examples=300, deadline=None)
def test_a_mutated_log_is_read_or_refused_never_a_crash(at: int, junk: bytes, how: str) -> None:
    whole = lines(*(f"{n}, {n * 17 % 4096}, {n % 2}, 4096, 0" for n in range(120)))
    at %= len(whole)
    log = {
        "cut": whole[:at],
        "insert": whole[:at] + junk + whole[at:],
        "replace": whole[:at] + junk + whole[at + len(junk) :],
    }[how]
    for read in (told, lambda text: histograms([[text]])):
        try:
            found = read(log)
        except FioError:
            continue
        assert found.samples > 0


def histogram(time_ms: int, direction: int, counts: dict[int, int], columns: int = 1856) -> str:
    row = [counts.get(at, 0) for at in range(columns)]
    return ", ".join(map(str, (time_ms, direction, 4096, *row)))


def test_histograms_of_jobs_are_added_and_carry_percentiles() -> None:
    one = lines(histogram(500, 0, {100: 60}), histogram(1000, 0, {100: 30, 1000: 9}))
    two = lines(histogram(500, 0, {50: 1}), histogram(1001, 1, {3: 1}))
    found = histograms([[one], [two]], window_s=1, percents=(50, 99))
    assert found.samples == 101
    whole = {each.percent: each for each in found.whole["read"].percentiles}
    assert whole[50].ns == 100
    assert found.whole["read"].samples == 100
    assert whole[99].ns is not None
    assert whole[99].ns > 100
    assert found.whole["write"].percentiles[0].ns is None
    assert [begin for begin, _ in found.windows] == [0, 1000]


@pytest.mark.parametrize(
    ("log", "says"),
    [
        (b"", "log 1 is empty"),
        (b"1, 0, 4096, 1, 2\n", "2 bins is none of fio's"),
        (lines(histogram(1, 3, {})), "3 is no direction"),
        (lines(histogram(1, 0, {}), histogram(1, 0, {}, 928)), "line 2"),
        (b"1, 0\n", "no line of a histogram"),
        (lines(histogram(1, 0, {}))[:-9], "cut"),
    ],
)
def test_what_is_no_histogram_log_is_refused(log: bytes, says: str) -> None:
    with pytest.raises(FioOutputError, match=says):
        histograms([[log]])


@pytest.mark.fio
def test_the_logs_of_a_real_fio(tmp_path: Path) -> None:
    """Histogram log, latency log and fio's own result tell the same run."""
    job = Job(
        name="logged",
        pattern=Pattern.RANDRW,
        filename=str(tmp_path / "f"),
        block_bytes=16384,
        size_bytes=2**22,
        runtime_s=1.5,
        time_based=True,
        threads=True,
        jobs=2,
        latency_log=str(tmp_path / "l"),
        iops_log=str(tmp_path / "l"),
        histogram_log=str(tmp_path / "h"),
        histogram_every_ms=300,
        histogram_coarseness=2,
        log_offset=True,
        log_since_1970=True,
    )
    done = run([job], LocalRunner(), folder=str(tmp_path), deadline_s=60)
    assert done.output is not None
    version = done.output.version
    paths = log_files([job], "clat")
    assert len(paths) == 2
    found = course(map(from_file, paths), version=version, window_s=1)
    for direction in ("read", "write"):
        moved = [each for each in map(lambda job: job.moved(direction), done.output.jobs) if each]
        ios = sum(each.total_ios or 0 for each in moved)
        assert found.figures[direction].samples == ios
        assert found.figures[direction].most == max(each.clat.max_ns for each in moved if each.clat)
        spread = histograms(map(from_file, log_files([job], "clat_hist")), percents=(50,))
        assert 0.5 * ios < spread.whole[direction].samples <= ios
        here, there = found.figures[direction].percentiles[0].ns, spread.whole[direction]
        assert here is not None
        assert there.percentiles[0].ns is not None
        assert 0.3 < there.percentiles[0].ns / here < 3
    iops = course(map(from_file, log_files([job], "iops")), kind="iops")
    assert iops.unit == "IOPS"
    assert remove_logs([job], LocalRunner()) == ()
    assert [each.name for each in tmp_path.iterdir()] == ["f"]


def test_the_names_of_logs() -> None:
    def job(**options: object) -> Job:
        return Job(  # type: ignore[arg-type]
            name="j", pattern=Pattern.READ, filename="/s/f", size_bytes=4096, **options
        )

    jobs = [job(jobs=2), job(latency_log="/l/x"), job(latency_log="/l/y", log_each_job=False)]
    assert log_files(jobs, "lat") == ("/l/x_lat.3.log", "/l/y_lat.log")
    assert log_files(jobs, "bw") == ()
    with pytest.raises(ValueError, match="no kind of log"):
        log_files(jobs, "flat")


def test_a_file_is_read_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"1, 1, 0, 1, 0\n" * 200_000)
    assert len(list(from_file(path))) == 3
    assert b"".join(from_file(io.BytesIO(b"abc"))) == b"abc"
