"""fio's JSON (and json+) of versions 2.x to 3.x → results, each figure in one unit.

fio 2.x prints latencies in µs under ``clat``, totals and bandwidth in KiB; 3.x prints ns under
``clat_ns``, bytes, and (since 3.6) ``bw_bytes``. The key decides where there is one, the version
where there is not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from fiopy.errors import FioOutputError
from fiopy.result import DiskUse, JobResult, Latency, Transfer
from fiopy.version import Version

_ALL_CLIENTS = "All clients"
_BEGIN = re.compile(r"^\{(?=\s*(?:\"|\Z))", re.MULTILINE)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def documents(text: str) -> tuple[list[dict[str, Any]], str]:
    """Return fio's JSON documents in `text`, in order, and the text around them.

    Raises FioOutputError if a document of fio is cut or damaged.
    """
    found: list[dict[str, Any]] = []
    around: list[str] = []
    at = 0
    while begin := _BEGIN.search(text, at):
        around.append(text[at : begin.start()])
        try:
            document, end = _DECODER.raw_decode(text, begin.start())
        except (ValueError, RecursionError) as err:
            if _is_ours(text[begin.start() : begin.start() + 4096]):
                raise FioOutputError(
                    f"fio's JSON document {len(found) + 1} is cut or damaged: {err}",
                    hint="the run was interrupted, the link was lost, or two streams were mixed",
                ) from err
            around.append(text[begin.start() : begin.end()])
            at = begin.end()
            continue
        if "fio version" in document:
            found.append(document)
        else:
            around.append(text[begin.start() : end])
        at = end
    around.append(text[at:])
    return found, "".join(around)


def _is_ours(text: str) -> bool:
    """Tell whether `text` begins as a document of fio does, even if it is cut within that."""
    bare = "".join(text.split())
    return bare.startswith('{"fioversion"') or '{"fioversion"'.startswith(bare)


def version_of(document: Mapping[str, Any]) -> Version:
    """Return the version that wrote `document`."""
    return Version.parse(_text(document, "fio version", "document"))


def jobs_of(document: Mapping[str, Any]) -> tuple[JobResult, ...]:
    """Return the jobs of `document` in printed order; raises FioOutputError on unknown forms."""
    major = version_of(document).major
    key = "client_stats" if "jobs" not in document and "client_stats" in document else "jobs"
    jobs = document.get(key)
    if not isinstance(jobs, list):
        raise FioOutputError("fio's JSON has no list of jobs")
    found = tuple(
        _job(_object(job, f"{key}[{n}]"), f"{key}[{n}]", major) for n, job in enumerate(jobs)
    )
    # `fio --client` adds an entry that sums up all others (client.c, handle_ts)
    return found[:-1] if key == "client_stats" and found[-1:] == _sums(found) else found


def _sums(jobs: tuple[JobResult, ...]) -> tuple[JobResult, ...]:
    """Return the last of `jobs` if it is fio's sum over all clients, in a tuple; () otherwise."""
    return jobs[-1:] if len(jobs) > 1 and jobs[-1].name == _ALL_CLIENTS else ()


def disks_of(document: Mapping[str, Any]) -> tuple[DiskUse, ...]:
    """Return the use of each block device; () where fio printed none."""
    disks = document.get("disk_util", [])
    if not isinstance(disks, list):
        raise FioOutputError("disk_util is no list")
    return tuple(
        DiskUse(
            _text(_object(disk, "disk_util"), "name", "disk_util"),
            _number(disk, "util", "disk_util"),
        )
        for disk in disks
    )


def _job(job: Mapping[str, Any], where: str, major: int) -> JobResult:
    options = job.get("job options", {})
    return JobResult(
        name=_text(job, "jobname", where),
        error=_whole(job, "error", where),
        client=_client(job, where),
        started_at_ms=_optional_whole(job, "job_start", where),
        group=_optional_whole(job, "groupid", where),
        elapsed_s=_optional_whole(job, "elapsed", where),
        total_errors=_optional_whole(job, "total_err", where),
        options={str(key): str(value) for key, value in _object(options, where).items()},
        read=_direction(job, "read", where, major),
        write=_direction(job, "write", where, major),
        trim=_direction(job, "trim", where, major),
    )


