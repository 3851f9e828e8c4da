"""What fio printed, read: every recorded form, and anything else an error."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fiopy import FioError, FioOutputError, Output, parse_output

from .conftest import RECORDED

Recorded = Callable[[str], bytes]


def read(recorded: Recorded, name: str, status: int) -> Output:
    return parse_output(
        recorded(f"fio-3.33_{name}.stdout"), recorded(f"fio-3.33_{name}.stderr"), status
    )


def test_of_several_documents_the_last_is_the_result(recorded: Recorded) -> None:
    output = parse_output(recorded("fio-3.33_status_interval.json"), b"", 0)
    assert output.documents == 5
    assert not output.failed
    (job,) = output.jobs
    assert job.write is None, "an idle direction is left out"
    assert job.read is not None
    assert job.read.runtime_ms == 3003
    assert job.read.clat is not None
    assert job.read.clat.percentile_ns(99) > job.read.clat.percentile_ns(50)  # type: ignore[operator]
    assert job.read.clat.percentile_ns(98.7) is None, "not asked for is not available"


def test_a_verification_that_held(recorded: Recorded) -> None:
    output = parse_output(recorded("fio-3.33_verify_ok.json"), b"", 0)
    assert (output.failed, output.errors, output.verify_failures) == (False, 0, ())


def test_failed_verifications_are_failures_even_at_exit_0(recorded: Recorded) -> None:
    output = read(recorded, "verify_continue", 0)
    assert output.failed
    assert (output.error, output.errors) == (84, 3)
    assert [(each.file, each.offset) for each in output.verify_failures] == [
        ("data/v", 196608),
        ("data/v", 327680),
        ("data/v", 589824),
    ]
    assert "verification failed on 3 block(s)" in output.why()


@pytest.mark.parametrize(
    ("name", "error", "why"),
    [
        ("verify_fatal", 84, "verification failed on 1 block"),
        ("engine_missing", None, "not loadable"),
        ("no_space", 28, "No space left on device"),
        ("bad_option", None, "not loadable"),
    ],
)
def test_a_failed_run_says_why(recorded: Recorded, name: str, error: int | None, why: str) -> None:
    output = read(recorded, name, 1)
    assert output.failed
    assert output.error == error
    assert why in output.why()


def test_an_interrupted_run_failed_although_its_json_says_error_0(recorded: Recorded) -> None:
    output = read(recorded, "interrupted", 128)
    assert (output.jobs[0].error, output.signal, output.failed) == (0, 2, True)
    unknown = parse_output(recorded("fio-3.33_interrupted.stdout"))
    assert unknown.failed, "its own word is enough where the exit status is not known"


def test_text_figures_are_marked_as_rounded(recorded: Recorded) -> None:
    output = parse_output(recorded("fio-3.33_text_randread.txt"), b"", 0)
    (job,) = output.jobs
    assert (output.rounded, output.failed, job.processes) == (True, False, 2)
    assert job.read is not None
    assert job.read.clat is not None
    assert job.read.clat.percentile_ns(99) is not None
    assert job.read.total_ios is not None
    assert output.disks


def document(**changes: object) -> dict[str, object]:
    moved = {"io_bytes": 4096, "bw": 4, "iops": 1.0, "runtime": 1000}
    job = {"jobname": "j", "error": 0, "read": moved | changes}
    return {"fio version": "fio-2.1", "jobs": [job]}


@pytest.mark.parametrize(
    ("version", "latency", "kbytes", "clat_ns", "total"),
    [
        ("fio-2.1", {"clat": {"mean": 5.0}}, {}, 5000, 4096 * 1024),
        ("fio-2.99", {"clat": {"mean": 5.0}}, {}, 5000, 4096 * 1024),
        ("fio-3.0", {"clat_ns": {"mean": 5.0, "N": 3}}, {"io_kbytes": 4}, 5, 4096),
        ("fio-3.41", {"clat_ns": {"mean": 5.0, "N": 0}}, {"io_kbytes": 4}, None, 4096),
    ],
)
def test_units_follow_key_and_version(
    version: str,
    latency: dict[str, object],
    kbytes: dict[str, object],
    clat_ns: float | None,
    total: int,
) -> None:
    said = document(**latency, **kbytes) | {"fio version": version}
    moved = parse_output(json.dumps(said).encode()).jobs[0].read
    assert moved is not None
    assert moved.bytes_per_s == 4096
    assert moved.total_bytes == total
    assert (moved.clat.mean_ns if moved.clat else None) == clat_ns
    assert moved.clat is None or moved.clat.percentile_ns(99) is None


@pytest.mark.parametrize(
    "change",
    [
        {"iops": None},
        {"iops": "N/A"},
        {"iops": -1},
        {"iops": 10**400},
        {"iops": float("nan")},
        {"runtime": True},
        {"bw": []},
        {"io_bytes": 1.5},
        {"clat": {"percentile": {"x": 1}}},
        {"clat": {"percentile": {"100.5": 1}}},
        {"clat": []},
    ],
)
def test_a_figure_of_unknown_form_is_an_error(change: dict[str, object]) -> None:
    with pytest.raises(FioOutputError):
        parse_output(json.dumps(document(**change)).encode())


@pytest.mark.parametrize("text", [b"", b"\n\n", b"hello", b'{"a": 1}', b"[1]", b"\xff\xfe"])
def test_what_is_not_of_fio_is_an_error(text: bytes) -> None:
    with pytest.raises(FioOutputError):
        parse_output(text, b"", 0)


def test_every_cut_of_a_document_is_an_error_or_the_whole(recorded: Recorded) -> None:
    """Cut at each byte, after a whole status document: never that one's figures as the result."""
    whole = recorded("fio-3.33_verify_ok.json")
    for cut in range(1, len(whole) - 2, 7):
        with pytest.raises(FioOutputError):
            parse_output(whole + whole[:cut], b"", 0)


