"""OpenAI's completions and chat protocols, what is asked: a request's bytes to a typed request."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, NoReturn

from kvgate.serving.config import ModelConfig
from kvgate.serving.tokens import encode

_MOST_STOPS = 4  # as OpenAI's
_DEFAULT_COMPLETION_TOKENS = 16


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
    """A checked request: what to continue, by how much at most, and how to answer.

    ``stop`` are texts and ``stop_token_ids`` ids that end an answer early; ``cache_salt`` keeps
    KV apart from that of equal prompts with another one (all three as vLLM has them).
    """

    prompt: tuple[int, ...]
    max_tokens: int
    chat: bool = False
    stream: bool = False
    include_usage: bool = False
    continuous_usage: bool = False
    token_ids: bool = False
    logits_digest: bool = False
    stop: tuple[str, ...] = ()
    stop_token_ids: frozenset[int] = frozenset()
    cache_salt: str = ""


def parse_request(
    body: bytes, config: ModelConfig, model: str, *, chat: bool = False
) -> CompletionRequest:
    """Return the request in `body`; raises ApiError naming the first thing that is wrong."""
    fields = _object(body)
    if fields.get("model", model) != model:
        raise ApiError(404, "NotFoundError", f"The model '{fields['model']}' does not exist.")
    _greedy_only(fields)
    prompt = _chat_prompt(fields) if chat else _prompt(fields, config)
    options = fields.get("stream_options") or {}
    if not isinstance(options, dict):
        raise _refused("stream_options is not an object")
    stop, stop_token_ids = _stop(fields), _stop_token_ids(fields)
    if (stop or stop_token_ids) and fields.get("min_tokens"):
        raise _refused("min_tokens together with a stop is not served here")
    return CompletionRequest(
        prompt=prompt,
        max_tokens=_max_tokens(fields, len(prompt), config, chat=chat),
        chat=chat,
        stream=_flag(fields, "stream"),
        include_usage=_flag(options, "include_usage"),
        continuous_usage=_flag(options, "continuous_usage_stats"),
        token_ids=_flag(fields, "return_token_ids"),
        logits_digest=_flag(fields, "kvgate_logits"),
        stop=stop,
        stop_token_ids=stop_token_ids,
        cache_salt=_salt(fields),
    )


def _refused(message: str) -> ApiError:
    return ApiError(400, "BadRequestError", message)


def _object(body: bytes) -> dict[str, Any]:
    """Return the fields of a body; NaN and Infinity, which Python would take, are no JSON."""

    def no_number(word: str) -> NoReturn:
        raise ValueError(f"{word} is no number in JSON")

    try:
        fields = json.loads(body, parse_constant=no_number)
    except (ValueError, RecursionError) as err:
        raise _refused(f"the body is not JSON: {err}") from err
    if not isinstance(fields, dict):
        raise _refused("the body is not a JSON object")
    return fields


def _greedy_only(fields: dict[str, Any]) -> None:
    """Refuse what would change the answer and is not served here, rather than ignore it."""
    only: dict[str, tuple[object, ...]] = {
        "temperature": (None, 0),
        "n": (None, 1),
        "best_of": (None, 1),
        "echo": (None, False),
        "logprobs": (None, False),
        "suffix": (None, ""),
        "presence_penalty": (None, 0),
        "frequency_penalty": (None, 0),
        "repetition_penalty": (None, 1),
        "logit_bias": (None, {}),
        "tools": (None, []),
        "functions": (None, []),
        "response_format": (None, {"type": "text"}),
    }
    for name, allowed in only.items():
        given = fields.get(name)
        if given not in allowed or (name == "logprobs" and given == 0 and given is not False):
            raise _refused(
                f"{name} = {json.dumps(given)[:200]}: this engine decodes greedily, one answer, "
                "as text"
            )


def _prompt(fields: dict[str, Any], config: ModelConfig) -> tuple[int, ...]:
    prompt = fields.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]  # a batch of one
    if isinstance(prompt, str):
        return _encoded(prompt, "prompt")
    if not isinstance(prompt, list) or not all(type(token) is int for token in prompt):
        raise _refused("prompt is neither a text nor a list of token ids")
    if not prompt:
        raise _refused("prompt is empty")
    if not all(0 <= token < config.vocab for token in prompt):
        raise _refused(f"prompt: token ids go from 0 to {config.vocab - 1}")
    return tuple(prompt)


def _encoded(text: str, name: str) -> tuple[int, ...]:
    if not text:
        raise _refused(f"{name} is empty")
    try:
        return tuple(encode(text))
    except UnicodeEncodeError as err:
        raise _refused(f"{name} holds half a surrogate pair, which is no text") from err


def _chat_prompt(fields: dict[str, Any]) -> tuple[int, ...]:
    """Return a conversation as one prompt: ``<|role|>`` and its text, message by message."""
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        raise _refused("messages is not a list of at least one message")
    parts = []
    for number, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ("system", "developer", "user", "assistant", "tool"):
            raise _refused(f"messages[{number}] has no role that is known")
        parts.append(f"<|{role}|>\n{_content(message.get('content'), number)}\n")
    return _encoded("".join(parts) + "<|assistant|>\n", "messages")


def _content(content: object, number: int) -> str:
    """Return a message's text, be it one text or a list of parts."""
    if content is None or isinstance(content, str):
        return content or ""
    texts = [
        part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None
        for part in (content if isinstance(content, list) else [None])
    ]
    if not all(isinstance(text, str) for text in texts):
        raise _refused(f"messages[{number}].content is neither a text nor a list of texts")
    return "".join(str(text) for text in texts)


