"""What lies where in a run folder, and which names may; every path in it is relative."""

from __future__ import annotations

import dataclasses
import errno
import io
import os
import re
import stat
from pathlib import Path

from kvgate.errors import DamagedRunError, StoreError

FORMAT = "kvgate-run/1"
MANIFEST = "manifest.json"
INPUTS = "inputs"
JOURNAL = "journal.jsonl"
MEASUREMENTS = "measurements.jsonl"
EVIDENCE = "evidence"
TELEMETRY = "telemetry.jsonl"
SERIES = "telemetry"
"""The folder of telemetry's logs and columnar files (`kvgate.telemetry.hours`)."""
LOCK = "lock"
SUMS = "SHA256SUMS"

_SUMS_NAME = re.compile(rf"{SUMS}(?:\.[1-9]\d{{0,3}})?", re.ASCII)
_RUN_FILES = frozenset({MANIFEST, JOURNAL, MEASUREMENTS, TELEMETRY})
_LONGEST_NAME_BYTES = 255
_DEEPEST = 32


def unknown_format(what: str, found: object, known: str) -> StoreError:
    """Return the error for something of a format that this kvgate does not read.

    `known` is the one it reads, ``kvgate-run/1``; a higher number is that of a newer kvgate.
    """
    text = str(found)
    name, _, number = text.partition("/")
    ours, _, newest = known.partition("/")
    if name == ours and number.isdecimal() and number.isascii() and int(number) > int(newest):
        return StoreError(
            f"{what}: is of format {shown(text)}, which is newer than {known}, the newest that "
            "this kvgate reads",
            hint="use the kvgate that wrote it (its manifest names the version), or a later one",
        )
    return StoreError(
        f"{what}: is of format {shown(text)}; this kvgate reads {known}",
        hint="use the kvgate that wrote it, or one that says it reads this format",
    )


def safe_name(name: str) -> str:
    """Return `name` if it is a relative path that can't lead out of a folder or trick a reader.

    Printable, ``/`` between parts, no part empty, ``.``, ``..`` or beginning with ``-``, no
    backslash (sha256sum would escape it); raises StoreError otherwise.
    """
    parts = name.split("/")
    fine = (
        name.isprintable()
        and "\\" not in name
        and len(parts) <= _DEEPEST
        and all(
            part not in ("", ".", "..")
            and not part.startswith("-")
            and part == part.strip()
            and len(part.encode()) <= _LONGEST_NAME_BYTES
            for part in parts
        )
    )
    if not fine:
        raise StoreError(
            f"{shown(name)} is not a safe name for a file in a run",
            hint="a relative path of printable characters, without '..' and backslashes",
        )
    return name


def plain(name: str) -> str:
    """Return `name`, escaped where a terminal could obey it."""
    return name if name.isprintable() else ascii(name)


def shown(name: str) -> str:
    """Return `name` for a message: quoted, and escaped where a terminal could obey it."""
    return f"'{name}'" if name.isprintable() else ascii(name)


def sums_name(layer: int) -> str:
    """Return the name of a seal layer's file (SHA256SUMS, SHA256SUMS.1, …)."""
    return f"{SUMS}.{layer}" if layer else SUMS


def is_sums_name(name: str) -> bool:
    """Tell whether `name` is that of a seal layer's file."""
    return _SUMS_NAME.fullmatch(name) is not None


def belongs_to_run(name: str) -> bool:
    """Tell whether the first seal layer covers `name`: what the run itself wrote."""
    return name in _RUN_FILES or name.startswith((f"{INPUTS}/", f"{EVIDENCE}/", f"{SERIES}/"))


def is_sealed(path: Path) -> bool:
    """Tell whether the run at `path` has a first seal layer."""
    return os.path.lexists(path / SUMS)


def open_regular(path: Path) -> io.BufferedReader:
    """Open a file for reading; never a link, device or pipe. Raises StoreError."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as err:
        raise DamagedRunError(f"{path}: is missing") from err
    except OSError as err:
        if err.errno == errno.ELOOP:
            raise StoreError(f"{path}: is a symbolic link: not followed") from err
        raise StoreError(f"{path}: can't be read: {err.strerror}") from err
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise StoreError(f"{path}: is not a file")
    return io.BufferedReader(io.FileIO(fd, "rb"), buffer_size=1 << 20)


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a regular file; raises StoreError."""
    with open_regular(path) as file:
        try:
            return file.read()
        except OSError as err:
            raise StoreError(f"{path}: can't be read: {err.strerror}") from err


def beginning(path: Path, most: int) -> bytes:
    """Return a regular file's bytes; of one that is longer than `most`, enough to be refused."""
    with open_regular(path) as file:
        return file.read(most + 1)


@dataclasses.dataclass(frozen=True, slots=True)
class Listing:
    """What a run folder holds: regular files (relative name → bytes) and everything else."""

    files: dict[str, int]
    strange: dict[str, str]  # relative name → what it is: "a symbolic link", …


def listing(path: Path) -> Listing:
    """Return what lies below `path`, following no link; raises StoreError if it can't be read."""
    found = Listing({}, {})
    _list(path, "", found)
    return found


def refuse_links(path: Path) -> None:
    """Raise StoreError where run folder `path` holds a link, pipe or device.

    Whoever is about to write into it would else write where the link leads.
    """
    strange = listing(path).strange
    for name, what in strange.items():
        raise StoreError(
            f"{path.name}: {shown(name)} in it is {what}: nothing is written there",
            hint="a run holds files and folders only: find out who put it there, and remove it",
        )


def _list(folder: Path, prefix: str, found: Listing) -> None:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        for entry in entries:
            name = prefix + entry.name
            info = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(info.st_mode):
                found.files[name] = info.st_size
            elif not stat.S_ISDIR(info.st_mode):
                found.strange[name] = _what(info.st_mode)
            elif name.count("/") + 1 >= _DEEPEST:
                found.strange[name] = "a folder too deep to look into"
            else:
                _list(folder / entry.name, name + "/", found)
    except OSError as err:
        raise StoreError(f"{folder}: can't be listed: {err.strerror}") from err


def _what(mode: int) -> str:
    kinds = (
        (stat.S_ISLNK, "a symbolic link"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
    )
    return next((what for is_kind, what in kinds if is_kind(mode)), "a device")