def test_text_around_documents_is_kept_as_noise(recorded: Recorded) -> None:
    whole = recorded("fio-3.33_verify_ok.json")
    output = parse_output(b"note: a\n" + whole + b"between\n" + whole + b"\nafter\n", b"", 0)
    assert output.noise == ("note: a", "between", "after")
    assert (output.documents, output.failed) == (2, False)


def test_the_jobs_of_several_servers_are_told_apart(recorded: Recorded) -> None:
    output = parse_output(recorded("fio-3.33_client_two.stdout"), b"", 0)
    assert sorted(job.client or "" for job in output.jobs) == ["127.0.0.1:9765", "127.0.0.1:9766"]
    assert [job.name for job in output.jobs] == ["kv-restore"] * 2, "fio's own sum is no job"
    total = output.total("read")
    assert total is not None
    assert total.total_bytes == 677_052_416
    assert not output.failed
    assert not parse_output(b'{"fio version": "fio-3.33", "client_stats": []}').jobs


def test_a_job_that_was_killed_is_no_measurement(recorded: Recorded) -> None:
    whole = recorded("fio-3.33_verify_ok.json")
    output = parse_output(whole, b"fio: pid=12, got signal=9\n", 0)
    assert (output.failed, output.killed) == (True, 9)
    assert output.why() == "a job's process was killed by signal 9"


SAMPLES = sorted(p.read_bytes() for p in RECORDED.iterdir() if p.stat().st_size)


@given(
    st.sampled_from(SAMPLES),
    st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 3), st.binary(max_size=12)),
        min_size=1,
        max_size=6,
    ),
    st.none() | st.integers(0, 255),
)
@settings(max_examples=150)
def test_mutated_outputs_raise_only_our_family(
    sample: bytes, edits: list[tuple[float, int, bytes]], status: int | None
) -> None:
    text = bytearray(sample)
    for place, kind, new in edits:
        at = int(place * len(text))
        if kind == 0:
            text[at:at] = new
        elif kind == 1:
            del text[at : at + len(new) * 20]
        elif kind == 2:
            text[at : at + len(new)] = new
        else:
            del text[at:]
            text += new
    try:
        output = parse_output(bytes(text), b"", status)
    except FioError:
        return
    assert isinstance(output.failed, bool)
    assert output.why() or not output.failed


def test_deep_and_large_input_is_refused_quickly() -> None:
    for text in (b'{"fio version": ' + b"[" * 200_000, b'{"fio version": ' + b"9" * 100_000 + b"}"):
        with pytest.raises(FioOutputError):
            parse_output(text)


@pytest.mark.parametrize("word", [b"x", b"verify: bad ", b"verify: bad a at file ", b"/", b"<"])
def test_lines_without_end_are_read_in_one_pass(word: bytes) -> None:
    """A line of 4 MB took hours where each place of it was searched to its end."""
    whole = json.dumps(document()).encode()
    output = parse_output(word * (2**22 // len(word)) + b"\n" + whole)
    assert len(output.jobs) == 1