def _max_tokens(fields: dict[str, Any], prompt: int, config: ModelConfig, *, chat: bool) -> int:
    """Return how many tokens to answer; raises ApiError where prompt and answer don't fit."""
    name = "max_completion_tokens" if chat and "max_completion_tokens" in fields else "max_tokens"
    left = config.max_tokens - prompt
    most = _number(fields, name, max(1, left) if chat else _DEFAULT_COMPLETION_TOKENS)
    if most > left:
        raise _refused(
            f"This model's maximum context length is {config.max_tokens} tokens; the request "
            f"has {prompt} and asks for {most} more."
        )
    if (least := fields.get("min_tokens")) is not None and (
        type(least) is not int or not 0 <= least <= most
    ):
        raise _refused(f"min_tokens = {least!r} is not a whole number from 0 to {name}")
    return most


def _number(fields: dict[str, Any], name: str, default: int) -> int:
    value = default if fields.get(name) is None else fields[name]
    if type(value) is not int or value < 1:
        raise _refused(f"{name} = {value!r} is not a whole number above 0")
    return value


def _flag(fields: dict[str, Any], name: str) -> bool:
    value = fields.get(name)
    if value is not None and type(value) is not bool:
        raise _refused(f"{name} = {value!r} is neither true nor false")
    return bool(value)


def _stop(fields: dict[str, Any]) -> tuple[str, ...]:
    given = fields.get("stop") or []
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not all(isinstance(t, str) and t for t in texts):
        raise _refused("stop is neither a text nor a list of texts")
    if len(texts) > _MOST_STOPS:
        raise _refused(f"stop: {len(texts)} texts, and at most {_MOST_STOPS} may be given")
    return tuple(texts)


def _stop_token_ids(fields: dict[str, Any]) -> frozenset[int]:
    given = fields.get("stop_token_ids") or []
    if not isinstance(given, list) or not all(type(token) is int for token in given):
        raise _refused("stop_token_ids is not a list of token ids")
    return frozenset(given)


def _salt(fields: dict[str, Any]) -> str:
    given = fields.get("cache_salt")
    if given is not None and (not isinstance(given, str) or not given):
        raise _refused("cache_salt is not a text of at least one character")
    return given or ""
