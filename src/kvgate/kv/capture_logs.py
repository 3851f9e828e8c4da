"""Requests in logs: OpenAI-style access logs as JSON lines, and vLLM's log of requests.

An access log's line is an object with the request's body itself, or under ``request`` or
``body`` (an object, or its JSON as a text); a time under ``timestamp``, ``time``, ``ts``,
``created`` or ``@timestamp`` (seconds or milliseconds since 1970, or ISO 8601), and the
response's ``usage`` (``completion_tokens``) under ``response``, or beside the request.

vLLM (``--enable-log-requests``) says ``Received request ID: prompt: '…', params: …``, with
``prompt_token_ids: […]`` in versions that do; how much was put out isn't in it.
"""

from __future__ import annotations

import ast
import datetime
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kvgate.kv.capture import Blinder, Seen
from kvgate.kv.trace_files import chunks
from kvgate.kv.trace_lines import Where, lines_of
from kvgate.kv.trace_tokens import TOKEN_KEYS, chat_text

TIMES = ("timestamp", "time", "ts", "created", "@timestamp")
_RECEIVED = re.compile(r"Received request [^:\s]{1,200}: ")
_IDS = re.compile(r"prompt_token_ids: (\[[\d, ]*\])")
_PROMPT = re.compile(r"Received request [^:\s]{1,200}: prompt: (['\"])")
_CLOCK = re.compile(r"(?:(\d{4})-)?(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?")
_MILLISECONDS = 1e11
"""Numbers above it are milliseconds since 1970: as seconds they would be after the year 5000."""


def access_log(path: Path, blinder: Blinder) -> Iterator[Seen]:
    """Yield the requests of an access log; raises TraceError with file and line.

    A line without a prompt (a health check, a list of models) is passed over.
    """
    for where, text in lines_of(chunks(path), str(path)):
        value = where.value(text)
        if type(value) is not dict:
            raise where.wrong("no object: an access log is a JSON object a line")
        body = _body(where, value)
        seen = seen_of(blinder, _time(where, value), body, _output(value))
        if seen is not None:
            yield seen


def engine_log(path: Path, blinder: Blinder) -> Iterator[Seen]:
    """Yield the requests of a vLLM log; raises TraceError where a request can't be read."""
    for where, content in lines_of(chunks(path), str(path)):
        text = content.decode("utf-8", "replace")
        found = _RECEIVED.search(text)
        if not found:
            continue
        time_s = _clock(where, text[: found.start()])
        ids = _IDS.search(text, found.end())
        if ids:
            yield blinder.of_tokens(time_s, json.loads(ids[1]), 0)
        elif prompt := _PROMPT.search(text):
            yield blinder.of_text(time_s, _literal(where, text, prompt.start(1)), 0)
        else:
            raise where.wrong(
                "a request without prompt or prompt_token_ids",
                hint="vLLM: --enable-log-requests, VLLM_LOGGING_LEVEL=DEBUG, no --max-log-len",
            )


def _body(where: Where, value: dict[str, Any]) -> dict[str, Any]:
    for key in ("request", "body", "request_body"):
        held = value.get(key)
        if type(held) is str:
            held = where.value(held.encode("utf-8", "surrogatepass"))
        if type(held) is dict:
            inner = held.get("body")
            return inner if type(inner) is dict else held
    return value


def seen_of(blinder: Blinder, time_s: float, body: dict[str, Any], output: int) -> Seen | None:
    """Return what is written of a request's body; None where it has no prompt."""
    if (tokens := _tokens(body)) is not None:
        return blinder.of_tokens(time_s, tokens, output)
    prompt = _prompt(body)
    return None if prompt is None else blinder.of_text(time_s, prompt, output)


def _prompt(body: dict[str, Any]) -> str | None:
    """Return the text that a request's prefix is: tools and messages, or prompt; None for none.

    Equal beginnings give equal texts, as chat templates put tools before the messages.
    """
    if type(messages := body.get("messages")) is list:
        parts = [body["tools"]] if body.get("tools") else []
        return chat_text([*parts, *messages])
    prompt = body.get("prompt", body.get("input"))
    if type(prompt) is str:
        return prompt
    if type(prompt) is list and prompt and all(type(each) is str for each in prompt):
        return "\x1e".join(prompt)
    return None


def _tokens(body: dict[str, Any]) -> list[int] | None:
    for key in (*TOKEN_KEYS, "prompt"):
        held = body.get(key)
        if type(held) is list and held and all(type(each) is int for each in held):
            return held if all(0 <= each < 2**63 for each in held) else None
    return None


def _output(value: dict[str, Any]) -> int:
    """Return the tokens that were put out; 0 where the log doesn't say."""
    response = value.get("response")
    for holder in (value, response if type(response) is dict else {}):
        usage = holder.get("usage")
        held = usage.get("completion_tokens") if type(usage) is dict else None
        if type(held) is int and 0 <= held <= 10**9:
            return held
    return 0


def _time(where: Where, value: dict[str, Any]) -> float:
    for key in TIMES:
        held = value.get(key)
        if isinstance(held, int | float) and abs(held) < 1e17:
            return held / 1000 if held > _MILLISECONDS else float(held)
        if type(held) is str:
            try:
                told = datetime.datetime.fromisoformat(held)
            except ValueError as err:
                raise where.wrong(f"'{key}' is no time of ISO 8601") from err
            return (told if told.tzinfo else told.replace(tzinfo=datetime.UTC)).timestamp()
    raise where.wrong(f"no time: one of {', '.join(TIMES)}")


def _clock(where: Where, text: str) -> float:
    """Return the time that a log's line begins with; vLLM's has no year."""
    found = _CLOCK.search(text)
    if not found:
        raise where.wrong("a request without a time before it")
    year, *rest, fraction = found.groups()
    try:
        month, day, hour, minute, second = map(int, rest)
        told = datetime.datetime(
            int(year or 2000), month, day, hour, minute, second, tzinfo=datetime.UTC
        )
    except ValueError as err:
        raise where.wrong(f"no time: {err}") from err
    return told.timestamp() + (float(f"0.{fraction}") if fraction else 0.0)


def _literal(where: Where, text: str, start: int) -> str:
    """Return the Python text that begins at `start`, which its quote opens."""
    quote, at = text[start], start + 1
    while at < len(text) and text[at] != quote:
        at += 2 if text[at] == "\\" else 1
    try:
        found = ast.literal_eval(text[start : at + 1])
    except (ValueError, SyntaxError) as err:
        raise where.wrong("a prompt that is cut off") from err
    return str(found)
