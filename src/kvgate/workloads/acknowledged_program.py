"""The program that writes blocks and says of each that it was acknowledged, or reads all back.

It runs on a host under test, alone: Python 3.8 and its standard library, nothing of kvgate. A line
is printed only after the write and its flush (fdatasync) have returned, so that whoever has the
line knows what must be there after a loss of power.
"""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import struct
import sys
import threading
import time
from pathlib import Path

MAGIC = b"kvgate-ack1"
_HEAD = struct.Struct(">16sQQQ")
_UNTIL_S = 3.0  # how long after one thread's error the others have to end

ENOUGH = "enough"
"""A file beside this program, once there is enough to see."""

_says = threading.Lock()
_stop = threading.Event()
_enough = threading.Event()


def say(text: str) -> None:
    """Print one line at once, whole."""
    with _says:
        os.write(1, text.encode() + b"\n")


def content(seed: int, slot: int, number: int, size: int) -> bytes:
    """Return the `size` bytes that write `number` leaves in `slot`: a header and what it yields."""
    head = _HEAD.pack(MAGIC, seed, slot, number)
    return head + hashlib.shake_128(head).digest(size - len(head))


def judge(data: bytes, seed: int, slot: int) -> str:
    """Return ``V <number>`` of a block that is whole, ``X`` of one that is not, ``Z``: not ours."""
    magic, found_seed, found_slot, number = _HEAD.unpack(data[: _HEAD.size])
    if magic.rstrip(b"\0") != MAGIC or found_seed != seed:
        return "Z"
    if found_slot != slot or data != content(seed, slot, number, len(data)):
        return "X"
    return "V %d" % number  # noqa: UP031  Python 3.8


def opened(path: str, flags: int) -> int:
    """Open `path` past the page cache where it takes that."""
    try:
        return os.open(path, flags | os.O_DIRECT)
    except OSError as err:
        if err.errno != errno.EINVAL:
            raise
        return os.open(path, flags)


def whole(moved: int, size: int) -> None:
    """Raise OSError where a block was moved in part only."""
    if moved != size:
        raise OSError(errno.EIO, "a part of a block was moved")


def uptime() -> float:
    """Return the host's uptime, as /proc/uptime has it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def write(path: str, size: int, slots: int, seed: int, rate: float, seconds: float) -> None:
    """Write slots until it is enough or an I/O fails; says ``A``, ``E`` and ``D`` lines.

    It is enough after `seconds`, or once there is a file ENOUGH beside this program.
    """
    threads = min(4, slots)
    until = time.monotonic() + seconds
    say("B %.3f" % uptime())  # noqa: UP031
    workers = [
        threading.Thread(
            target=_write_slots,
            args=(path, size, range(at, slots, threads), seed, rate / threads, until),
            daemon=True,
        )
        for at in range(threads)
    ]
    for each in workers:
        each.start()
    for each in workers:
        while each.is_alive() and not _stop.is_set():
            each.join(0.1)
            if Path(__file__).with_name(ENOUGH).exists():
                _enough.set()
    end = time.monotonic() + _UNTIL_S
    for each in workers:
        each.join(max(0.0, end - time.monotonic()))
    say("D %.3f" % uptime())  # noqa: UP031
    os._exit(1 if _stop.is_set() else 0)  # an I/O that hangs must not keep us


def _write_slots(path: str, size: int, slots: range, seed: int, rate: float, until: float) -> None:
    number, due = 0, time.monotonic()
    slot = slots[0]
    try:
        fd = opened(path, os.O_RDWR)
        block = mmap.mmap(-1, size)
        while time.monotonic() < until and not (_stop.is_set() or _enough.is_set()):
            slot = slots[(number * 7919) % len(slots)]
            number += 1
            block[:] = content(seed, slot, number, size)
            begun = time.monotonic()
            whole(os.pwrite(fd, block, slot * size), size)
            os.fdatasync(fd)
            took = time.monotonic() - begun
            say("A %d %d %.3f %.6f" % (slot, number, uptime(), took))  # noqa: UP031
            due = max(due + 1 / rate, time.monotonic() - 1)
            time.sleep(max(0.0, due - time.monotonic()))
    except OSError as err:
        say("E %d %d %.3f %d" % (slot, number, uptime(), err.errno or 0))  # noqa: UP031
        _stop.set()


def verify(path: str, size: int, slots: int, seed: int) -> int:
    """Read all slots back; says of each ``V slot number``, ``X slot``, ``Z slot``, ``E slot``."""
    fd = opened(path, os.O_RDONLY)
    block = mmap.mmap(-1, size)
    for slot in range(slots):
        try:
            whole(os.preadv(fd, [block], slot * size), size)
        except OSError as err:
            say("E %d %d" % (slot, err.errno or 0))  # noqa: UP031
            continue
        kind, _, number = judge(bytes(block), seed, slot).partition(" ")
        say(" ".join(filter(None, (kind, str(slot), number))))
    say("D")
    return 0


def main(words: list[str]) -> int:
    """Run ``write PATH SIZE SLOTS SEED RATE SECONDS`` or ``verify PATH SIZE SLOTS SEED``."""
    what, path, size, slots, seed = words[0], words[1], int(words[2]), int(words[3]), int(words[4])
    if what == "write":
        write(path, size, slots, seed, float(words[5]), float(words[6]))
    return verify(path, size, slots, seed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
