"""The form of a recording: what one host answered, a line of JSON for each command.

The first line says which host it is, from where it was recorded and how many answers follow.
Bytes that are UTF-8 are written as a text, others as ``{"base64": …}``; times are UTC to the µs.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import datetime
import json
from collections.abc import Mapping
from typing import Any, NoReturn

from kvgate.errors import SpecError
from kvgate.transport.base import CommandResult

FORMAT = "kvgate-recording/1"
_NUMBERS = ("masked", "stdout_dropped", "stderr_dropped")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """One answer; ``scope`` is the gate or block it was asked in, "" where that is not known."""

    result: CommandResult
    scope: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What one host answered, in order; ``unreachable`` maps a gate to why it was not asked."""

    host: str
    source: str  # the run it was taken from
    answers: tuple[Answered, ...]
    unreachable: Mapping[str, str] = dataclasses.field(default_factory=dict)


def to_bytes(recording: Recording) -> bytes:
    """Return `recording` as a file's bytes: the same recording, the same bytes."""
    head = {
        "answers": len(recording.answers),
        "format": FORMAT,
        "host": recording.host,
        "source": recording.source,
        "unreachable": dict(recording.unreachable),
    }
    lines = [head, *(_line(answer) for answer in recording.answers)]
    return b"".join(
        json.dumps(line, sort_keys=True, separators=(",", ":")).encode("ascii") + b"\n"
        for line in lines
    )


def _line(answer: Answered) -> dict[str, Any]:
    result = answer.result
    return {
        "command": list(result.argv),
        "elapsed_us": round(result.elapsed_s * 10**6),
        "exit_status": result.exit_status,
        "masked": result.masked,
        "scope": answer.scope,
        "signal": result.signal,
        "started_at": result.started_at.isoformat(timespec="microseconds"),
        "stderr": _told(result.stderr),
        "stderr_dropped": result.stderr_dropped,
        "stdout": _told(result.stdout),
        "stdout_dropped": result.stdout_dropped,
        "timed_out": result.timed_out,
    }


def _told(data: bytes) -> str | dict[str, str]:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def of_bytes(data: bytes, name: str) -> Recording:
    """Return the recording in `data`; raises SpecError naming file `name` and line.

    A recording that was cut short is refused: an answer less would be another host.
    """
    first, *rest = data.splitlines() or [b""]
    head = _parsed(first, name, 1)
    if head.get("format") != FORMAT:
        _refuse(name, 1, f"is no recording of a form this kvgate reads ({FORMAT})")
    try:
        host, source, count = _text(head["host"]), _text(head["source"]), _number(head["answers"])
        unreachable = {_text(gate): _text(why) for gate, why in head["unreachable"].items()}
    except (KeyError, TypeError, AttributeError) as err:
        _refuse(name, 1, f"is not the head of a recording: {err!r}", err)
    if count != len(rest):
        _refuse(name, len(rest) + 1, f"ends after {len(rest)} answers of {count}")
    answers = tuple(
        _answer(_parsed(line, name, number), host, name, number)
        for number, line in enumerate(rest, start=2)
    )
    return Recording(host=host, source=source, answers=answers, unreachable=unreachable)


def _refuse(name: str, line: int, what: str, cause: Exception | None = None) -> NoReturn:
    raise SpecError(
        f"{name}:{line}: {what}", hint="`kvgate record RUN --out DIR` writes recordings"
    ) from cause


def _parsed(line: bytes, name: str, number: int) -> dict[str, Any]:
    try:
        value = json.loads(line.decode("utf-8"))
        if isinstance(value, dict):
            return value
    except (ValueError, RecursionError) as err:
        _refuse(name, number, f"is no line of a recording: {err}", err)
    _refuse(name, number, "is no line of a recording")


def _answer(fields: dict[str, Any], host: str, name: str, number: int) -> Answered:
    try:
        numbers = {key: _number(fields[key]) for key in _NUMBERS}
        result = CommandResult(
            host=host,
            argv=tuple(_text(word) for word in fields["command"]),
            exit_status=_number_or_none(fields["exit_status"]),
            stdout=_bytes(fields["stdout"]),
            stderr=_bytes(fields["stderr"]),
            started_at=_moment(fields["started_at"]),
            elapsed_s=_number(fields["elapsed_us"]) / 10**6,
            timed_out=fields["timed_out"] is True,
            signal=_number_or_none(fields["signal"]),
            **numbers,
        )
        return Answered(result=result, scope=_text(fields["scope"]))
    except (KeyError, TypeError, ValueError, AttributeError) as err:
        _refuse(name, number, f"is no answer of a recording: {err!r}", err)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _number(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is no whole number")
    return value


def _number_or_none(value: object) -> int | None:
    return None if value is None else _number(value)


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8")
    try:
        return base64.b64decode(_text(value["base64"]), validate=True)
    except binascii.Error as err:
        raise ValueError(f"{err}") from err


def _moment(value: object) -> datetime.datetime:
    moment = datetime.datetime.fromisoformat(_text(value))
    if moment.tzinfo is None:
        raise ValueError(f"{value!r} has no time zone")
    return moment.astimezone(datetime.UTC)
