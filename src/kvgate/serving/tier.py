"""The KV tier: hot chunks in memory, cold ones in a pool on disk; reads and writes have threads.

What the disk gives is checked and never trusted: a chunk that fails its check is counted, set
aside and computed again. Restores read with O_DIRECT where the file system takes it, and otherwise
from files whose pages were dropped, so that what is restored comes from the device.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import enum
import itertools
import pathlib
import queue
import threading
import time
from collections.abc import Iterator, Sequence

from kvgate.errors import ParseError
from kvgate.serving.codec import CodecMissingError
from kvgate.serving.config import ModelConfig
from kvgate.serving.decoder import Cache
from kvgate.serving.hot import HotTier
from kvgate.serving.metrics import Metrics
from kvgate.serving.pool import Link, NoChunkError, Pool, PoolOptions
from kvgate.serving.weights import Array

READ_THREADS = 4
WRITE_QUEUE_CHUNKS = 256
"""How many chunks may wait to be written; then the computing waits, rather than memory growing."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TierOptions:
    """How a tier is used: ``readers`` chunks are read at once (1: one by one, serially)."""

    readers: int = READ_THREADS
    hot_bytes: int = 0
    pool: PoolOptions = dataclasses.field(default_factory=PoolOptions)


@dataclasses.dataclass(frozen=True, slots=True)
class Restored:
    """How many leading chunks are in a cache now, and how many of them were hot in memory."""

    chunks: int
    hot: int


class _Came(enum.Enum):
    """What became of a chunk that was to be read."""

    WHOLE = enum.auto()
    GONE = enum.auto()
    DAMAGED = enum.auto()


class Tier:
    """The chunks of one model (its fingerprint) below one folder."""

    def __init__(
        self,
        folder: pathlib.Path,
        config: ModelConfig,
        fingerprint: str,
        metrics: Metrics,
        options: TierOptions | None = None,
    ) -> None:
        self.config = config
        self.fingerprint = fingerprint
        self.options = options or TierOptions()
        self.pool = Pool(folder, fingerprint, config.block_shape, self.options.pool)
        self.direct = self.pool.direct
        self.hot = HotTier(self.options.hot_bytes)
        self._metrics = metrics
        self._readers = concurrent.futures.ThreadPoolExecutor(self.options.readers, "tier-read")
        self._jobs: queue.Queue[tuple[str, Cache, int] | None] = queue.Queue(WRITE_QUEUE_CHUNKS)
        self._writer = threading.Thread(target=self._write_jobs, name="tier-write", daemon=True)
        self._writer.start()

    def restore(self, keys: Sequence[str], cache: Cache) -> Restored:
        """Bring the leading chunks of `keys` into `cache`; chunk i counts only if all before do.

        Blocks from the first one on that is missing or damaged are zero.
        """
        begun = time.monotonic()
        sources = list(self._sources(keys))
        apply = map if self.options.readers == 1 else self._readers.map
        came = list(apply(self._bring, range(len(sources)), keys, sources, itertools.repeat(cache)))
        used = next((n for n, each in enumerate(came) if each is not _Came.WHOLE), len(came))
        cache.clear(used, used=len(sources))
        hot = sum(not isinstance(source, Link) for source in sources[:used])
        missed = len(keys) - len(sources) + came.count(_Came.GONE)
        self._metrics.add("kvgate:hot_chunks_hit_total", hot)
        self._metrics.add("kvgate:tier_chunks_hit_total", used - hot)
        self._metrics.add("kvgate:tier_chunks_missed_total", missed)
        if used > hot:
            self._metrics.observe("kvgate:tier_restore_seconds", time.monotonic() - begun)
        return Restored(used, hot)

    def store(self, key: str, cache: Cache, block: int) -> None:
        """Have a finished block published; waits while too many are waiting already."""
        self.hot.put(key, cache.kv[block])
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

    def _sources(self, keys: Sequence[str]) -> Iterator[Array | Link]:
        """Yield each leading chunk where it is hot, else where it lies, up to one that is not."""
        for key in keys:
            found = self.hot.get(key)
            source = self.pool.find(key) if found is None else found
            if source is None:
                return
            yield source

    def _bring(self, index: int, key: str, source: Array | Link, cache: Cache) -> _Came:
        """Bring chunk `index` into its block."""
        if not isinstance(source, Link):
            cache.kv[index] = source
            return _Came.WHOLE
        try:
            got = self.pool.read(key, source, cache.bytes_of(index))
        except (NoChunkError, CodecMissingError):  # another process took it away, or can do more
            return _Came.GONE
        except (OSError, ParseError):
            self._metrics.add("kvgate:tier_chunks_damaged_total")
            self.pool.set_aside(key, source)
            return _Came.DAMAGED
        self._metrics.add("kvgate:tier_read_bytes_total", got)
        self.hot.put(key, cache.kv[index])
        return _Came.WHOLE

    def _write_jobs(self) -> None:
        while job := self._jobs.get():
            try:
                self._write(*job)
            except OSError:  # a full or failing disk costs chunks, not answers; it is counted
                self._metrics.add("kvgate:tier_write_errors_total")
            finally:
                self._jobs.task_done()

    def _write(self, key: str, cache: Cache, block: int) -> None:
        done = self.pool.publish(key, cache.bytes_of(block))
        for name, amount in (
            ("kvgate:tier_written_bytes_total", done.written),
            ("kvgate:tier_chunks_written_total", done.written > 0),
            ("kvgate:tier_chunks_deduplicated_total", done.deduplicated),
            ("kvgate:tier_chunks_compressed_total", done.compressed),
            ("kvgate:tier_chunks_refused_total", done.refused),
            ("kvgate:tier_chunks_evicted_total", done.evicted),
        ):
            if amount:
                self._metrics.add(name, amount)
