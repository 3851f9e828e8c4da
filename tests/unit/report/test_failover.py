"""The timeline of a fault: drawn from what was kept of it, harmless, and said in words too."""

import datetime
from types import SimpleNamespace

import pytest

from kvgate.errors import StoreError
from kvgate.model.record import Evidence, Measurement
from kvgate.report import failover
from kvgate.workloads.fio_logs import FETCH

NOW = datetime.datetime(2026, 12, 1, tzinfo=datetime.UTC)
BEGUN = "begun 10.00 s, proven 15.00 s, undone 20.00 s, repaired 23.00 s"
A, B = "traddr=10.77.1.1,trsvcid=4420,src_addr=10.77.1.2", "traddr=10.77.2.1,trsvcid=4420"


def line(at: float, state: str, address: str = A) -> str:
    paths = f"nvme3 tcp {address} {state} optimized 1 1 nvme4 tcp {B} live optimized 1 1"
    return f"kvgate-paths {at:.2f} {1000 + at:.3f} {paths}\n"


WATCHED = "".join(
    (
        line(5, "live"),
        line(15, "connecting", A.rpartition(",")[0]),
        line(22, "live"),
        line(30, "live"),
        "kvgate-paths 31",
    )
)
LOG = "== log_lat.1.log\n" + "".join(
    f"{1000 * (1000 + at)}, {ms}000000, 1, 4096, 0\n" for at, ms in ((6, 2), (11, 3), (16, 5010))
)
ACKS = "B 5.000\nA 1 1 6.000 0.001000\nA 2 1 11.000 0.002000\nA 1 2 17.500 6.100000\nD 18.000\n"
WATCH = ("sh", "-c", "…", "kvgate-paths", "…")


def piece(command: tuple[str, ...], text: str) -> Evidence:
    return Evidence(
        host="ini", command=command, exit_status=0, stdout=text.encode(), stderr=b"",
        started_at=NOW, ended_at=NOW,
    )  # fmt: skip


def charts(*pieces: Evidence | None, value: str = BEGUN):
    def evidence(ref: str) -> Evidence:
        found = pieces[int(ref)]
        if found is None:
            raise StoreError("gone")
        return found

    taken = Measurement(
        name=failover.MOMENTS, value=value, host="*", phase="fault", taken_at=NOW,
        labels={"fault": "cable-<a>", "kind": "link_down"},
        evidence=tuple(map(str, range(len(pieces)))),
    )  # fmt: skip
    sources = SimpleNamespace(run=SimpleNamespace(evidence=evidence))
    return list(failover.charts("G2", [taken], sources))


@pytest.mark.parametrize(
    ("load", "gap"),
    [(piece(("sh", "-c", FETCH, "sh", "x"), LOG), "5.00 s"), (piece(("python3",), ACKS), "6.50 s")],
)
def test_paths_ios_and_the_gap_are_drawn(load: Evidence, gap: str) -> None:
    [chart] = charts(piece(WATCH, WATCHED), load)
    assert chart.svg is not None
    assert "cable-&lt;a&gt; (link down)" in chart.svg
    assert f"no I/O for {gap}" in chart.svg
    assert f"without a completed I/O since then: {gap}." in chart.note
    assert chart.rows == (
        ("tcp 10.77.1.1:4420 from 10.77.1.2", "-5.00", "live, optimized"),
        ("tcp 10.77.1.1:4420 from 10.77.1.2", "5.00", "connecting, optimized"),
        ("tcp 10.77.1.1:4420 from 10.77.1.2", "12.00", "live, optimized"),
        ("tcp 10.77.2.1:4420", "-5.00", "live, optimized"),
    )


def test_silence_until_an_error_that_ended_the_writer_is_a_gap_too() -> None:
    acks = "B 5.000\nA 1 1 9.000 0.001000\nA 2 1 11.000 0.002000\nE 1 2 19.500 5\nD 20.000\n"
    [chart] = charts(piece(WATCH, WATCHED), piece(("python3",), acks))
    assert chart.svg is not None
    assert "no I/O for 8.50 s" in chart.svg
    assert "I/O error 9.5 s" in chart.svg
    assert chart.note.endswith("8.50 s. The first I/O error ended the load.")


@pytest.mark.parametrize(
    "pieces",
    [(), (None,), (piece(WATCH, "nonsense\n"),), (piece(("sh", "-c", FETCH), "== x\nbad\n"),)],
)
def test_evidence_that_can_not_be_read_is_said(pieces) -> None:
    [chart] = charts(*pieces)
    assert chart.svg is None
    assert "can't be read" in chart.note


def test_a_fault_without_ios_still_has_its_paths() -> None:
    [chart] = charts(piece(WATCH, WATCHED), piece(("sh", "-c", FETCH), "== x\nbad\n"))
    assert chart.svg is not None
    assert chart.note.endswith("No log of I/Os could be read.")


def test_times_of_another_form_draw_nothing() -> None:
    [chart] = charts(piece(WATCH, WATCHED), value="when it was")
    assert chart.svg is None
