"""The pump and the places on lines made by hand: what real hosts do only once in a while."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvgate.errors import CommandError, LoginError
from kvgate.spec.inventory import Secret
from kvgate.transport import pump as pump_module
from kvgate.transport import secret
from kvgate.transport.kept import FREE_BYTES, Kept, Shared
from kvgate.transport.places import Places
from kvgate.transport.pump import Pump


class Script:
    """A line that says the given pieces of stdout and stderr, then ends or stays silent."""

    def __init__(self, *pieces: tuple[bytes, bytes], ends: bool = True) -> None:
        self.pieces = list(pieces)
        self.ends = ends
        self.hung_up = self.closed = False
        self.taken = b""
        self.room = 3

    def wait(self, timeout_s: float, *, to_write: bool) -> None:
        if not self.pieces and not to_write:
            time.sleep(min(timeout_s, 0.01))

    def read(self) -> tuple[bytes, bytes]:
        return self.pieces.pop(0) if self.pieces else (b"", b"")

    def write(self, data: memoryview) -> int:
        if not self.room:
            raise BrokenPipeError
        self.taken += bytes(data[: self.room])
        return min(self.room, len(data))

    def drained(self) -> bool:
        return self.ends and not self.pieces

    def exited(self) -> bool:
        return False

    def hang_up(self) -> None:
        self.hung_up = True

    def status(self, timeout_s: float) -> int | None:
        return 0 if self.ends else None

    def close(self) -> None:
        self.closed = True


def test_a_host_that_ends_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pump_module, "GIVE_UP_S", 0.2)
    line = Script((b"x", b""), ends=False)
    carried = Pump(line, timeout_s=0.1, cap_bytes=100)
    carried.run()
    assert (carried.timed_out, carried.status, carried.stdout.take()) == (True, None, b"x")
    assert line.hung_up
    assert line.closed


@pytest.mark.parametrize("split", range(0, 30, 3))
def test_the_pid_is_cut_out_wherever_the_pieces_break(split: int) -> None:
    whole = b"motd\nkvgate-leash pid 4711\nkvgate-leash pid 1\n"
    pids: list[int] = []
    carried = Pump(
        Script((b"", whole[:split]), (b"", whole[split:])),
        timeout_s=5,
        cap_bytes=30,
        on_pid=pids.append,
    )
    carried.run()
    assert pids == [4711]
    assert carried.stderr.take() == b"motd\nkvgate-leash pid 1\n"


def test_without_a_pid_stderr_stays_whole() -> None:
    pids: list[int] = []
    carried = Pump(
        Script((b"", b"sh: no"), (b"", b" way\n")), timeout_s=5, cap_bytes=100, on_pid=pids.append
    )
    carried.run()
    assert (pids, carried.stderr.take()) == ([], b"sh: no way\n")


def test_stdin_is_handed_over_in_pieces_and_dropped_when_nobody_reads() -> None:
    line = Script(*[(b"", b"")] * 5)
    Pump(line, timeout_s=5, cap_bytes=1, stdin=b"abcdefgh").run()
    assert line.taken == b"abcdefgh"
    deaf = Script(*[(b"", b"")] * 3)
    deaf.room = 0
    Pump(deaf, timeout_s=5, cap_bytes=1, stdin=b"abc").run()
    assert deaf.closed


def test_kept_counts_what_it_drops() -> None:
    kept = Kept(5)
    for piece in (b"abc", b"defg", b"hi"):
        kept.add(piece)
    assert (kept.take(), kept.dropped) == (b"abcde", 4)


def test_places_learn_the_limit_from_refusals() -> None:
    places = Places("h")
    soon = time.monotonic() + 0.3
    for _ in range(2):
        places.take(soon)
        places.opened()
    places.take(soon)
    assert places.refused(soon)
    with pytest.raises(CommandError, match="all 2 sessions"):
        places.take(time.monotonic() + 0.05)
    threading.Timer(0.05, places.give).start()
    places.take(time.monotonic() + 5)


def test_a_host_that_never_opened_a_session_is_not_asked_again() -> None:
    places = Places("h")
    places.take(time.monotonic() + 1)
    assert not places.refused(time.monotonic() + 1)


def test_a_secret_is_told_by_its_place_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVGATE_S", "hush")
    assert secret.resolve("h", "key", Secret(env="KVGATE_S")) == "hush"
    assert secret.place(Secret(env="KVGATE_S")) == "environment variable KVGATE_S"
    with pytest.raises(LoginError, match="/nonexistent/key: No such file"):
        secret.resolve("h", "key", Secret(file="/nonexistent/key"))


def test_what_is_over_its_cap_is_held_no_longer() -> None:
    kept = Kept(4 * FREE_BYTES)
    for _ in range(5):
        kept.add(bytes(FREE_BYTES))
    assert (len(kept), kept.dropped) == (FREE_BYTES, 4 * FREE_BYTES)
    kept.add(b"more")
    assert (len(kept.take()), kept.dropped) == (FREE_BYTES, 4 * FREE_BYTES + 4)


def test_streams_share_what_goes_beyond_a_mebibyte_and_give_it_back() -> None:
    all_of_them = Shared(3 * FREE_BYTES)
    first, second, third = (Kept(10 * FREE_BYTES, all_of_them) for _ in range(3))
    first.add(bytes(3 * FREE_BYTES))
    second.add(bytes(2 * FREE_BYTES))
    assert (len(first), len(second)) == (3 * FREE_BYTES, 2 * FREE_BYTES)
    third.add(bytes(FREE_BYTES))
    assert third.dropped == 0, "that much is everyone's own"
    third.add(b"x")
    assert (len(third), third.dropped) == (FREE_BYTES, 1)
    share, data = first.share, first.take()
    del first
    assert not all_of_them.take(1), "who holds the bytes holds the share"
    del share, data
    assert all_of_them.take(2 * FREE_BYTES)
    assert not all_of_them.take(1)


@given(st.lists(st.integers(0, 3 * FREE_BYTES), max_size=8), st.integers(0, 4 * FREE_BYTES))
def test_whatever_comes_is_kept_or_counted(sizes: list[int], cap: int) -> None:
    of = Shared(FREE_BYTES)
    kept = Kept(cap, of)
    for size in sizes:
        kept.add(bytes(size))
        assert len(kept) <= min(cap, 2 * FREE_BYTES)
    assert len(kept) + kept.dropped == sum(sizes)
    del kept
    assert of.take(FREE_BYTES)
