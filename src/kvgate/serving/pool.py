"""A folder of KV chunks, shared by any number of engines: equal payloads are stored once.

    blocks/ab/ab12….kv     a chunk file (`serving.chunkfile`), named by the SHA-256 of its payload
    links/cd/cd34…         what leads from a chunk's key to its file: a symbolic link that says
                           NAME.TAG, TAG binding this key to that payload
    size                   how many bytes there are (`serving.ledger`)

Publication is temporary file, fsync, rename, then the link: after a crash a chunk is whole or
absent (folders are not fsync'd: a lost name is a miss, never a wrong chunk). A link whose file is
gone is a miss too. Files being read or written are locked, and what is locked is not evicted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import mmap
import os
import pathlib
import threading
import time
import uuid
from collections.abc import Collection, Iterator, Sequence

from kvgate.errors import ParseError, UsageError
from kvgate.serving import chunkfile, codec
from kvgate.serving.config import PAGE_BYTES
from kvgate.serving.ledger import Ledger

_NAME_DIGITS = 32
_TAG_DIGITS = 16
_TOUCHED_S = 5.0  # how old a file's last use is before it is noted again


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """How a pool is kept: its bound (None: none), by content or by key, and how compressed."""

    limit_bytes: int | None = None
    dedup: bool = True
    compress: str = codec.PLAIN


@dataclasses.dataclass(frozen=True, slots=True)
class Link:
    """Where a key leads to: a chunk file's name, and what binds the two."""

    name: str
    tag: str


@dataclasses.dataclass(frozen=True, slots=True)
class Published:
    """What storing a chunk did: bytes written (0: it was there, or no room), chunks evicted."""

    written: int = 0
    deduplicated: bool = False
    compressed: bool = False
    refused: bool = False
    evicted: int = 0


class NoChunkError(Exception):
    """There is no file where a link leads, or it is just being evicted: a miss."""


