"""Job files: written and read back the same, nothing unknown taken, nothing broken out of."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from fiopy import FioError, FioJobError, Job, Pattern, jobs_text, parse_jobs
from fiopy.job import OPTIONS
from fiopy.options import Option

ODD = st.characters(codec="utf-8", exclude_categories=["Cc"], exclude_characters="#;$\\[]\"'`")
NAMES = st.text(ODD, min_size=1, max_size=40)
PATHS = st.text(ODD, min_size=1, max_size=60)


def values(option: Option) -> st.SearchStrategy[object]:
    """Return values of an option's kind within its bounds; texts may be refused all the same."""
    if option.name == "rw":
        return st.sampled_from(list(Pattern))
    whole = st.integers(int(option.least), int(min(option.most, 2**40)))
    return {
        "flag": st.booleans(),
        "int": whole,
        "bytes": whole | whole.map(lambda size: size // 512 * 512),
        "seconds": st.integers(0, 10**6).map(lambda ms: ms / 1000),
        "text": st.sampled_from(["libaio", "psync", "libhipfile", "libcufile", "some_engine"]),
        "path": PATHS,
        "choice": st.sampled_from(option.choices or ("none",)),
        "prefix": PATHS.map(lambda text: text.replace(":", "")),
        "cpus": st.from_regex(r"[0-9]{1,2}(-[0-9]{1,3})?(,[0-9]{1,2})?", fullmatch=True),
        "gpus": st.from_regex(r"[0-9](:[0-9]){0,2}", fullmatch=True),
        "percentiles": st.lists(st.floats(0.001, 100), min_size=1, max_size=5).map(tuple),
    }[option.kind]


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    """Return a valid job: values that contradict others, or are refused, are left out."""
    options = {"pattern": Pattern.READ, "filename": "/s/f", "size_bytes": 2**33}
    chosen = draw(st.sets(st.sampled_from(sorted(OPTIONS)), max_size=24))
    options |= {field: draw(values(OPTIONS[field])) for field in sorted(chosen)}
    name = draw(NAMES)
    while True:
        try:
            return Job(name=name, **options)  # type: ignore[arg-type]
        except FioJobError as err:
            if err.option == "name":
                name = "j"
            elif err.option in ("pattern", "filename", "size_bytes") or err.option not in options:
                return Job(name=name, pattern=Pattern.READ, filename="/s/f", size_bytes=2**33)
            else:
                del options[err.option]


@given(st.lists(jobs(), min_size=1, max_size=2))
@settings(max_examples=60)
def test_what_is_written_is_read_back_the_same(drawn: list[Job]) -> None:
    text = jobs_text(drawn)
    assert parse_jobs(text) == tuple(drawn)
    assert text.count("\n[") + 1 == len(drawn), "a value broke out into a section"


@pytest.mark.parametrize("field", sorted(OPTIONS))
@given(st.data())
@settings(max_examples=8)
def test_every_value_of_every_option_is_read_back(field: str, data: st.DataObject) -> None:
    """Each option alone, beside what it needs: none is left to chance."""
    needs: dict[str, object] = {
        "pattern": Pattern.RANDRW,
        "filename": "/s/f",
        "size_bytes": 2**40,
        "io_size_bytes": 2**33,
        **NEEDS.get(field, {}),
    }
    value = data.draw(values(OPTIONS[field]))
    try:
        job = Job(name="j", **(needs | {field: value}))  # type: ignore[arg-type]
    except FioJobError:
        reject()  # an option whose every value is refused fails here
    assert parse_jobs(jobs_text([job])) == (job,)


NEEDS: dict[str, dict[str, object]] = {
    "rocm_io": {"engine": "libhipfile", "direct": True},
    "cuda_io": {"engine": "libcufile", "direct": True},
    "gpus": {"engine": "libcufile", "direct": True},
    "directory": {"filename": None},
    "time_based": {"runtime_s": 5},
    "compress_chunk_bytes": {"compress_pct": 50},
    "log_every_ms": {"latency_log": "/s/l"},
    "log_maximum": {"latency_log": "/s/l", "log_every_ms": 100},
    "log_offset": {"latency_log": "/s/l"},
    "histogram_log": {"histogram_every_ms": 250},
    "histogram_every_ms": {"histogram_log": "/s/l"},
    "histogram_coarseness": {"histogram_log": "/s/l", "histogram_every_ms": 250},
    "do_verify": {"verify": "md5", "pattern": Pattern.WRITE},
    "verify": {"pattern": Pattern.WRITE},
    "verify_fatal": {"verify": "md5", "pattern": Pattern.WRITE},
    "verify_backlog": {"verify": "md5", "pattern": Pattern.WRITE},
    "save_verify_state": {"verify": "md5", "pattern": Pattern.WRITE},
}
"""What an option means nothing without."""


@given(st.text(max_size=300) | st.from_regex(r"\[j\]\n([a-z_]{1,12}=[^\n]{0,12}\n){0,6}"))
@settings(max_examples=100)
def test_any_text_is_jobs_or_a_fio_error(text: str) -> None:
    try:
        found = parse_jobs(text)
    except FioError:
        return
    assert found


def test_sections_defaults_comments_and_sizes() -> None:
    text = (
        "# why\n[global]\nbs=8k ; small\ndirect=1\nfilename=/s/f\n\n"
        "[a]\nsize=1m\nreadwrite=rw\nruntime=1500ms\n[b]\nsize=1g\nstonewall\nbs=512\n"
    )
    a, b = parse_jobs(text)
    assert (a.block_bytes, a.size_bytes, a.pattern) == (8192, 2**20, Pattern.READWRITE)
    assert (a.runtime_s, a.direct, a.wait_for_earlier) == (1.5, True, None)
    assert (b.block_bytes, b.size_bytes, b.pattern) == (512, 2**30, Pattern.READ)
    assert b.wait_for_earlier is True


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("iodeph=3", "did you mean 'iodepth'"),
        ("bs=4KiB", "not a plain number"),
        ("exec_prerun=rm -rf x", "not one that fiopy knows"),
        ("direct=yes", "neither 0 nor 1"),
        ("rw=trim", "not one of"),
        ("filename=/a:/b", "names several files"),
        ("bs=", "no value"),
        ("runtime=soon", "not a time"),
        ("percentile_list=a:b", "no list"),
        ("iodepth=4k", "not a plain number"),
        ("[half", "no section"),
    ],
)
def test_what_is_not_known_is_refused_with_its_line(line: str, says: str) -> None:
    with pytest.raises(FioJobError) as err:
        parse_jobs(f"[j]\nfilename=/s/f\nsize=4096\n{line}\n")
    assert says in str(err.value)
    assert "line 4" in str(err.value)


