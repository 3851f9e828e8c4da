"""The words of commands that are data: safe on every command line, with or without a shell."""

from __future__ import annotations

import re
from collections.abc import Callable

WORD = re.compile(r"(?!-+$)[A-Za-z0-9_./:=,@%+-]{1,200}", re.ASCII)
"""A word of a command that no command line of any device takes for more than a word."""


def safe(placeholder: str = "") -> Callable[[str], str]:
    """Return a validator of words in which `placeholder` (``{port}``) may stand for a safe one."""

    def check(value: str) -> str:
        if not WORD.fullmatch(value.replace(placeholder, "p") if placeholder else value):
            raise ValueError(f"'{value}' is not a word of safe characters ({WORD.pattern})")
        return value

    return check
