"""Holds an SSH host to the window it was given: one that sends on regardless loses its link.

paramiko queues whatever comes for a channel. A host that keeps to RFC 4254 (5.2) has at most the
window under way, which is opened again as we read; one that does not could fill our memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import paramiko
from paramiko.common import MSG_CHANNEL_DATA, MSG_CHANNEL_EXTENDED_DATA


class FloodError(paramiko.SSHException):
    """The host sent more than its window."""


def bounded(link: paramiko.Transport) -> paramiko.Transport:
    """Return `link`, from now on closed with a FloodError where a channel's window is not kept."""
    table = link._channel_handler_table  # type: ignore[attr-defined]  # not in the stubs
    checked = {kind: _checked(table[kind]) for kind in _DATA}
    link._channel_handler_table = {**table, **checked}  # type: ignore[attr-defined]  # ditto
    return link


_DATA = (MSG_CHANNEL_DATA, MSG_CHANNEL_EXTENDED_DATA)


def _checked(feed: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    def take(channel: Any, message: Any) -> None:
        feed(channel, message)
        waiting = len(channel.in_buffer) + len(channel.in_stderr_buffer)
        if waiting > channel.in_window_size:  # all of it is ours to open again: none is left
            raise FloodError(
                f"it sent {waiting} bytes that nobody had asked for yet, over a window of "
                f"{channel.in_window_size}"
            )

    return take
