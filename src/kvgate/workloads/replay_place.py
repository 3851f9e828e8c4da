"""Where replay works on a host: its own folder, what lies below it, and bytes counted there.

Runs on hosts: the standard library of Python 3.8.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import resource
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

PAGE = 4096
"""What O_DIRECT's offsets, sizes and addresses are aligned to: enough for every block device."""

MARKER = ".kvgate-scratch"
"""As `workloads.base.MARKER`, which does not travel."""

HELD = ".kvgate-replay"
"""The file that a replay holds locked as long as it lives: a folder whose lock is free is left."""

_LEFT = re.compile(r"kvgate-replay-[A-Za-z0-9]{8}")
_MEMORY = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")
_TOKEN_BYTES = 32


class PlaceRefusedError(Exception):
    """Nothing can be measured here: why, and what to do."""

    def __init__(self, why: str, hint: str) -> None:
        super().__init__(why)
        self.why, self.hint = why, hint


class Place(NamedTuple):
    """What a folder lies on. ``device`` is MAJ:MIN of a block device; "" where there is none."""

    folder: Path
    file_system: str
    source: str
    device: str
    free_bytes: int


class Counted(NamedTuple):
    """Counters at one moment: of the device, of this process, of the clock and of the CPU."""

    device_read: int
    device_written: int
    process_read: int
    wall_s: float
    cpu_s: float


def place_of(folder: Path, *, direct: bool) -> Place:
    """Return what `folder` lies on; raises PlaceRefusedError where nothing can be measured."""
    number = folder.stat().st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    kind, source = _mount(device)
    if kind in _MEMORY:
        raise PlaceRefusedError(
            f"{folder} lies in memory ({kind}), on no device", "name a folder on the storage"
        )
    if kind == "overlay":
        raise PlaceRefusedError(
            f"{folder} lies on an overlay: what is below it is not told",
            "name a folder of the file system below, a volume that is mounted by itself",
        )
    if direct:
        _takes_direct(folder, kind)
    room = os.statvfs(folder)
    there = Path(f"/sys/dev/block/{device}/stat").exists()
    return Place(folder, kind, source, device if there else "", room.f_bavail * room.f_frsize)


def _mount(device: str) -> tuple[str, str]:
    """Return type and source of the file system whose number is `device`."""
    for line in Path("/proc/self/mountinfo").read_text("utf-8", "replace").splitlines():
        left, _, right = line.partition(" - ")
        if left.split()[2:3] == [device] and len(right.split()) >= 2:
            return right.split()[0], right.split()[1]
    return "unknown", ""


def _takes_direct(folder: Path, kind: str) -> None:
    path = folder / "direct"
    hint = "give --buffered, where the page cache is emptied before each read, or another folder"
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | direct_flag(), 0o600)
    except OSError as err:
        told = f"{folder} ({kind}) takes no O_DIRECT: {err.strerror}"
        raise PlaceRefusedError(told, hint) from err
    try:
        with aligned(PAGE) as buffer:
            os.pwrite(fd, buffer, 0)
            os.preadv(fd, [buffer], 0)
    except OSError as err:
        told = f"{folder} ({kind}) takes no O_DIRECT of {PAGE} bytes: {err.strerror}"
        raise PlaceRefusedError(told, hint) from err
    finally:
        os.close(fd)
        path.unlink()


def direct_flag() -> int:
    """Return O_DIRECT; raises PlaceRefusedError where this system knows none."""
    flag: int = getattr(os, "O_DIRECT", 0)
    if not flag:
        raise PlaceRefusedError("this system knows no O_DIRECT", "give --buffered")
    return flag


@contextlib.contextmanager
def aligned(size: int) -> Iterator[memoryview]:
    """Yield a buffer of its own pages, as O_DIRECT takes it, to be used again and again."""
    import mmap

    pages = mmap.mmap(-1, size)
    huge = getattr(mmap, "MADV_HUGEPAGE", None)
    if huge is not None:
        with contextlib.suppress(OSError):  # a kernel without them
            pages.madvise(huge)
    view = memoryview(pages)
    try:
        yield view
    finally:
        with contextlib.suppress(BufferError):  # an array still looks at it; it goes with that
            view.release()
            pages.close()