@pytest.mark.parametrize("text", ["", "rw=read\n", "[global]\nrw=read\n"])
def test_no_jobs_is_an_error(text: str) -> None:
    with pytest.raises(FioJobError):
        parse_jobs(text)
    with pytest.raises(FioJobError):
        jobs_text([])


@pytest.mark.parametrize("line", ["include other.fio", "include\tother.fio"])
def test_included_files_are_refused(line: str) -> None:
    with pytest.raises(FioJobError, match="line 2"):
        parse_jobs(f"[j]\n{line}\nfilename=/s/f\nsize=4096\n")


def test_an_error_names_job_option_value_and_what_is_allowed() -> None:
    with pytest.raises(FioJobError) as err:
        parse_jobs("[g]\nrw=read\nfilename=/s/f\nsize=4096\niodepth=0\n")
    told = err.value
    assert (told.job, told.option, told.value) == ("g", "queue_depth", 0)
    assert told.allowed == "a whole number from 1 to 65536"
    with pytest.raises(FioJobError) as err:
        parse_jobs("[g]\niodeph=3\n")
    assert (err.value.option, err.value.value) == ("iodeph", "3")
    assert "iodepth" in err.value.allowed


CONTRADICTORY = ("directory", "zero_buffers", "rate_iops", "log_offset")
"""Taken in a job of their own: they contradict others."""
OF_AN_ENGINE = {field for field, option in OPTIONS.items() if option.engine}
"""Known only to a fio that was built with that engine."""


def one_of_each(folder: Path) -> list[Job]:
    """Return jobs that use every option of this fio once."""
    one = {
        "flag": True,
        "int": 5,
        "bytes": 65536,
        "seconds": 1.5,
        "path": str(folder / "a:b"),
        "prefix": str(folder / "log"),
        "cpus": "0",
        "percentiles": (50.0, 99.9),
    }
    special = {
        "engine": "psync",
        "verify": "md5",
        "do_verify": False,
        "fallocate": "none",
        "queue_depth": 1,
        "continue_on_error": "verify",
        "pattern": Pattern.RANDRW,
        "no_random_map": None,
        "time_based": None,
        "jobs": 1,
    }
    options = {
        field: special.get(field, one.get(option.kind))
        for field, option in OPTIONS.items()
        if field not in OF_AN_ENGINE and field not in CONTRADICTORY
    }
    rest: dict[str, object] = {field: one[OPTIONS[field].kind] for field in CONTRADICTORY}
    rest |= {
        "pattern": Pattern.RANDRW,
        "directory": str(folder),
        "size_bytes": 65536,
        "runtime_s": 1,
        "time_based": True,
        "no_random_map": True,
        "iops_log": str(folder / "log"),
    }
    return [Job(name="all", **options), Job(name="rest", **rest)]  # type: ignore[arg-type]


@pytest.mark.fio
def test_fio_takes_every_option_that_we_write(fio: str, tmp_path: Path) -> None:
    """Write each option once and let fio say what it understood (--parse-only)."""
    jobs = one_of_each(tmp_path)
    unused = {each for each in OPTIONS if not any(getattr(job, each) is not None for job in jobs)}
    assert unused == OF_AN_ENGINE
    path = tmp_path / "all.fio"
    path.write_text(jobs_text(jobs))
    assert parse_jobs(path.read_text()) == tuple(jobs)
    done = subprocess.run(
        [fio, "--parse-only", str(path)], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.fio
def test_a_colon_in_a_file_name_stays_one_file(fio: str, tmp_path: Path) -> None:
    job = Job(name="c", pattern=Pattern.WRITE, filename=str(tmp_path / "a:b"), size_bytes=4096)
    path = tmp_path / "c.fio"
    path.write_text(jobs_text([job]))
    done = subprocess.run(
        [fio, "--output-format=json", str(path)], capture_output=True, timeout=30, check=True
    )
    assert json.loads(done.stdout)["jobs"][0]["write"]["io_bytes"] == 4096
    assert (tmp_path / "a:b").stat().st_size == 4096


def test_jobs_are_frozen() -> None:
    job = Job(name="j", pattern=Pattern.READ, filename="/s/f", size_bytes=1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        job.name = "k"  # type: ignore[misc]
