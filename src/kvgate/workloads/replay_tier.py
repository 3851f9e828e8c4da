"""The tier that replay stores to and restores from: chunk files, or one extent file a session.

What comes back is held against the checksum of what was made, and where it differs, every sector
is asked whose it is. Runs on hosts: Python 3.8; xxhash and NumPy only where they are there.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import errno
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kvgate.kv.content import SECTOR, Content, chunk_of
from kvgate.workloads.replay_place import PAGE, direct_flag

try:
    import xxhash
except ImportError:  # then CRC-32, five times slower, and said so in what is told
    xxhash = None  # type: ignore[assignment]

MOST_TOLD = 20
"""Damaged chunks that are described one by one; all are counted."""

FLIPPED_BITS = 64
"""Up to so many wrong bits of a sector are told as flipped; more are other content."""


class Shape(NamedTuple):
    """How sessions lie: each has `places` chunks (all ranks'), of `chunk_bytes` (whole pages).

    The first `shared` of them are the same bytes in every session. `block_bytes` is what one read
    or write takes; with `extents` a session is one file, else each chunk is. `first` is the number
    by which the content of session 0 is made: another one on each host.
    """

    places: int
    chunk_bytes: int
    block_bytes: int
    shared: int = 0
    extents: bool = False
    direct: bool = True
    checked: bool = True
    first: int = 0


class Damage(NamedTuple):
    """A chunk that came back wrong: where, what kind, and what it is instead."""

    session: int
    place: int
    kind: str  # flipped, swapped, stale, zeroed, short, torn, misplaced, foreign, unreadable
    told: str


class LostError(Exception):
    """The path failed under a read or write: a device went away, or became read-only."""


def checker() -> str:
    """Return what blocks are checked by here."""
    return "crc32" if xxhash is None else "xxh3_64"


def _sum(data: memoryview) -> int:
    """Return the checksum; other threads go on meanwhile (xxhash's one-shot call holds the GIL)."""
    if xxhash is None:
        return zlib.crc32(data)
    state = xxhash.xxh3_64()
    state.update(data)
    return int(state.intdigest())


class Tier:
    """Sessions in a folder. Different chunks may be stored and restored by several threads."""

    def __init__(self, folder: Path, shape: Shape, content: Content) -> None:
        self.folder, self.shape, self.content = folder, shape, content
        self.sessions: collections.OrderedDict[int, int] = collections.OrderedDict()  # → version
        self._sums: dict[tuple[int, int], int] = {}
        direct = direct_flag() if shape.direct else 0
        self._read = os.O_RDONLY | os.O_CLOEXEC | direct
        self._write = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | direct

    @property
    def session_bytes(self) -> int:
        """Return the bytes of a session."""
        return self.shape.places * self.shape.chunk_bytes

    def path(self, session: int, place: int) -> tuple[Path, int]:
        """Return the file of a chunk and where in it the chunk begins."""
        if self.shape.extents:
            return self.folder / f"s{session}.kv", place * self.shape.chunk_bytes
        return self.folder / f"s{session}-c{place}.kv", 0

    def files(self, session: int) -> list[Path]:
        """Return the files that a session lies in."""
        places = [0] if self.shape.extents else range(self.shape.places)
        return [self.path(session, place)[0] for place in places]

    def chunk(self, session: int, place: int) -> int:
        """Return whose content a chunk has."""
        shape = self.shape
        return chunk_of(shape.first + session, place, shared=shape.shared, chunks=shape.places)

    def prepare(self, session: int) -> None:
        """Make an extent's file with its whole size, as engines do before they write into one.

        Writes that extend a file are one after the other. Where the file system can't reserve
        space, or has none, the file stays empty, and writing meets that.
        """
        if not self.shape.extents:
            return
        with contextlib.suppress(OSError):
            fd = os.open(self.path(session, 0)[0], self._write, 0o600)
            try:
                reserved(fd, self.session_bytes)
            finally:
                os.close(fd)

    def make(self, buffer: memoryview, session: int, place: int, version: int = 0) -> None:
        """Make a chunk's content in `buffer`."""
        self.content.fill(buffer, self.chunk(session, place), version)

    def remember(self, buffer: memoryview, session: int, place: int, version: int = 0) -> None:
        """Remember the checksum of what was made, to hold against what comes back."""
        self._sums[self.chunk(session, place), version] = _sum(buffer)

    def write(self, buffer: memoryview, session: int, place: int) -> None:
        """Store a chunk; raises OSError (ENOSPC: the tier is full), LostError."""
        path, start = self.path(session, place)
        fd = self._open(path, self._write, session, place)
        try:
            done = 0
            while done < len(buffer):
                part = buffer[done : done + self.shape.block_bytes]
                done += _counted(os.pwrite(fd, part, start + done), len(part))
        except OSError as err:
            raise self._lost(err, "written", session, place) from err
        finally:
            os.close(fd)

    def read(self, buffer: memoryview, session: int, place: int) -> int:
        """Restore a chunk into `buffer`; return how many bytes came. Raises LostError."""
        path, start = self.path(session, place)
        fd = self._open(path, self._read, session, place)
        try:
            done = 0
            while done < len(buffer):
                part = buffer[done : done + self.shape.block_bytes]
                came = os.preadv(fd, [part], start + done)
                done += came
                if came < len(part):
                    return done
        except OSError as err:
            raise self._lost(err, "read", session, place) from err
        finally:
            os.close(fd)
        return done

    def damage(self, buffer: memoryview, came: int, session: int, place: int) -> Damage | None:
        """Return what is wrong with a chunk that came back; None: it is what was stored."""
        if came < len(buffer):
            told = f"short: {came} of {len(buffer)} bytes came"
            return Damage(session, place, "short", told)
        version = self.sessions[session]
        chunk = self.chunk(session, place)
        if _sum(buffer) == self._sums[chunk, version]:
            return None
        return diagnosed(self, bytes(buffer), session, place, version)

    def evict(self, session: int) -> None:
        """Remove a session and its files."""
        del self.sessions[session]
        for path in self.files(session):
            path.unlink(missing_ok=True)

    def _open(self, path: Path, flags: int, session: int, place: int) -> int:
        try:
            return os.open(path, flags, 0o600)
        except OSError as err:
            raise self._lost(err, "opened", session, place) from err

    def _lost(self, err: OSError, done: str, session: int, place: int) -> Exception:
        """Return what an error of the system means: out of room stays what it is."""
        if err.errno in (errno.ENOSPC, errno.EDQUOT):
            return err
        why = f"session {session}, chunk {place} can't be {done}: {err.strerror}"
        return LostError(f"{why} (errno {errno.errorcode.get(err.errno or 0, err.errno)})")


def reserved(fd: int, size: int) -> bool:
    """Reserve `size` bytes for a file by fallocate(2); False where that can't be done.

    posix_fallocate(3) would write where the file system can't reserve.
    """
    call = getattr(ctypes.CDLL(None, use_errno=True), "fallocate64", None)
    if call is None:
        return False
    call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return bool(call(fd, 0, 0, size) == 0)


def _counted(came: int, wanted: int) -> int:
    if came == 0 and wanted:
        raise OSError(errno.ENOSPC, "nothing was written")
    return came


def diagnosed(tier: Tier, found: bytes, session: int, place: int, version: int) -> Damage:
    """Say what a wrong chunk holds: runs of equal findings over its sectors, and their kind."""
    want = tier.content.made(len(found), tier.chunk(session, place), version)
    runs: list[tuple[str, str, int, int]] = []  # kind, told, first sector, sectors
    for at in range(0, len(found), SECTOR):
        ours, theirs = want[at : at + SECTOR], found[at : at + SECTOR]
        kind, told = ("", "") if ours == theirs else _what(ours, theirs)
        if kind == "other":
            kind, told = _whose(tier, theirs, session, place, version, at // SECTOR)
        if runs and runs[-1][:2] == (kind, told):
            runs[-1] = (kind, told, runs[-1][2], runs[-1][3] + 1)
        else:
            runs.append((kind, told, at // SECTOR, 1))
    bad = [run for run in runs if run[0]]
    if not bad:
        return Damage(session, place, "flipped", "its checksum differs, but not when looked again")
    kinds = collections.Counter()  # type: collections.Counter[str]
    for kind, _, _, sectors in bad:
        kinds[kind] += sectors
    kind = kinds.most_common(1)[0][0]
    whole = sum(kinds.values()) == len(found) // SECTOR
    if not whole and kind in ("stale", "swapped"):
        kind = "torn"
    told = "; ".join(_told(run) for run in bad[:3])
    more = f"; {len(bad) - 3} more places" if len(bad) > 3 else ""
    return Damage(session, place, kind, f"{kind}: {told}{more}")


def _told(run: tuple[str, str, int, int]) -> str:
    _, told, first, sectors = run
    begin = first * SECTOR
    end = begin + sectors * SECTOR
    return f"block {begin // PAGE} (bytes {begin} to {end - 1}) {told}"


def _what(ours: bytes, theirs: bytes) -> tuple[str, str]:
    """Return the kind of a wrong sector where it needs no search: zeroed, or flipped bits."""
    if not any(theirs):
        return "zeroed", "is all zeros"
    wrong = int.from_bytes(ours, "little") ^ int.from_bytes(theirs, "little")
    bits = bin(wrong).count("1")
    if bits <= FLIPPED_BITS:
        first = (wrong & -wrong).bit_length() - 1
        plural = "s" if bits > 1 else ""
        return "flipped", f"has {bits} flipped bit{plural}, first bit {first} of its sector"
    return "other", ""


def _whose(
    tier: Tier, theirs: bytes, session: int, place: int, version: int, sector: int
) -> tuple[str, str]:
    """Return whose content a wrong sector is."""
    origin = tier.content.origin(theirs)
    if origin is None:
        return "foreign", "is no content of this replay"
    if origin.chunk != tier.chunk(session, place):
        owner = _owner(tier, origin.chunk)
        moved = "" if origin.sector == sector else f", moved by {sector - origin.sector} sectors"
        return "swapped", f"is {owner}{moved}"
    if origin.version != version:
        return "stale", f"is its version {origin.version}, not {version}"
    return "misplaced", f"is its own, moved by {sector - origin.sector} sectors"


def _owner(tier: Tier, chunk: int) -> str:
    places = tier.shape.places
    if chunk < places:
        return f"chunk {chunk} that all sessions share"
    session, place = divmod(chunk - places, places)
    if session < tier.shape.first:
        return f"chunk {place} of another host's session"
    return f"session {session - tier.shape.first}, chunk {place}"


def plants(tier: Tier) -> Iterator[tuple[str, int, int]]:
    """Damage five stored chunks of five kinds, yielding (kind, session, place) of each.

    For the check of the checks: each has to be found and named so. Takes two sessions of stored
    chunks, of at least eight pages each.
    """
    sessions = list(tier.sessions)
    first, second = sessions[0], sessions[1]
    last = tier.shape.places - 1
    spots = [(s, p) for p in range(last, -1, -1) for s in (first, second)]
    spots = [spot for spot in spots if spot[1] >= tier.shape.shared or spot[1] == last]
    doing: list[tuple[str, Callable[..., Any]]] = [
        ("flipped", _flip),
        ("zeroed", _zero),
        ("stale", _stale),
        ("short", _shorten),
        ("swapped", _swap),
    ]
    if tier.shape.extents:  # cutting a file leaves only its last chunk short
        doing.insert(0, doing.pop(3))
    for (kind, act), (session, place) in zip(doing, spots):  # noqa: B905  Python 3.8 knows no strict
        act(tier, session, place, other=spots[-1])
        yield kind, session, place


def _patched(tier: Tier, session: int, place: int, at: int, data: bytes) -> None:
    path, start = tier.path(session, place)
    with path.open("r+b") as file:
        file.seek(start + at)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _flip(tier: Tier, session: int, place: int, **_: object) -> None:
    at = tier.shape.chunk_bytes // 2
    chunk, version = tier.chunk(session, place), tier.sessions[session]
    right = tier.content.made(SECTOR, chunk, version, sector=at // SECTOR)
    _patched(tier, session, place, at // SECTOR * SECTOR, bytes([right[0] ^ 16]) + right[1:])


def _zero(tier: Tier, session: int, place: int, **_: object) -> None:
    _patched(tier, session, place, PAGE, bytes(PAGE))


def _stale(tier: Tier, session: int, place: int, **_: object) -> None:
    chunk, version = tier.chunk(session, place), tier.sessions[session]
    old = tier.content.made(tier.shape.chunk_bytes, chunk, version - 1 if version else 1)
    _patched(tier, session, place, 0, old)


def _shorten(tier: Tier, session: int, place: int, **_: object) -> None:
    path, start = tier.path(session, place)
    os.truncate(path, start + tier.shape.chunk_bytes // 2 // PAGE * PAGE)


def _swap(tier: Tier, session: int, place: int, *, other: tuple[int, int]) -> None:
    chunk, version = tier.chunk(*other), tier.sessions[other[0]]
    _patched(tier, session, place, 0, tier.content.made(tier.shape.chunk_bytes, chunk, version))
