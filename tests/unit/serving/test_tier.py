import errno
import os
import pathlib
import time
from collections.abc import Iterator

import numpy as np
import pytest

from kvgate.errors import UsageError
from kvgate.serving import pool as pool_module
from kvgate.serving.chunkfile import chunk_keys
from kvgate.serving.config import ModelConfig
from kvgate.serving.decoder import Cache
from kvgate.serving.metrics import Metrics, device_bytes_read
from kvgate.serving.tier import Tier

MODEL = "ab" * 32
TOKENS = list(range(64 * 4))
KEYS = chunk_keys(MODEL, TOKENS, 64)


class Bench:
    """A tier with four chunks stored."""

    def __init__(self, folder: pathlib.Path, config: ModelConfig) -> None:
        self.config = config
        self.metrics = Metrics("pico")
        self.tier = Tier(folder, config, MODEL, self.metrics)
        self.source = Cache(config, len(TOKENS))
        self.source.kv[:] = np.arange(self.source.kv.size).reshape(self.source.kv.shape)
        for index, key in enumerate(KEYS):
            self.tier.store(key, self.source, index)
        self.settle()

    def settle(self) -> None:
        deadline = time.monotonic() + 10
        while self.tier.pending and time.monotonic() < deadline:
            time.sleep(0.005)
        assert self.tier.pending == 0

    def restore(self) -> tuple[int, Cache]:
        cache = Cache(self.config, len(TOKENS))
        return self.tier.restore(KEYS, cache).chunks, cache

    def path(self, key: str) -> pathlib.Path:
        link = self.tier.pool.find(key)
        assert link is not None
        return self.tier.pool.path(link.name)

    def count(self, what: str) -> float:
        return self.metrics.count(f"kvgate:tier_{what}_total")


@pytest.fixture(params=["direct", "buffered"])
def bench(
    request: pytest.FixtureRequest,
    tmp_path: pathlib.Path,
    pico: ModelConfig,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Bench]:
    if request.param == "buffered":
        monkeypatch.setattr(pool_module, "takes_direct_reads", lambda _: False)
    made = Bench(tmp_path, pico)
    if request.param == "direct" and not made.tier.direct:
        made.tier.close()
        pytest.skip("this file system takes no direct reads")
    yield made
    made.tier.close()


def test_what_was_stored_comes_back(bench: Bench) -> None:
    used, cache = bench.restore()
    assert used == 4
    assert cache.kv.tobytes() == bench.source.kv.tobytes()
    size = 4096 + bench.config.block_bytes
    assert bench.count("read_bytes") == bench.count("written_bytes") == 4 * size
    assert (bench.count("chunks_hit"), bench.count("chunks_missed")) == (4, 0)
    assert not list(bench.tier.pool.folder.rglob("*.tmp"))


def test_a_chunk_counts_only_with_all_before_it(bench: Bench) -> None:
    bench.path(KEYS[1]).unlink()
    used, cache = bench.restore()
    assert used == 1
    assert not cache.kv[1:].any()
    assert (bench.count("chunks_hit"), bench.count("chunks_missed")) == (1, 3)


def cut(path: pathlib.Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def empty(path: pathlib.Path) -> None:
    os.truncate(path, 0)


def flip(path: pathlib.Path) -> None:
    data = bytearray(path.read_bytes())
    data[5000] ^= 1
    path.write_bytes(data)


def nan(path: pathlib.Path) -> None:
    path.write_bytes(path.read_bytes()[:4096] + b"\xff" * (path.stat().st_size - 4096))


def another(path: pathlib.Path) -> None:
    other = next(each for each in path.parent.parent.glob("*/*.kv") if each != path)
    path.write_bytes(other.read_bytes())


def longer(path: pathlib.Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0" * 4096)


@pytest.mark.parametrize("damage", [cut, empty, flip, nan, another, longer])
def test_a_damaged_chunk_is_counted_set_aside_and_stored_anew(bench: Bench, damage) -> None:
    path = bench.path(KEYS[2])
    damage(path)
    used, cache = bench.restore()
    assert used == 2
    assert cache.kv[:2].tobytes() == bench.source.kv[:2].tobytes()
    assert not cache.kv[2:].any()
    assert bench.count("chunks_damaged") == 1
    assert path.with_suffix(".damaged").exists()
    bench.tier.store(KEYS[2], bench.source, 2)
    bench.settle()
    assert bench.restore()[0] == 4


def test_a_read_error_is_damage(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "preadv", fail)
    assert bench.restore()[0] == 0
    assert bench.count("chunks_damaged") == 4


def test_a_full_disk_costs_a_chunk_and_leaves_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bench.path(KEYS[0])
    path.unlink()

    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "writev", fail)
        bench.tier.store(KEYS[0], bench.source, 0)
        bench.settle()
    assert bench.count("write_errors") == 1
    assert not path.exists()
    assert not list(bench.tier.pool.folder.rglob("*.tmp"))
    bench.tier.store(KEYS[0], bench.source, 0)
    bench.settle()
    assert bench.restore()[0] == 4


def test_a_chunk_is_written_once(bench: Bench) -> None:
    before = bench.path(KEYS[0]).stat()
    bench.tier.store(KEYS[0], bench.source, 0)
    bench.settle()
    assert bench.path(KEYS[0]).stat() == before
    assert bench.count("chunks_written") == 4


def test_what_a_killed_writer_left_is_never_read(bench: Bench) -> None:
    path = bench.path(KEYS[3])
    whole = path.read_bytes()
    path.unlink()
    path.with_suffix(".99-0.tmp").write_bytes(whole[:9000])
    assert bench.restore()[0] == 3


def test_restores_read_from_the_device(bench: Bench) -> None:
    before = device_bytes()
    bench.restore()
    delivered = bench.count("read_bytes")
    if bench.tier.direct:
        assert device_bytes() - before >= delivered


def device_bytes() -> int:
    found = device_bytes_read()
    if found is None:
        pytest.skip("this kernel does not count a process's device reads")
    return found


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: pathlib.Path, pico: ModelConfig) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="no KV tier"):
        Tier(tmp_path / "file", pico, MODEL, Metrics("pico"))
