"""Folds the events of one answer (OpenAI completions or chat) into what it amounted to."""

from __future__ import annotations

import hashlib
import json
import json.scanner
from collections.abc import Mapping
from typing import Any, cast

from kvgate.errors import ParseError
from kvgate.load.rows import Failure

DONE = "[DONE]"
_SCAN = cast("Any", json.scanner.make_scanner)(json.JSONDecoder())
"""`json.loads` without its looks for blanks: an event's value, and where it ends."""


class Answer:
    """An answer as far as it has come; `add` takes its events in order.

    An event need not carry one token (engines merge and split them): tokens are counted by the
    engine's own ``usage``, and by token ids where it sends them.
    """

    def __init__(self) -> None:
        self.done = False
        self.engine_error: str | None = None
        self.id: Any = None
        self.finish_reason: str | None = None
        self.usage: Mapping[str, Any] | None = None
        self.logits_sha256: str | None = None
        self.token_ids: list[int] = []
        self.texts: list[str] = []  # the texts that were not empty
        self.times_s: list[float] = []  # when each event arrived that carried text or token ids

    def add(self, data: str, at_s: float) -> None:
        """Take an event that arrived at `at_s`; raises ParseError where it is none of OpenAI's."""
        if data == DONE:
            self.done = True
            return
        try:
            fields, end = _SCAN(data, 0)
            if end != len(data):  # blanks around it, or more than one
                fields = json.loads(data)
        except (ValueError, StopIteration, RecursionError) as err:
            raise ParseError(f"an event that is not JSON: {data[:80]!r}") from err
        if not isinstance(fields, dict):
            raise ParseError(f"an event that is no JSON object: {data[:80]!r}")
        try:
            self._take(fields, at_s)
        except (AttributeError, KeyError, TypeError) as err:
            raise ParseError(f"an event of unknown shape: {data[:120]!r}") from err

    def _take(self, fields: dict[str, Any], at_s: float) -> None:
        get = fields.get
        error = get("error")
        if error is not None:
            self.engine_error = str(error["message"] if isinstance(error, dict) else error)
            return
        if get("id") != self.id:
            self._check_id(fields)
        usage = get("usage")
        if usage is not None:
            self.usage = dict(usage)
        if "kvgate" in fields:
            self.logits_sha256 = str(fields["kvgate"]["logits_sha256"])
        for choice in fields["choices"]:
            text = _text(choice["delta"]) if "delta" in choice else choice["text"]
            ids = choice.get("token_ids")
            if text or ids:
                self.times_s.append(at_s)
            if text:
                self.texts.append(text + "")  # raises TypeError for what is no text
            if ids:
                self.token_ids += map(int, ids)
            self.finish_reason = choice.get("finish_reason") or self.finish_reason

    def _check_id(self, fields: dict[str, Any]) -> None:
        """Take the answer's id; raises ParseError where an event is of another answer."""
        found = fields.get("id")
        if self.id is None:
            self.id = found
        elif found is not None:
            what = "usage" if fields.get("usage") is not None else "an event"
            raise ParseError(f"{what} of another answer: its id is {found!r}, not {self.id!r}")

    def reported(self, name: str) -> int | None:
        """Return a number of the engine's usage, None where it gave none."""
        value = (self.usage or {}).get(name)
        return value if type(value) is int else None

    def cached_tokens(self) -> int | None:
        """Return how many prompt tokens the engine says it did not compute, None if silent."""
        details = (self.usage or {}).get("prompt_tokens_details")
        value = details.get("cached_tokens") if isinstance(details, dict) else None
        return value if type(value) is int else None

    def digest(self) -> str | None:
        """Return the SHA-256 over the token ids or, without any, the text; None without either."""
        if self.token_ids:
            return hashlib.sha256(json.dumps(self.token_ids).encode()).hexdigest()
        text = "".join(self.texts)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() if text else None

    def judge(self, asked_tokens: int) -> tuple[Failure, str] | None:
        """Return what is wrong with the ended answer, None if it is whole."""
        if self.engine_error is not None:
            return Failure.ENGINE, self.engine_error
        if not self.done:
            return Failure.TRUNCATED, f"the stream ended without {DONE}"
        got = self.reported("completion_tokens")
        if got is None:
            return Failure.COUNT, "the endpoint reported no usage, so tokens can't be counted"
        if got != asked_tokens or (self.token_ids and len(self.token_ids) != got):
            ids = f", {len(self.token_ids)} token ids came" if self.token_ids else ""
            return Failure.COUNT, f"asked for {asked_tokens} tokens, usage says {got}{ids}"
        if not self.times_s:
            return Failure.COUNT, f"usage says {got} tokens, but none came"
        return None


def _text(delta: dict[str, Any]) -> str:
    """Return what a chat's delta says, thought aloud or not.

    What a model thinks is tokens like all others; calls of tools are not read.
    """
    said = [delta.get(name) or "" for name in ("reasoning_content", "reasoning", "content")]
    return "".join(said)
