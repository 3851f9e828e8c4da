"""Server-sent events from bytes that arrive in any pieces (WHATWG HTML, section 9.2.6)."""

from __future__ import annotations

from typing import NamedTuple

from kvgate.errors import ParseError

EVENT_CAP_BYTES = 8 * 2**20
"""The most one event may hold; more is refused rather than kept in memory."""


class SseEvent(NamedTuple):
    """One event: its data (lines joined by a line feed) and its type, "" where none was named."""

    data: str
    type: str = ""


class SseParser:
    """Takes bytes as they come and gives the events that are complete.

    Lines end with LF, CR or CRLF, wherever packets are split. What `close` finds unfinished is
    an event that was cut off.
    """

    def __init__(self) -> None:
        self._line = bytearray()
        self._after_cr = False
        self._at_start = True
        self._data: list[bytes] = []
        self._held = 0
        self._type = b""

    def feed(self, piece: bytes) -> list[SseEvent]:
        """Return the events that `piece` completes.

        Raises ParseError for an event over the cap, and for data that is not UTF-8.
        """
        if self._after_cr and piece:
            piece = piece.removeprefix(b"\n")
            self._after_cr = False
        if piece.endswith(b"\r"):
            self._after_cr = True
        lines = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        events: list[SseEvent] = []
        for line in lines[:-1]:
            self._line += line
            if (event := self._end_line()) is not None:
                events.append(event)
        self._line += lines[-1]
        if self._held + len(self._line) > EVENT_CAP_BYTES:
            raise ParseError(f"an event of more than {EVENT_CAP_BYTES} bytes")
        return events

    def feed_all(self, pieces: list[bytes], times: list[float]) -> list[tuple[str, float]]:
        """Return the data of events that `pieces` complete, each with the time its last byte came.

        The same as feeding them one by one; where they are whole lines of data and no more, as
        engines stream, in a fifth of the time. Raises what `feed` raises.
        """
        whole = b"".join(pieces)
        held = self._line or self._data or self._type or self._after_cr
        text = "" if held or not whole.endswith(b"\n\n") or not whole.isascii() else whole.decode()
        blocks = text[:-2].split("\n\n")
        count = len(blocks)  # each begins so, and has no other line
        plain = text.startswith("data: ") and text.count("\n\ndata: ") == count - 1
        if (
            not plain
            or text.count("\n") != 2 * count
            or "\r" in text
            or len(whole) > EVENT_CAP_BYTES
        ):
            return [
                (event.data, at)
                for piece, at in zip(pieces, times, strict=True)
                for event in self.feed(piece)
            ]
        self._at_start = False
        found = []
        last, ended, arrived, at = -1, 0, 0, 0.0
        for block in blocks:
            ended += len(block) + 2
            while arrived < ended:
                last += 1
                arrived += len(pieces[last])
                at = times[last]
            found.append((block[6:], at))
        return found

    def close(self) -> bool:
        """Tell whether the stream ended between events: nothing was cut off."""
        return not (self._line or self._data)

    def _end_line(self) -> SseEvent | None:
        line = bytes(self._line)
        self._line.clear()
        if self._at_start:
            line = line.removeprefix(b"\xef\xbb\xbf")
            self._at_start = False
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._held += len(value)
        elif name == b"event":
            self._type = value
        return None  # comments (no name), id, retry and unknown fields say nothing to us

    def _dispatch(self) -> SseEvent | None:
        data, kind, had_data = b"\n".join(self._data), self._type, bool(self._data)
        self._data, self._type, self._held = [], b"", 0
        if not had_data:
            return None
        try:
            return SseEvent(data.decode(), kind.decode())
        except UnicodeDecodeError as err:
            raise ParseError(f"an event is not UTF-8: {err.reason} at byte {err.start}") from err
