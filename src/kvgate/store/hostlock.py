"""One controller a host: a lock on a set of hosts that names its holder and ends with it.

A folder holds one file a holder, locked (flock) as long as the holder lives, with who it is and
which hosts it holds. Who wants hosts looks, one at a time, through the files of those that live.
Controllers that share the folder see each other, those that don't can't be known.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import fcntl
import os
import secrets
import socket
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from kvgate.errors import HostsInUseError, StoreError
from kvgate.store import disk
from kvgate.store.canonical import compact, parse, utc_text

MUTEX = "mutex"
SUFFIX = ".lock"
MUTEX_S = 20.0
"""How long others may take to look through the folder."""

ENDING_S = 60.0
"""How long the children of a holder that is gone may take to end in order."""

_POLL_S = 0.05
_NAMED = 3
_MOST_BYTES = 2**22

_held: set[int] = set()


def inherited() -> tuple[int, ...]:
    """Return the descriptors to pass to children: what is held stays so until they ended too."""
    return tuple(_held)


@dataclasses.dataclass(frozen=True, slots=True)
class Holder:
    """Who holds which hosts."""

    user: str
    host: str
    pid: int
    run: str
    since: str
    hosts: frozenset[str]

    def __str__(self) -> str:
        run = f", run {self.run}" if self.run else ""
        return f"{self.user} on {self.host}, process {self.pid}{run}, since {self.since}"

    @property
    def gone(self) -> bool:
        """Tell whether its process has ended here, so that only its children hold on."""
        return self.host == socket.gethostname() and not Path(f"/proc/{self.pid}").exists()


class HostLock:
    """The hosts in `hosts` (place → name for people), held until `release` or our end.

    Raises HostsInUseError, naming the holder, where another holds one of them; where that one is
    gone and only its children still end, waits for them. StoreError where the folder can't be
    written.
    """

    def __init__(self, folder: Path, hosts: Mapping[str, str], *, user: str, run: str = "") -> None:
        self._folder = folder
        self._me = Holder(
            user,
            socket.gethostname(),
            os.getpid(),
            run,
            utc_text(datetime.datetime.now(datetime.UTC)),
            frozenset(hosts),
        )
        with disk.told(folder, "making the folder of locks"):
            folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{os.getpid()}-{secrets.token_hex(4)}{SUFFIX}"
        self._fd = -1
        deadline = time.monotonic() + ENDING_S
        while self._fd < 0:
            with self._alone():
                other = next(_conflicts(folder, self._me.hosts), None)
                if other is None:
                    self._take()
                elif not other.gone or time.monotonic() > deadline:
                    raise _in_use(other, hosts)
            if self._fd < 0:
                time.sleep(_POLL_S)

    def name_run(self, run: str) -> None:
        """Tell others which run the hosts are held for."""
        self._me = dataclasses.replace(self._me, run=run)
        with self._alone():
            self._write()

    def release(self) -> None:
        """Let the hosts go; a second call does nothing."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            with contextlib.suppress(OSError):
                self._path.unlink()
            _held.discard(fd)
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Be the only one that looks at the folder; raises StoreError if it is never our turn."""
        path = self._folder / MUTEX
        with disk.told(path, "locking"):
            fd = _open(path, os.O_CREAT)
            try:
                deadline = time.monotonic() + MUTEX_S
                while not _lock(fd):
                    if time.monotonic() > deadline:
                        raise StoreError(
                            f"{path}: is held by a process that does not let go",
                            hint="is a kvgate stopped (Ctrl-Z)? let it go on, or end it",
                        )
                    time.sleep(_POLL_S)
                yield
            finally:
                os.close(fd)

    def _take(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(self._path, flags, 0o644)
        try:
            _lock(fd)
            self._fd = fd
            self._write()
            _held.add(fd)
        except BaseException:
            self._fd = -1
            os.close(fd)
            raise

    def _write(self) -> None:
        told = dataclasses.asdict(self._me) | {"hosts": sorted(self._me.hosts)}
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, compact(told) + b"\n", 0)


def machine_folder(bases: Iterable[Path] = (Path("/run/lock"), Path("/tmp"))) -> Path | None:  # noqa: S108
    """Return the folder of locks that all users of this machine share; None where there is none.

    It is in the first of `bases` that everybody may write to, and whoever comes first makes it; a
    link or a folder that others may not write to is not used.
    """
    everybodys = stat.S_ISVTX | stat.S_IWOTH
    for base in bases:
        with contextlib.suppress(OSError):
            if base.lstat().st_mode & everybodys != everybodys or base.is_symlink():
                continue
            folder = base / "kvgate"
            with contextlib.suppress(FileExistsError):
                folder.mkdir()
                folder.chmod(0o1777)
            found = folder.lstat().st_mode
            return folder if stat.S_ISDIR(found) and found & everybodys == everybodys else None
    return None


def _open(path: Path, more: int = 0) -> int:
    """Open a file to lock it; another user's, which can't be written, to read."""
    flags = os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, os.O_RDWR | flags | more, 0o644)
    except PermissionError:
        return os.open(path, os.O_RDONLY | flags)


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _conflicts(folder: Path, hosts: frozenset[str]) -> Iterator[Holder]:
    """Yield who lives and holds one of `hosts`; removes the files of those who don't live."""
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            fd = _open(path)
        except FileNotFoundError:
            continue  # released just now
        try:
            if _lock(fd):
                with contextlib.suppress(PermissionError):  # another user's: they remove it
                    path.unlink(missing_ok=True)
                continue
            other = _holder(os.pread(fd, _MOST_BYTES, 0), hosts)
        finally:
            os.close(fd)
        if other.hosts & hosts:
            yield other


def _holder(data: bytes, hosts: frozenset[str]) -> Holder:
    """Return what a holder says; one that says nothing readable holds everything."""
    try:
        told = parse(data)
        return Holder(**{**told, "hosts": frozenset(told["hosts"])})
    except (ValueError, KeyError, TypeError):
        return Holder("somebody", "this workspace", os.getpid(), "", "an unknown time", hosts)


def _in_use(other: Holder, hosts: Mapping[str, str]) -> HostsInUseError:
    shared = sorted(hosts[place] for place in other.hosts & hosts.keys())
    return HostsInUseError(
        f"{_list(shared)}: in use by {other}",
        hint="wait for it, or end that process: the lock ends with it and its children",
    )


def _list(names: Iterable[str]) -> str:
    every = list(names)
    more = len(every) - _NAMED
    return ", ".join(every[:_NAMED]) + (f" and {more} more" if more > 0 else "")
