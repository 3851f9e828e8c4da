"""What is kept of a command's output: so much of one answer, and so much of all answers at once."""

from __future__ import annotations

import io
import threading

FREE_BYTES = 2**20
"""So much of each stream is always kept: nothing that other hosts send takes it from an answer.

What goes over its cap is no answer; no more of it than this is kept either, to be looked at.
"""

SHARED_BYTES = 48 * 2**20
"""The most that all streams of this process together hold beyond `FREE_BYTES` each."""

STEP_BYTES = 2**20


class Shared:
    """An amount of memory that many threads take shares of."""

    def __init__(self, total: int) -> None:
        self._left = total
        self._lock = threading.Lock()

    def take(self, amount: int) -> bool:
        """Take `amount`; False, and nothing taken, where less is left."""
        with self._lock:
            if amount > self._left:
                return False
            self._left -= amount
            return True

    def give(self, amount: int) -> None:
        """Give `amount` back."""
        with self._lock:
            self._left += amount


ALL = Shared(SHARED_BYTES)


class Share:
    """What one stream holds of `of`; given back when nobody holds this object any more."""

    def __init__(self, of: Shared) -> None:
        self._of = of
        self._taken = 0

    def grow(self, size: int) -> bool:
        """Make it at least `size` in all; False where so much is not left."""
        more = -(-max(0, size - self._taken) // STEP_BYTES) * STEP_BYTES
        if more and not self._of.take(more):
            return False
        self._taken += more
        return True

    def empty(self) -> None:
        """Give it all back."""
        taken, self._taken = self._taken, 0
        self._of.give(taken)

    def __del__(self) -> None:
        """Give back what is left of it."""
        self.empty()


class Kept:
    """Output up to a cap, and how many bytes came beyond it.

    Over the cap, or where other streams hold what memory there is, what is held shrinks to
    `FREE_BYTES` (or the cap) and the rest is counted as dropped: half an answer is none.
    """

    def __init__(self, cap_bytes: int, of: Shared = ALL) -> None:
        self.dropped = 0
        self.share = Share(of)
        self._cap = cap_bytes
        self._held = io.BytesIO()

    def add(self, piece: bytes) -> None:
        """Keep `piece`, or what of it is still kept, and count the rest."""
        held = self._held.tell()
        whole = held + len(piece)
        if not self.dropped and whole <= self._cap and self.share.grow(whole - FREE_BYTES):
            self._held.write(piece)
            return
        least = min(self._cap, FREE_BYTES)
        self._held.write(piece[: max(0, least - held)])
        self._shrink(whole)

    def cut(self) -> None:
        """Keep no more than of an answer over its cap: it came to no end."""
        if len(self) > FREE_BYTES:
            self._shrink(len(self))

    def _shrink(self, whole: int) -> None:
        """Hold what is held of half an answer, of `whole` bytes since the last time."""
        self._held.truncate(min(len(self), self._cap, FREE_BYTES))
        self._held.seek(0, io.SEEK_END)
        self.dropped += whole - len(self)
        self.share.empty()

    def __len__(self) -> int:
        """Return how many bytes are held."""
        return self._held.tell()

    def take(self) -> bytes:
        """Return what was kept, and hold it no longer: it can be large, and is not copied.

        Who holds the bytes on holds on to `share` too.
        """
        data = self._held.getvalue()
        self._held = io.BytesIO()
        return data
