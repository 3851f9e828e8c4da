"""A Job refuses what fio would not take as meant."""

from __future__ import annotations

import pytest

from fiopy import FioJobError, Job, Pattern


def job(**options: object) -> Job:
    given: dict[str, object] = {
        "name": "j",
        "pattern": Pattern.READ,
        "filename": "/s/f",
        "size_bytes": 4096,
    }
    return Job(**(given | options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("filename", "/s/f\nrw=write"),
        ("filename", "/s/f\r"),
        ("filename", "/s/#1"),
        ("filename", "/s/${HOME}"),
        ("filename", "/s/a;b"),
        ("filename", "/s/\x00"),
        ("filename", "/s/[x]"),
        ("filename", "a\\b"),
        ("filename", " /s/f"),
        ("filename", "-"),
        ("filename", ""),
        ("filename", "/s/\u2028x"),
        ("filename", "x" * 5000),
        ("name", "a]\n[b"),
        ("name", "global"),
        ("name", ""),
        ("name", "n" * 300),
        ("block_bytes", 0),
        ("block_bytes", True),
        ("block_bytes", 4096.0),
        ("block_bytes", "4k"),
        ("size_bytes", -1),
        ("queue_depth", 0),
        ("read_pct", 101),
        ("pattern", "read"),
        ("pattern", "trim"),
        ("engine", "libaio\nx"),
        ("engine", "external:/x.so"),
        ("direct", 1),
        ("runtime_s", -1),
        ("runtime_s", float("nan")),
        ("runtime_s", 1e9),
        ("runtime_s", 0.00001),
        ("verify", "crc7"),
        ("percentiles", ()),
        ("percentiles", (0.0,)),
        ("percentiles", [50.0]),
    ],
)
def test_values_that_would_mean_something_else_are_refused(option: str, value: object) -> None:
    with pytest.raises(FioJobError) as err:
        job(**{option: value})
    assert option == "name" or option in err.value.message


@pytest.mark.parametrize(
    ("options", "because"),
    [
        ({"filename": None}, "neither filename nor directory"),
        ({"time_based": True}, "time_based needs runtime_s"),
        ({"block_bytes": 8192}, "less than one block"),
        ({"read_pct": 90}, "means nothing for rw=read"),
        ({"size_bytes": None}, "has no end"),
        ({"direct": True, "block_bytes": 1000}, "O_DIRECT"),
        ({"directory": "/s"}, "full path already"),
        ({"loops": 2, "time_based": True, "runtime_s": 1}, "until its time is over"),
        ({"rate_bytes_per_s": 1, "rate_iops": 1}, "limits the job too"),
        ({"random_pct": 50}, "means nothing for rw=read"),
        ({"no_random_map": True}, "has no map"),
        ({"end_fsync": True}, "writes nothing"),
        ({"zero_buffers": True, "compress_pct": 50}, "all data zeros"),
        ({"compress_chunk_bytes": 512}, "no compress_pct"),
        ({"verify_fatal": True}, "there is no verify"),
        ({"pattern": Pattern.RANDRW, "verify": "crc32c"}, "no checksum yet"),
        ({"pattern": Pattern.READWRITE, "read_pct": 90, "verify": "md5"}, "no checksum yet"),
        (
            {"pattern": Pattern.WRITE, "verify": "md5", "time_based": True, "runtime_s": 1},
            "never reads back",
        ),
        ({"verify": "md5", "zero_buffers": True}, "can't hold a checksum"),
        (
            {"pattern": Pattern.RANDWRITE, "verify": "md5", "no_random_map": True},
            "blocks written twice",
        ),
        ({"engine": "psync", "queue_depth": 8}, "would cap 8 at 1"),
        ({"engine": "libaio", "rocm_io": "hipfile"}, "only with libhipfile"),
        ({"engine": "libhipfile", "gpus": "0"}, "refuses buffered"),
        ({"log_every_ms": 100}, "there is no log"),
        ({"latency_log": "l", "log_every_ms": 100, "log_offset": True}, "no one offset"),
        ({"latency_log": "l", "log_maximum": True}, "no maximum"),
        ({"histogram_every_ms": 100}, "no histogram log"),
        ({"histogram_log": "l"}, "writes none without"),
    ],
)
def test_combinations_that_measure_something_else_are_refused(
    options: dict[str, object], because: str
) -> None:
    with pytest.raises(FioJobError, match=because) as err:
        job(**options)
    assert err.value.job == "j"
    assert err.value.option in err.value.message
    assert err.value.allowed
    assert err.value.allowed in err.value.message


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError):
        job(iodeph=3)


@pytest.mark.parametrize(
    ("pattern", "reads", "writes"),
    [(Pattern.READ, True, False), (Pattern.RANDWRITE, False, True), (Pattern.RANDRW, True, True)],
)
def test_a_pattern_knows_its_directions(pattern: Pattern, reads: bool, writes: bool) -> None:
    assert (pattern.reads, pattern.writes) == (reads, writes)
