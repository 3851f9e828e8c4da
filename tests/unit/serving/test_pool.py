import contextlib
import fcntl
import os
import pathlib
import subprocess
import sys
import time

import numpy as np
import pytest

from kvgate.errors import ParseError, UsageError
from kvgate.serving.ledger import LEFT_AFTER_S, Ledger
from kvgate.serving.pool import NoChunkError, Pool, PoolOptions

MODEL = "ab" * 32
SHAPE = (4, 4096)
SIZE = 4 * 4096 * 4
FILE = SIZE + 4096


def key(number: int) -> str:
    return f"{number:064x}"


def payload(number: int) -> memoryview:
    """Return noise, the same for the same number."""
    return memoryview(np.random.default_rng(number).bytes(SIZE))


def smooth(number: int) -> memoryview:
    """Return float32 numbers as they come: sign and exponent say little, all else is noise."""
    numbers = np.random.default_rng(number).standard_normal(SIZE // 4, dtype=np.float32)
    return memoryview(numbers.tobytes())


def pool(folder: pathlib.Path, **options) -> Pool:
    return Pool(folder, MODEL, SHAPE, PoolOptions(**options))


def room() -> memoryview:
    """Return memory for a payload, as direct reads want it."""
    into = np.zeros(SIZE + 4096, np.uint8)
    start = -into.ctypes.data % 4096
    return memoryview(into)[start : start + SIZE]


def read(pool: Pool, number: int) -> bytes:
    link = pool.find(key(number))
    assert link is not None
    view = room()
    pool.read(key(number), link, view)
    return bytes(view)


def files(pool: Pool) -> list[pathlib.Path]:
    return sorted((pool.folder / "blocks").glob("*/*"))


def test_equal_payloads_are_stored_once(tmp_path: pathlib.Path) -> None:
    made = pool(tmp_path)
    assert made.publish(key(1), payload(7)).written == FILE
    again = made.publish(key(2), payload(7))
    assert (again.written, again.deduplicated) == (0, True)
    assert len(files(made)) == 1
    assert made.ledger.used_bytes == FILE
    assert read(made, 1) == read(made, 2) == payload(7)


def test_without_dedup_every_key_has_its_own(tmp_path: pathlib.Path) -> None:
    made = pool(tmp_path, dedup=False)
    for number in (0x1 << 200, 0x2 << 200):
        made.publish(key(number), payload(7))
    assert len(files(made)) == 2
    assert read(made, 1 << 200) == payload(7)


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_what_shrinks_is_compressed_and_what_does_not_stays(tmp_path, codec: str) -> None:
    made = pool(tmp_path, compress=codec)
    zeros = memoryview(bytes(SIZE))
    assert made.publish(key(1), zeros).compressed
    assert not made.publish(key(2), payload(2)).compressed
    assert read(made, 1) == bytes(SIZE)
    assert read(made, 2) == payload(2)
    other = pool(tmp_path)  # compresses nothing itself, and reads what others did
    assert read(other, 1) == bytes(SIZE)


def test_zstd_saves_a_tenth_of_what_a_model_computes(tmp_path: pathlib.Path) -> None:
    made = pool(tmp_path, compress="zstd")
    done = made.publish(key(1), smooth(1))
    assert done.compressed
    assert done.written < 0.92 * FILE
    assert read(made, 1) == smooth(1)


def test_a_damaged_compressed_chunk_is_found(tmp_path: pathlib.Path) -> None:
    made = pool(tmp_path, compress="zstd")
    made.publish(key(1), memoryview(bytes(SIZE)))
    [path] = files(made)
    data = bytearray(path.read_bytes())
    data[4100] ^= 1
    path.write_bytes(data)
    with pytest.raises(ParseError, match="checksum"):
        read(made, 1)


def test_an_unknown_compression_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match="'gzip' is no compression"):
        pool(tmp_path, compress="gzip")


def test_a_link_to_another_chunk_is_found(tmp_path: pathlib.Path) -> None:
    """Else a session would be answered from another one's KV."""
    made = pool(tmp_path)
    for number in (1, 2):
        made.publish(key(number), payload(number))
    made.link_path(key(1)).unlink()
    made.link_path(key(2)).rename(made.link_path(key(1)))
    with pytest.raises(ParseError, match="leads to another chunk"):
        read(made, 1)


@pytest.mark.parametrize("text", ["", "../../x.y", "a" * 32, "b" * 31 + ".t"])
def test_a_link_that_is_none_is_a_miss_and_made_anew(tmp_path, text: str) -> None:
    made = pool(tmp_path)
    path = made.link_path(key(1))
    path.parent.mkdir()
    path.symlink_to(text or "x")
    assert made.find(key(1)) is None
    made.publish(key(1), payload(1))
    assert read(made, 1) == payload(1)


def test_the_bound_holds_and_the_longest_unused_go_first(tmp_path: pathlib.Path) -> None:
    made = pool(tmp_path, limit_bytes=10 * FILE)
    for number in range(10):
        made.publish(key(number), payload(number))
        os.utime(files(made)[0].parent.parent.parent)  # the folder's own time means nothing
    for number in range(10):
        link = made.find(key(number))
        assert link is not None
        os.utime(made.path(link.name), (1000 + number, 1000 + number))
    read(made, 0)  # it is used now
    done = made.publish(key(10), payload(10))
    assert done.evicted == 2  # one for itself, one to spare
    there = [number for number in range(11) if made.find(key(number))]
    assert there == [0, 3, 4, 5, 6, 7, 8, 9, 10]
    assert made.ledger.used_bytes == sum(path.stat().st_size for path in files(made)) == 9 * FILE
    assert len(list((made.folder / "links").glob("*/*"))) == 9  # none leads nowhere


