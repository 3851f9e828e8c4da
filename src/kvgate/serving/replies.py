"""OpenAI's completions and chat protocols, what is answered: parts, wholes, usage, events."""

from __future__ import annotations

import dataclasses
import json
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class Ending:
    """Why an answer ends here: ``length`` or ``stop``, and what stopped it; "" while it goes on."""

    finish_reason: str = ""
    stop_reason: str | int | None = None


GOES_ON = Ending()


@dataclasses.dataclass(frozen=True, slots=True)
class Replies:
    """Writes the answers to one request; all carry the same id, model and creation time."""

    id: str
    model: str
    created: int
    chat: bool = False

    def first(self) -> dict[str, Any] | None:
        """Return what a stream opens with: in a chat, who speaks."""
        if not self.chat:
            return None
        opening = {"delta": {"role": "assistant", "content": ""}}
        return self._object(_choice(opening, GOES_ON, None), part=True)

    def piece(
        self, text: str, tokens: list[int] | None, ending: Ending = GOES_ON
    ) -> dict[str, Any]:
        """Return a part of an answer: its text, and its token ids where asked for."""
        said = {"delta": {"content": text}} if self.chat else {"text": text}
        return self._object(_choice(said, ending, tokens), part=True)

    def whole(self, text: str, tokens: list[int] | None, ending: Ending) -> dict[str, Any]:
        """Return an answer in one."""
        message = {"role": "assistant", "content": text}
        said = {"message": message} if self.chat else {"text": text}
        return self._object(_choice(said, ending, tokens), part=False)

    def usage(self, prompt: int, answered: int, cached: int) -> dict[str, Any]:
        """Return the last part of a stream: what was read and written, and no choices."""
        return self._object(None, part=True) | {"usage": usage(prompt, answered, cached)}

    def _object(self, choice: dict[str, Any] | None, *, part: bool) -> dict[str, Any]:
        kind = "text_completion"
        if self.chat:
            kind = "chat.completion.chunk" if part else "chat.completion"
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": [] if choice is None else [choice],
        }


def _choice(said: dict[str, Any], ending: Ending, tokens: list[int] | None) -> dict[str, Any]:
    choice: dict[str, Any] = {
        "index": 0,
        **said,
        "logprobs": None,
        "finish_reason": ending.finish_reason or None,
    }
    if ending.finish_reason:
        choice["stop_reason"] = ending.stop_reason
    if tokens is not None:
        choice["token_ids"] = tokens
    return choice


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
