"""The byte-level tokenizer: ids 0 to 255 are the bytes, every further id a fixed pair of letters.

Any text can be encoded and decoded again; further ids exist only in token-id prompts and answers.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEF"  # 32: pairs for ids up to 256 + 1,023


def encode(text: str) -> list[int]:
    """Return the ids of `text`: its UTF-8 bytes."""
    return list(text.encode())


def token_bytes(token: int) -> bytes:
    """Return what `token` stands for."""
    if token < 256:
        return bytes([token])
    first, second = divmod(token - 256, len(_LETTERS))
    return (_LETTERS[first] + _LETTERS[second]).encode()


class Detokenizer:
    """Turns tokens into text one by one; half a character waits for its other half."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def add(self, token: int, *, last: bool = False) -> str:
        """Return the text that is complete with `token`; malformed bytes become U+FFFD."""
        return self._decoder.decode(token_bytes(token), final=last)


class StopText:
    """Lets an answer's text through up to a stop text; what may become one is held back."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = stops
        self._held = ""

    def add(self, text: str, *, last: bool = False) -> tuple[str, str | None]:
        """Return what may be shown now, and the stop text that came; after one nothing follows."""
        self._held += text
        came = [(at, stop) for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if came:
            at, stop = min(came)
            return self._held[:at], stop
        keep = 0 if last else self._may_become()
        shown = self._held[: len(self._held) - keep]
        self._held = self._held[len(shown) :]
        return shown, None

    def _may_become(self) -> int:
        """Return how many of the last characters are the beginning of a stop text."""
        longest = max(map(len, self._stops), default=1)
        for length in range(min(longest - 1, len(self._held)), 0, -1):
            if any(stop.startswith(self._held[-length:]) for stop in self._stops):
                return length
        return 0
