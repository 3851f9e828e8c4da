"""The verb parse: print as JSON what kvgate reads from a saved output, or why it does not."""

from __future__ import annotations

import argparse
import dataclasses
import decimal
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from kvgate.errors import ParseError, UsageError
from kvgate.parse import registry
from kvgate.transport.base import OUTPUT_CAP_BYTES

FIO = "fio"
FIO_LOGS = {"fio_lat_log": "lat", "fio_bw_log": "bw", "fio_iops_log": "iops", "fio_hist_log": ""}
"""Read by fiopy, which knows nothing of kvgate; all other tools by kvgate.parse."""

MOST_OF_FIO = 2**30
"""Bytes that are read of fio's output and logs, which grow with the hours measured."""


def parse_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Print what is read from FILE; 3: the answer is refused, 64: no such tool or file."""
    known = tuple(sorted((*registry.tools(), FIO, *FIO_LOGS)))
    if arguments.list:
        print("\n".join(known))
        return 0
    if not arguments.tool:
        raise UsageError("whose output is it?", hint="name a tool; `kvgate parse --list` has all")
    if arguments.tool not in known:
        raise registry.unknown(arguments.tool, known)
    answer = _answer(arguments.file, arguments.tool)
    found: object
    if arguments.tool == FIO:
        found = _fio(answer, arguments.exit_code)
    elif arguments.tool in FIO_LOGS:
        found = _fio_log(answer, FIO_LOGS[arguments.tool])
    else:
        found = registry.parse(arguments.tool, answer, arguments.exit_code)
    print(json.dumps(_plain(found), indent=2, allow_nan=False))
    return 0


def _answer(file: str, tool: str) -> bytes:
    """Return what the file holds; no more than kvgate would take of a host, fio's logs apart."""
    most = MOST_OF_FIO if tool == FIO or tool in FIO_LOGS else OUTPUT_CAP_BYTES
    try:
        if file == "-":
            answer = sys.stdin.buffer.read(most + 1)
        else:
            with Path(file).open("rb") as opened:
                answer = opened.read(most + 1)
    except OSError as err:
        raise UsageError(f"{file} can't be read: {err.strerror or err}") from err
    if len(answer) > most:
        raise ParseError(
            f"{tool}: the answer is over {most // 2**20} MiB, more than is taken of any host",
            hint="is it one answer? cut a kernel log to the days that matter",
        )
    return answer


def _fio(answer: bytes, exit_code: int | None) -> object:
    """Return fio's output as fiopy reads it, and first whether it is a measurement at all."""
    from fiopy import FioError, parse_output

    try:
        output = parse_output(answer, exit_status=exit_code)
    except FioError as err:
        raise ParseError(f"fio: {err.message}", hint=err.hint) from err
    version = None if output.version is None else output.version.printed
    fields = {field.name: getattr(output, field.name) for field in dataclasses.fields(output)}
    return {"failed": output.failed, "error": output.error, **fields, "version": version}


def _fio_log(answer: bytes, kind: str) -> object:
    """Return what a log of fio tells: figures over time and gaps, or a histogram's percentiles."""
    from fiopy import FioError, course, histograms

    try:
        return course([[answer]], kind=kind) if kind else histograms([[answer]])
    except FioError as err:
        raise ParseError(f"fio: {err.message}", hint=err.hint) from err


def _plain(value: object) -> object:
    """Return `value` as JSON has it: dataclasses as objects, fields in the order declared."""
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        return {field.name: _plain(getattr(value, field.name)) for field in fields}
    if isinstance(value, Mapping):
        return {str(key): _plain(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value
