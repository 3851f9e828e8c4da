"""Bytes that a host answered → frozen dataclasses. No I/O; what is not known is refused.

A parser raises ParseError, and nothing else, whatever bytes it gets. A value that the text marks
as not available is None, never 0 and never an empty text.
"""
