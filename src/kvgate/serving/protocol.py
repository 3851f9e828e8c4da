"""OpenAI's completions protocol: a request's bytes to a typed request, answers to bytes."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from kvgate.serving.config import ModelConfig
from kvgate.serving.tokens import encode


class ApiError(Exception):
    """A request that can't be answered: HTTP status, OpenAI error type, and why."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind

    def body(self) -> bytes:
        """Return OpenAI's error object."""
        return error_body(self.status, self.kind, str(self))


def error_body(status: int, kind: str, message: str) -> bytes:
    """Return an OpenAI error object as JSON."""
    error = {"message": message, "type": kind, "param": None, "code": status}
    return json.dumps({"error": error}).encode()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest:
    """A checked request: what to continue, by how much, and how to answer."""

    prompt: tuple[int, ...]
    max_tokens: int
    stream: bool
    include_usage: bool
    token_ids: bool
    logits_digest: bool


def parse_request(body: bytes, config: ModelConfig, model: str) -> CompletionRequest:
    """Return the request in `body`; raises ApiError naming the first thing that is wrong."""
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as err:
        raise _refused(f"the body is not JSON: {err}") from err
    if not isinstance(fields, dict):
        raise _refused("the body is not a JSON object")
    if fields.get("model", model) != model:
        raise ApiError(404, "NotFoundError", f"The model '{fields['model']}' does not exist.")
    _greedy_only(fields)
    prompt = _prompt(fields, config)
    max_tokens = _number(fields, "max_tokens", 16)
    if len(prompt) + max_tokens > config.max_tokens:
        raise _refused(
            f"This model's maximum context length is {config.max_tokens} tokens; the request "
            f"has {len(prompt)} and asks for {max_tokens} more."
        )
    options = fields.get("stream_options") or {}
    if not isinstance(options, dict):
        raise _refused("stream_options is not an object")
    return CompletionRequest(
        prompt=prompt,
        max_tokens=max_tokens,
        stream=_flag(fields, "stream"),
        include_usage=_flag(options, "include_usage"),
        token_ids=_flag(fields, "return_token_ids"),
        logits_digest=_flag(fields, "kvgate_logits"),
    )


def _refused(message: str) -> ApiError:
    return ApiError(400, "BadRequestError", message)


def _greedy_only(fields: dict[str, Any]) -> None:
    """Refuse what would change the answer and is not served here, rather than ignore it."""
    only: dict[str, tuple[object, ...]] = {
        "temperature": (None, 0),
        "n": (None, 1),
        "best_of": (None, 1),
        "echo": (None, False),
        "logprobs": (None,),
        "stop": (None, []),
        "suffix": (None, ""),
    }
    for name, allowed in only.items():
        if fields.get(name) not in allowed:
            raise _refused(
                f"{name} = {fields[name]!r}: this engine decodes greedily, one answer, "
                "to the length asked for"
            )


def _prompt(fields: dict[str, Any], config: ModelConfig) -> tuple[int, ...]:
    prompt = fields.get("prompt")
    if isinstance(prompt, str):
        prompt = encode(prompt)
    if not isinstance(prompt, list) or not all(type(token) is int for token in prompt):
        raise _refused("prompt is neither a text nor a list of token ids")
    if not prompt:
        raise _refused("prompt is empty")
    if not all(0 <= token < config.vocab for token in prompt):
        raise _refused(f"prompt: token ids go from 0 to {config.vocab - 1}")
    return tuple(prompt)


def _number(fields: dict[str, Any], name: str, default: int) -> int:
    value = default if fields.get(name) is None else fields[name]
    if type(value) is not int or value < 1:
        raise _refused(f"{name} = {value!r} is not a whole number above 0")
    return value


def _flag(fields: dict[str, Any], name: str) -> bool:
    value = fields.get(name)
    if value not in (None, True, False):
        raise _refused(f"{name} = {value!r} is neither true nor false")
    return bool(value)


@dataclasses.dataclass(frozen=True, slots=True)
class Replies:
    """Writes the answers to one request; all carry the same id, model and creation time."""

    id: str
    model: str
    created: int

    def piece(
        self, text: str, tokens: list[int] | None, *, finish_reason: str | None
    ) -> dict[str, Any]:
        """Return an answer or a part of one: its text, and its token ids where asked for."""
        choice: dict[str, Any] = {
            "index": 0,
            "text": text,
            "logprobs": None,
            "finish_reason": finish_reason,
        }
        if tokens is not None:
            choice["token_ids"] = tokens
        return self._object([choice])

    def usage(self, prompt: int, answered: int, cached: int) -> dict[str, Any]:
        """Return the last part of a stream: what was read and written, and no choices."""
        return self._object([]) | {"usage": usage(prompt, answered, cached)}

    def _object(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "text_completion",
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }


def usage(prompt: int, answered: int, cached: int) -> dict[str, Any]:
    """Return OpenAI's usage object."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": answered,
        "total_tokens": prompt + answered,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def event(fields: dict[str, Any]) -> bytes:
    """Return one server-sent event."""
    return b"data: " + json.dumps(fields, separators=(",", ":")).encode() + b"\n\n"
