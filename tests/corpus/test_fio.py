"""Published outputs of fio, as fiopy reads them: their facts hold."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fiopy import Output, Transfer, parse_output

SAMPLES = sorted(Path(os.environ["KVGATE_CORPUS"]).glob("fio/*.expect.json"))
PERCENTILES = {"clat_p95_ns": 95, "clat_p99_ns": 99, "clat_p99_9999_ns": 99.9999}


def transfer(moved: Transfer | None) -> dict[str, Any] | None:
    """Return a direction under the names of the facts."""
    if moved is None:
        return None
    clat = moved.clat
    return {
        "bw_bytes": moved.bytes_per_s,
        "iops": moved.iops,
        "io_bytes": moved.total_bytes,
        "runtime_ms": moved.runtime_ms,
        "total_ios": moved.total_ios,
        "short_ios": moved.short_ios,
        "clat_mean_ns": clat.mean_ns if clat else None,
        **{name: clat.percentile_ns(p) if clat else None for name, p in PERCENTILES.items()},
    }


def facts(output: Output) -> dict[str, Any]:
    """Return an Output under the names of the facts."""
    jobs = [
        {
            "index": n,
            "name": job.name,
            "error": job.error,
            "read": transfer(job.read),
            "write": transfer(job.write),
        }
        for n, job in enumerate(output.jobs)
    ]
    only = output.jobs[0] if len(jobs) == 1 else None
    moved = (only.read or only.write) if only else None
    totals = {each: output.total(each) for each in ("read", "write")}
    runtime = only.options.get("runtime") if only else None
    return {
        "fio_version": str(output.version) if output.version else None,
        "failed": output.failed,
        "error": output.error,
        "exit_code": output.exit_status,
        "error_text": next((each.text for each in output.complaints if each.errno), None),
        "jobs": jobs,
        "job_count": sum(job.processes or 1 for job in output.jobs),
        "read": jobs[0]["read"] if only else None,
        "write": jobs[0]["write"] if only else None,
        "sum": {
            each: total and {"iops": total.iops, "bw_bytes": total.bytes_per_s}
            for each, total in totals.items()
        },
        "verify_failures": [
            {"file": each.file, "offset": each.offset} for each in output.verify_failures
        ],
        "disk_util": [{"name": disk.name, "util_pct": disk.util_pct} for disk in output.disks],
        "process_count": output.processes,
        "signal": output.signal,
        "interrupted": output.signal is not None,
        "json_present": output.documents > 0,
        "is_note": not jobs and any(line.startswith("note: ") for line in output.noise),
        "bins_present": bool(moved and moved.clat and moved.clat.bins),
        "noise_lines_before_json": len(output.noise)
        + len(output.complaints)
        + len(output.verify_failures),
        "requested_runtime_s": int(runtime) if runtime else None,
    }


def test_there_are_samples() -> None:
    assert SAMPLES


@pytest.mark.parametrize("sidecar", SAMPLES, ids=lambda path: path.name[:-12])
def test_every_sample_is_read_to_its_facts(
    sidecar: Path, compare: Callable[[object, object], list[str]]
) -> None:
    expected = json.loads(sidecar.read_text())["facts"]
    sample = sidecar.with_name(sidecar.name.removesuffix(".expect.json"))
    output = parse_output(sample.read_bytes(), b"", expected.get("exit_code"))
    assert compare(expected, facts(output)) == []