class Pool:
    """The chunks of one model in one folder; raises UsageError where it can't be kept there."""

    def __init__(
        self, folder: pathlib.Path, fingerprint: str, shape: Sequence[int], options: PoolOptions
    ) -> None:
        self.folder = folder / fingerprint[:16]
        self.options = options
        self._fingerprint = fingerprint
        self._shape = shape
        self._buffers = threading.local()
        codec.need(options.compress)
        try:
            for each in ("blocks", "links"):
                (self.folder / each).mkdir(parents=True, exist_ok=True)
            self.direct = takes_direct_reads(self.folder)
            self.ledger = Ledger(self.folder, options.limit_bytes)
        except OSError as err:
            raise UsageError(
                f"{folder}: no KV tier can be kept here: {err.strerror}",
                hint="name a folder that this user can write to, on the storage under test",
            ) from err

    def path(self, name: str) -> pathlib.Path:
        """Return where the chunk file `name` is, or would be."""
        return self.folder / "blocks" / name[:2] / f"{name}.kv"

    def link_path(self, key: str) -> pathlib.Path:
        """Return where the link of `key` is, or would be."""
        return self.folder / "links" / key[:2] / key

    def find(self, key: str) -> Link | None:
        """Return where `key` leads to, None where it was never stored or evicted since."""
        try:
            name, _, tag = os.readlink(self.link_path(key)).partition(".")  # noqa: PTH115  a text
        except OSError:
            return None
        if not name.isalnum() or len(name) != _NAME_DIGITS or not self.path(name).exists():
            return None
        return Link(name, tag)

    def read(self, key: str, link: Link, payload: memoryview) -> int:
        """Read a chunk into `payload`; returns how many bytes of its file were read.

        Raises NoChunkError for a miss, ParseError for one that is not what was stored,
        CodecMissingError for one that can't be read here, OSError where the disk fails.
        """
        with self._open(link.name) as descriptor:
            told = os.fstat(descriptor)
            size = told.st_size
            page, packed = self._page(), payload
            if not 0 < size - PAGE_BYTES <= len(payload) or size % PAGE_BYTES:
                raise ParseError(f"chunk {link.name}: {size} B is no size of a chunk")
            if size - PAGE_BYTES < len(payload):
                packed = self._packed(size - PAGE_BYTES)
            if (got := os.preadv(descriptor, [page, packed], 0)) != size:
                raise ParseError(f"chunk {link.name}: {got} of {size} B could be read")
            if time.time() - told.st_mtime > _TOUCHED_S:  # what was used last is evicted last
                with contextlib.suppress(OSError):
                    os.utime(descriptor)
        facts = self._facts(page[:], link.name)
        if link.tag != _tag(key, facts.sha256):
            raise ParseError(f"chunk {key}: its link leads to another chunk, {link.name}")
        if not 0 < facts.stored <= len(packed):
            raise ParseError(f"chunk {link.name}: {facts.stored} B in a file of {size} B")
        chunkfile.check(facts, packed[: facts.stored], name=link.name)
        if facts.codec != codec.PLAIN:
            codec.unpack(facts.codec, packed[: facts.stored], payload)
        elif packed is not payload:
            raise ParseError(f"chunk {link.name}: {facts.stored} B, not {len(payload)} B")
        return size

    def publish(self, key: str, payload: memoryview) -> Published:
        """Store a chunk unless it is there; raises OSError where the disk is full or fails."""
        if self.find(key) is not None:
            return Published()
        sha256 = hashlib.sha256(payload).hexdigest()
        name = (sha256 if self.options.dedup else key)[:_NAME_DIGITS]
        done = Published(deduplicated=True)
        if not self._holds(name, sha256):
            done = self._write(name, sha256, payload)
        if not done.refused:
            self._lead(key, f"{name}.{_tag(key, sha256)}")
        return done

    def set_aside(self, key: str, link: Link) -> None:
        """Take a damaged chunk out of use, kept as ``*.damaged``; its link goes."""
        path = self.path(link.name)
        with contextlib.suppress(OSError):
            path.rename(path.with_suffix(".damaged"))
        with contextlib.suppress(OSError):
            self.link_path(key).unlink()

    # reading

    @contextlib.contextmanager
    def _open(self, name: str) -> Iterator[int]:
        """Open a chunk file, locked against eviction; raises NoChunkError where there is none."""
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(self.path(name), flags | (os.O_DIRECT if self.direct else 0))
        except FileNotFoundError as err:
            raise NoChunkError(name) from err
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError as err:
                raise NoChunkError(name) from err
            if not self.direct:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            yield descriptor
        finally:
            os.close(descriptor)

    def _facts(self, page: bytes, name: str) -> chunkfile.Facts:
        return chunkfile.read_header(
            page, fingerprint=self._fingerprint, shape=self._shape, name=name
        )

    def _page(self) -> mmap.mmap:
        """Return this thread's page-aligned buffer for headers."""
        if not hasattr(self._buffers, "page"):
            self._buffers.page = mmap.mmap(-1, PAGE_BYTES)
        page: mmap.mmap = self._buffers.page
        return page

    def _packed(self, size: int) -> memoryview:
        """Return this thread's page-aligned buffer for `size` compressed bytes."""
        if not hasattr(self._buffers, "packed") or len(self._buffers.packed) < size:
            self._buffers.packed = memoryview(mmap.mmap(-1, size))
        packed: memoryview = self._buffers.packed
        return packed[:size]

    # writing

    def _holds(self, name: str, sha256: str) -> bool:
        """Tell whether the payload with this digest is stored; it counts as used now."""
        try:
            with self._open(name) as descriptor:
                page = self._page()
                if os.preadv(descriptor, [page], 0) != PAGE_BYTES:
                    return False
                os.utime(descriptor)
            return self._facts(page[:], name).sha256 == sha256
        except (OSError, ParseError, NoChunkError):
            return False

    def _write(self, name: str, sha256: str, payload: memoryview) -> Published:
        """Write a chunk file where it is to be: room, temporary file, fsync, rename."""
        packed = codec.pack(self.options.compress, payload)
        used = codec.PLAIN if packed is None else self.options.compress
        facts = chunkfile.facts_of_stored(sha256, used, payload if packed is None else packed)
        parts: list[bytes | memoryview] = [
            chunkfile.header(self._fingerprint, self._shape, facts),
            payload if packed is None else packed.ljust(-(-len(packed) // PAGE_BYTES) * PAGE_BYTES),
        ]
        size = sum(len(part) for part in parts)
        path = self.path(name)
        path.parent.mkdir(exist_ok=True)
        temporary = path.with_name(f"{name}-{uuid.uuid4().hex}.tmp")
        descriptor, gone = self.ledger.create(temporary, size)
        self._unlink_links(gone)
        if descriptor is None:
            return Published(refused=True, evicted=len(gone))
        try:
            _fill(descriptor, parts, temporary, path)
        except OSError:
            self.ledger.remove(temporary, size)
            raise
        return Published(written=size, compressed=packed is not None, evicted=len(gone))

    def _lead(self, key: str, text: str) -> None:
        """Have the link of `key` say `text`, at once whatever it said before."""
        path = self.link_path(key)
        path.parent.mkdir(exist_ok=True)
        try:
            path.symlink_to(text)
        except FileExistsError:
            temporary = path.with_name(f"{key}-{uuid.uuid4().hex}.tmp")
            temporary.symlink_to(text)
            temporary.rename(path)

    def _unlink_links(self, gone: Collection[str]) -> None:
        """Remove the links that lead to chunk files that were evicted."""
        names = set(gone)
        for path in (self.folder / "links").glob("*/*") if names else ():
            with contextlib.suppress(OSError):
                if os.readlink(path).partition(".")[0] in names:  # noqa: PTH115  a text
                    path.unlink()


def _tag(key: str, sha256: str) -> str:
    return hashlib.sha256(f"{key} {sha256}".encode()).hexdigest()[:_TAG_DIGITS]


def _fill(
    descriptor: int, parts: Sequence[bytes | memoryview], path: pathlib.Path, then: pathlib.Path
) -> None:
    """Write an open file whole, fsync it, drop its pages from the cache, rename it, close it."""
    try:
        size = sum(len(part) for part in parts)
        if os.writev(descriptor, parts) != size:
            raise OSError(f"{path.name}: not all of {size} B could be written")
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        path.rename(then)
    finally:
        os.close(descriptor)


def takes_direct_reads(folder: pathlib.Path) -> bool:
    """Tell whether files here can be read with O_DIRECT (tmpfs, for one, may refuse).

    Raises OSError where none can be made.
    """
    probe = folder / f".direct-{uuid.uuid4().hex}.tmp"
    os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        with contextlib.suppress(OSError):  # on a full disk an empty file tells as much
            probe.write_bytes(bytes(PAGE_BYTES))
        descriptor = os.open(probe, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
        try:
            with mmap.mmap(-1, PAGE_BYTES) as page:
                return os.preadv(descriptor, [page], 0) in (0, PAGE_BYTES)
        finally:
            os.close(descriptor)
    except OSError:
        return False
    finally:
        probe.unlink(missing_ok=True)
