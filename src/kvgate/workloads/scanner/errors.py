"""The scanner's own error: what can't be scanned, where, and what to do."""

from __future__ import annotations


class ScanError(Exception):
    """Something can't be scanned; ``hint`` is the next step."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