def refuse_buffers(need: int) -> None:
    """Raise PlaceRefusedError where buffers of `need` bytes take over half of the memory left.

    Where Linux does not tell MemAvailable (before 3.14), nothing is refused.
    """
    told = Path("/proc/meminfo").read_text("ascii")
    match = re.search(r"^MemAvailable: +(\d+) kB$", told, re.MULTILINE)
    if match and need > int(match[1]) * 1024 // 2:
        raise PlaceRefusedError(
            f"buffers of all readers would take {need / 1e9:.1f} GB, and only "
            f"{int(match[1]) * 1024 / 1e9:.1f} GB of this host's memory are available",
            "ask for fewer readers or ranks, or fewer tokens a chunk",
        )


def hold(folder: Path) -> int:
    """Lock `folder` for as long as this process lives; return the lock's descriptor."""
    fd = os.open(folder / HELD, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return fd


def remove_left(beside: Path) -> list[str]:
    """Remove folders beside `beside` that a killed replay left; return their names.

    Ours are those of our name, our user, with the marker and a lock that nobody holds.
    """
    gone = []
    for path in sorted(beside.parent.iterdir()):
        if path == beside or not _LEFT.fullmatch(path.name) or not _is_ours(path):
            continue
        try:
            fd = os.open(path / HELD, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path)
            gone.append(path.name)
        except OSError:
            continue
        finally:
            os.close(fd)
    return gone


def _is_ours(path: Path) -> bool:
    try:
        marked = (path / MARKER).read_bytes()
        return (
            path.is_dir()
            and not path.is_symlink()
            and path.stat().st_uid == os.geteuid()
            and len(marked) == _TOKEN_BYTES
        )
    except OSError:
        return False


def counted(place: Place) -> Counted:
    """Read all counters now; ``-1`` for what nobody counts here."""
    read, written = _device_bytes(place.device)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return Counted(
        read, written, _process_read(), time.perf_counter(), usage.ru_utime + usage.ru_stime
    )


def _device_bytes(device: str) -> tuple[int, int]:
    """Return bytes read and written by a block device (Documentation/block/stat.rst).

    The head of a multipath NVMe namespace counts nothing in older kernels; its paths do.
    """
    if not device:
        return -1, -1
    base = Path(f"/sys/dev/block/{device}")
    found = [_stat(base / "stat")]
    head = re.fullmatch(r"nvme(\d+)n(\d+)", base.resolve().name)
    if head:
        paths = Path("/sys/class/nvme-subsystem").glob(f"*/nvme*/nvme{head[1]}c*n{head[2]}/stat")
        ways = {path.resolve() for path in paths}
        if ways:
            each = [_stat(path) for path in sorted(ways)]
            found.append((sum(read for read, _ in each), sum(written for _, written in each)))
    return max(read for read, _ in found), max(written for _, written in found)


def _stat(path: Path) -> tuple[int, int]:
    try:
        words = path.read_text("ascii").split()
        return int(words[2]) * 512, int(words[6]) * 512
    except (OSError, IndexError, ValueError):  # it went away
        return -1, -1


def _process_read() -> int:
    """Return what this process had read from storage (proc(5), io: read_bytes)."""
    try:
        told = Path("/proc/self/io").read_text("ascii")
    except OSError:
        return -1
    match = re.search(r"^read_bytes: (\d+)$", told, re.MULTILINE)
    return int(match[1]) if match else -1


def make_cold(files: Sequence[Path], *, drop_caches: bool) -> list[str]:
    """Take files out of the page cache, and tell how; all caches of the host where asked."""
    how = []
    for path in files:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fdatasync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)
    how.append("fadvise")
    if drop_caches:
        try:
            Path("/proc/sys/vm/drop_caches").write_text("1\n", "ascii")
            how.append("drop_caches")
        except OSError as err:
            how.append(f"no drop_caches: {err.strerror}")
    return how