def _direction(job: Mapping[str, Any], direction: str, where: str, major: int) -> Transfer | None:
    """Return one direction, or None if nothing moved in it."""
    if direction not in job:
        return None
    where = f"{where}.{direction}"
    said = _object(job[direction], where)
    in_kib = "io_kbytes" not in said and major < 3
    total = _whole(said, "io_bytes", where) * (1024 if in_kib else 1)
    ios = _optional_whole(said, "total_ios", where)
    if not total and not ios:
        return None
    return Transfer(
        bytes_per_s=_number(said, "bw_bytes", where)
        if "bw_bytes" in said
        else _number(said, "bw", where) * 1024,
        iops=_number(said, "iops", where),
        runtime_ms=_whole(said, "runtime", where),
        total_bytes=total,
        total_ios=ios,
        short_ios=_optional_whole(said, "short_ios", where),
        dropped_ios=_optional_whole(said, "drop_ios", where),
        slat=_latency(said, "slat", where),
        clat=_latency(said, "clat", where),
        lat=_latency(said, "lat", where),
    )


def _client(job: Mapping[str, Any], where: str) -> str | None:
    if "hostname" not in job:
        return None
    port = f":{_whole(job, 'port', where)}" if "port" in job else ""
    return _text(job, "hostname", where) + port


def _latency(said: Mapping[str, Any], name: str, where: str) -> Latency | None:
    """Return ``clat_ns`` (ns) or ``clat`` (µs); None where absent or without a sample."""
    for key, factor in ((f"{name}_ns", 1), (name, 1000)):
        if key in said:
            where = f"{where}.{key}"
            values = _object(said[key], where)
            if values.get("N") == 0 and "N" in values:
                return None
            figure = {
                part: _number(values, part, where) * factor
                for part in ("min", "max", "mean", "stddev")
                if part in values
            }
            return Latency(
                min_ns=figure.get("min"),
                max_ns=figure.get("max"),
                mean_ns=figure.get("mean"),
                stddev_ns=figure.get("stddev"),
                percentiles_ns=_percentiles(values, where, factor),
                bins=_bins(values, where, factor),
            )
    return None


def _percentiles(values: Mapping[str, Any], where: str, factor: int) -> dict[float, float]:
    """Return percent → ns. fio 2.1 pads its list with entries of 0 percent: no percentiles."""
    found: dict[float, float] = {}
    printed = _object(values.get("percentile", {}), where)
    for key in printed:
        percent = _key_number(key, where)
        if percent > 100:
            raise FioOutputError(f"{where}: there is no percentile {key}")
        if percent > 0:
            found[percent] = _number(printed, key, where) * factor
    return found


def _bins(values: Mapping[str, Any], where: str, factor: int) -> dict[int, int] | None:
    if "bins" not in values:
        return None
    printed = _object(values["bins"], where)
    return {int(_key_number(key, where)) * factor: _whole(printed, key, where) for key in printed}


def _key_number(key: str, where: str) -> float:
    if not re.fullmatch(r"\d{1,19}(\.\d{1,12})?", key, re.ASCII):
        raise FioOutputError(f"{where}: {key!r} is no number")
    return float(key)


def _object(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise FioOutputError(f"{where}: {str(value)[:60]!r} is no object")
    return value


def _text(said: Mapping[str, Any], key: str, where: str) -> str:
    value = said.get(key)
    if not isinstance(value, str):
        raise FioOutputError(f"{where}: '{key}' is {str(value)[:60]!r}, not a text")
    return value


def _number(said: Mapping[str, Any], key: str, where: str) -> float:
    """Return a number that is there, finite and not negative; raises FioOutputError otherwise."""
    value = said.get(key)
    if (
        not isinstance(value, int | float)
        or isinstance(value, bool)
        or not 0 <= value < 2**70  # nor NaN
    ):
        raise FioOutputError(f"{where}: '{key}' is {str(value)[:60]!r}, not a number from 0 up")
    return value


def _whole(said: Mapping[str, Any], key: str, where: str) -> int:
    value = _number(said, key, where)
    if not isinstance(value, int):
        raise FioOutputError(f"{where}: '{key}' is {value!r}, not a whole number")
    return value


def _optional_whole(said: Mapping[str, Any], key: str, where: str) -> int | None:
    return _whole(said, key, where) if key in said else None