def test_a_chunk_being_read_is_not_evicted(tmp_path: pathlib.Path) -> None:
    made = pool(tmp_path, limit_bytes=2 * FILE)
    for number in (1, 2):
        made.publish(key(number), payload(number))
    held = [os.open(path, os.O_RDONLY) for path in files(made)]
    for each in held:
        fcntl.flock(each, fcntl.LOCK_SH)
    refused = made.publish(key(3), payload(3))
    assert (refused.refused, refused.evicted, refused.written) == (True, 0, 0)
    assert made.find(key(1))
    assert made.find(key(2))
    assert made.ledger.used_bytes == 2 * FILE
    for each in held:
        os.close(each)
    assert made.publish(key(3), payload(3)).written == FILE


def test_a_chunk_being_evicted_is_a_miss(tmp_path: pathlib.Path) -> None:
    made = pool(tmp_path)
    made.publish(key(1), payload(1))
    link = made.find(key(1))
    [path] = files(made)
    held = os.open(path, os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    assert link is not None
    with pytest.raises(NoChunkError):
        made.read(key(1), link, memoryview(bytearray(SIZE)))
    os.close(held)
    path.unlink()
    assert made.find(key(1)) is None


def test_what_killed_writers_left_goes_once_it_is_old(tmp_path: pathlib.Path) -> None:
    made = pool(tmp_path)
    made.publish(key(1), payload(1))
    [path] = files(made)
    old, young, held = (path.with_name(f"{name}.tmp") for name in ("old", "young", "held"))
    for each in (old, young, held):
        each.write_bytes(b"x" * 100)
    past = time.time() - LEFT_AFTER_S - 5
    for each in (old, held):
        os.utime(each, (past, past))
    with held.open() as writer:
        fcntl.flock(writer, fcntl.LOCK_SH)
        again = Ledger(made.folder, None)
    assert (old.exists(), young.exists(), held.exists()) == (False, True, True)
    assert again.used_bytes == FILE + 200


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from test_pool import key, payload, pool
CALLS = ("open", "ftruncate", "writev", "fsync", "rename", "symlink", "pwrite", "close", "mkdir")
CALLS += ("readlink", "posix_fadvise", "utime")

def counted(real):
    def call(*args, **more):
        global left
        left -= real is os_writev or not half
        if left == 0 and half and real is os_writev:
            real(args[0], [args[1][0], args[1][1][:5000]])
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **more)
    return call

os_writev = os.writev
killed = 0
for half in (False, True):
    for at in range(1, 200):
        child = os.fork()
        if child == 0:
            left = 10**9
            made = pool(Path(sys.argv[2]), limit_bytes=40 * 2**16)
            for name in CALLS:
                setattr(os, name, counted(getattr(os, name)))
            left = at
            made.publish(key(at), payload(at))
            made.publish(key(1000 + at), payload(at))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            assert os.WEXITSTATUS(status) == 0, status
            break
        killed += 1
print(killed)
"""


def test_killed_at_any_call_of_a_publication_nothing_is_wrong(tmp_path: pathlib.Path) -> None:
    here = str(pathlib.Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", KILLED, here, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    killed = int(done.stdout)
    assert killed >= 16
    made = pool(tmp_path, limit_bytes=40 * 2**16)
    whole = 0
    for at in range(1, killed + 2):
        for number in (at, 1000 + at):
            if made.find(key(number)):
                assert read(made, number) == payload(at)
                whole += 1
    assert whole
    there = sum(path.stat().st_size for path in files(made))
    assert made.ledger.used_bytes == there <= 40 * 2**16
    made.publish(key(5000), payload(5000))
    assert read(made, 5000) == payload(5000)


MANY = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from kvgate.errors import ParseError
from kvgate.serving.pool import NoChunkError
from test_pool import FILE, key, payload, pool, room
made, who, hits = pool(Path(sys.argv[2]), limit_bytes=6 * FILE), int(sys.argv[3]), 0
print("ready", flush=True)
sys.stdin.readline()
for turn in range(60):
    number = (turn * 7 + who) % 9
    made.publish(key(number), payload(number))
    if link := made.find(key(number)):
        try:
            made.read(key(number), link, aligned := room())
        except NoChunkError:
            continue  # evicted meanwhile
        assert aligned == payload(number), f"{who}: {number}"
        hits += 1
print(hits)
"""


def test_processes_publish_and_read_the_same_chunks_at_once(tmp_path: pathlib.Path) -> None:
    """Within a bound that makes them evict all the time: a miss, or the right bytes."""
    here = str(pathlib.Path(__file__).parent)
    with contextlib.ExitStack() as stack:
        workers = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", MANY, here, str(tmp_path), str(who)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            for who in range(4)
        ]
        for each in workers:
            assert each.stdout is not None
            assert each.stdout.readline() == "ready\n"
        told = []
        for each in workers:
            assert each.stdin is not None
            each.stdin.write("go\n")
            each.stdin.flush()
        told = [each.communicate(timeout=60) for each in workers]
    assert [each.returncode for each in workers] == [0] * 4, [error for _, error in told]
    assert all(int(said) > 0 for said, _ in told)
    assert sum(path.stat().st_size for path in files(pool(tmp_path))) <= 6 * FILE
