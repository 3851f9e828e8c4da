"""The byte-level tokenizer: ids 0 to 255 are the bytes, every further id a fixed pair of letters.

Any text can be encoded and decoded again; further ids exist only in token-id prompts and answers.
"""

from __future__ import annotations

import codecs

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
