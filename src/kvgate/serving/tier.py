"""The KV tier on disk: publishes chunks crash-safely, reads them past the page cache, trusts none.

Publication is temporary file, fsync, rename: after a crash a chunk is whole or absent (the
folder itself is not fsync'd: a lost name is a miss, never a wrong chunk). A chunk that fails its
check is counted, set aside as ``*.damaged`` and never used. Restores read with O_DIRECT where
the file system takes it, and otherwise from files whose pages were dropped after fsync.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import mmap
import os
import pathlib
import queue
import threading
from collections.abc import Sequence

from kvgate.errors import ParseError, UsageError
from kvgate.serving import chunkfile
from kvgate.serving.config import PAGE_BYTES, ModelConfig
from kvgate.serving.decoder import Cache
from kvgate.serving.metrics import Metrics

READ_THREADS = 4
WRITE_QUEUE_CHUNKS = 256
"""How many chunks may wait to be written; then the computing waits, rather than memory growing."""


class Tier:
    """One folder of chunk files under one model fingerprint."""

    def __init__(
        self, folder: pathlib.Path, config: ModelConfig, fingerprint: str, metrics: Metrics
    ) -> None:
        self.config = config
        self.fingerprint = fingerprint
        self.folder = folder / fingerprint[:16]
        self._metrics = metrics
        self._names = itertools.count()
        self._headers = threading.local()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.direct = _takes_direct_reads(self.folder)
        except OSError as err:
            raise UsageError(f"{folder}: no KV tier can be kept here: {err.strerror}") from err
        self._readers = concurrent.futures.ThreadPoolExecutor(READ_THREADS, "tier-read")
        self._jobs: queue.Queue[tuple[str, Cache, int] | None] = queue.Queue(WRITE_QUEUE_CHUNKS)
        self._writer = threading.Thread(target=self._write_jobs, name="tier-write", daemon=True)
        self._writer.start()

    def path(self, key: str) -> pathlib.Path:
        """Return where the chunk of `key` is, or would be."""
        return self.folder / key[:2] / f"{key}.kv"

    def restore(self, keys: Sequence[str], cache: Cache) -> int:
        """Read the leading chunks of `keys` into `cache`; returns how many are whole.

        Chunk i counts only if all before it do; blocks from the first damaged one on are zero.
        """
        there = list(itertools.takewhile(lambda key: self.path(key).exists(), keys))
        jobs = (range(len(there)), there, itertools.repeat(cache))
        whole = list(self._readers.map(self._read, *jobs))
        used = whole.index(False) if False in whole else len(whole)
        cache.kv[used : len(there)] = 0
        self._metrics.add("kvgate:tier_chunks_hit_total", used)
        self._metrics.add("kvgate:tier_chunks_missed_total", len(keys) - len(there))
        return used

    def store(self, key: str, cache: Cache, block: int) -> None:
        """Have a finished block published; waits while too many are waiting already."""
        self._jobs.put((key, cache, block))

    @property
    def pending(self) -> int:
        """Return how many chunks are not published yet."""
        return self._jobs.unfinished_tasks

    def close(self) -> None:
        """Publish what waits, then end the threads."""
        self._jobs.put(None)
        self._writer.join()
        self._readers.shutdown()

    def _read(self, index: int, key: str, cache: Cache) -> bool:
        """Read chunk `index` into its block; tells whether it may be used."""
        path = self.path(key)
        payload = cache.bytes_of(index)
        try:
            page = self._read_file(path, payload)
            chunkfile.check(
                page,
                payload,
                fingerprint=self.fingerprint,
                key=key,
                shape=self.config.block_shape,
            )
        except FileNotFoundError:  # another process took it away meanwhile
            self._metrics.add("kvgate:tier_chunks_missed_total")
            return False
        except (OSError, ParseError):
            self._metrics.add("kvgate:tier_chunks_damaged_total")
            with contextlib.suppress(OSError):
                path.rename(path.with_suffix(".damaged"))
            return False
        return True

    def _read_file(self, path: pathlib.Path, payload: memoryview) -> bytes:
        """Read header and payload; raises ParseError where the file is not exactly as long."""
        page = self._header_buffer()
        descriptor = os.open(path, os.O_RDONLY | (os.O_DIRECT if self.direct else 0))
        try:
            size = os.fstat(descriptor).st_size
            if size != PAGE_BYTES + len(payload):
                raise ParseError(f"{path.name}: {size} B, not {PAGE_BYTES + len(payload)} B")
            if not self.direct:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            got = os.preadv(descriptor, [page, payload], 0)
        finally:
            os.close(descriptor)
        if got != size:
            raise ParseError(f"{path.name}: {got} of {size} B could be read")
        self._metrics.add("kvgate:tier_read_bytes_total", got)
        return page[:]

    def _header_buffer(self) -> mmap.mmap:
        """Return this thread's page-aligned buffer for headers."""
        if not hasattr(self._headers, "page"):
            self._headers.page = mmap.mmap(-1, PAGE_BYTES)
        page: mmap.mmap = self._headers.page
        return page

    def _write_jobs(self) -> None:
        while job := self._jobs.get():
            try:
                self._write(*job)
            except OSError:  # a full or failing disk costs chunks, not answers; it is counted
                self._metrics.add("kvgate:tier_write_errors_total")
            finally:
                self._jobs.task_done()

    def _write(self, key: str, cache: Cache, block: int) -> None:
        """Publish one chunk unless it is there: temporary file, fsync, drop its pages, rename."""
        path = self.path(key)
        if path.exists():
            return
        payload = cache.bytes_of(block)
        page = chunkfile.header(self.fingerprint, key, self.config.block_shape, payload)
        path.parent.mkdir(exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}-{next(self._names)}.tmp")
        try:
            _write_out(temporary, page, payload)
            temporary.rename(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        self._metrics.add("kvgate:tier_written_bytes_total", len(page) + len(payload))
        self._metrics.add("kvgate:tier_chunks_written_total")


def _write_out(path: pathlib.Path, page: bytes, payload: memoryview) -> None:
    """Write a file whole, fsync it, and drop its pages from the cache."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        size = len(page) + len(payload)
        if os.writev(descriptor, [page, payload]) != size:
            raise OSError(f"{path.name}: not all of {size} B could be written")
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def _takes_direct_reads(folder: pathlib.Path) -> bool:
    """Tell whether files here can be read with O_DIRECT (tmpfs, for one, may refuse)."""
    probe = folder / f".direct-{os.getpid()}.tmp"
    with mmap.mmap(-1, PAGE_BYTES) as page:
        try:
            _write_out(probe, b"", memoryview(page))
            descriptor = os.open(probe, os.O_RDONLY | os.O_DIRECT)
            try:
                return os.preadv(descriptor, [page], 0) == PAGE_BYTES
            finally:
                os.close(descriptor)
        except OSError:
            if not probe.exists():
                raise  # the folder can't be written to at all
            return False
        finally:
            probe.unlink(missing_ok=True)
