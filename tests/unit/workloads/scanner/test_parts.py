"""The scanner's parts: chunkers, the sketch, safetensors headers, names, the page cache."""

from __future__ import annotations

import json
import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.workloads.scanner import chunks, hashing, index, kinds, reading, tensors
from kvgate.workloads.scanner.course import Settings
from kvgate.workloads.scanner.errors import ScanError
from kvgate.workloads.scanner.frames import scan_pieces

DATA = np.random.default_rng(7).bytes(3_000_000)
CHUNKERS = [chunks.GearChunker(), chunks.chunker()]


def cuts(chunker: Any, data: bytes) -> list[int]:
    return list(np.cumsum(chunker.lengths(memoryview(data))))


@pytest.mark.parametrize("chunker", CHUNKERS, ids=lambda each: each.name)
def test_chunks_are_within_their_bounds(chunker: Any) -> None:
    for data in (DATA, bytes(1_000_000), b"", b"x", DATA[: chunks.SMALLEST]):
        lengths = chunker.lengths(memoryview(data))
        assert sum(lengths) == len(data)
        assert all(chunks.SMALLEST <= each <= chunks.LARGEST for each in lengths[:-1])
    assert 25 <= len(chunker.lengths(memoryview(DATA))) <= 150


@settings(max_examples=10, deadline=None)
@given(st.binary(min_size=1, max_size=90_000), st.sampled_from(CHUNKERS))
def test_boundaries_move_with_the_content(inserted: bytes, chunker: Any) -> None:
    """After what was inserted the same boundaries come again, and stay."""
    before = cuts(chunker, DATA)
    after = [each - len(inserted) for each in cuts(chunker, inserted + DATA)]
    common = sorted(set(before) & set(after))
    assert before[before.index(common[0]) :] == after[after.index(common[0]) :]
    assert common[0] < 1_000_000


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_sketch_depends_on_its_content_alone(data: st.DataObject) -> None:
    keys = data.draw(st.lists(st.integers(0, 40), min_size=1, max_size=120))
    table = np.random.default_rng(1).integers(0, 2**63, 41, dtype=np.uint64) * np.uint64(2)
    parts = data.draw(st.integers(1, 5))
    limit = data.draw(st.integers(1, 60))
    one = index.Index(limit)
    one.add(table[keys], 4096)
    one.settle()
    merged = index.Index(limit)
    order = data.draw(st.permutations(range(parts)))
    for part in order:
        piece = index.Index(limit)
        if keys[part::parts]:
            piece.add(table[keys[part::parts]], 4096)
        merged.merge(piece.packed())
    assert merged.packed() == one.packed()
    counted = {int(table[key]): keys.count(key) for key in set(keys) if table[key] < one.below}
    found, counts, _ = one.rows()
    assert dict(zip(found.tolist(), counts.tolist(), strict=True)) == counted
    assert len(found) <= limit


def test_without_numpy_the_index_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [7 << 40, 1 << 63, 7 << 40, 3 << 60, 5 << 13]
    fast = index.Index(2)
    fast.add(np.array(keys, dtype=np.uint64), [1, 2, 1, 3, 4])
    expected = fast.packed()
    monkeypatch.setattr(index, "np", None)
    slow = index.Index(2)
    slow.add(keys, [1, 2, 1, 3, 4])
    assert slow.packed() == expected
    again = index.Index(2)
    again.merge(expected)
    assert again.packed() == expected


HEADER = {
    "__metadata__": {"format": "pt"},
    "a": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]},
    "b": {"dtype": "F4", "shape": [6], "data_offsets": [12, 15]},
}


def read(header: Any, size: int = 15) -> list[tensors.Tensor]:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return tensors.read_header(text, 8 + len(text) + size)


def test_tensors_are_read_with_their_places() -> None:
    start = 8 + len(json.dumps(HEADER))
    a, b = read(HEADER)
    assert (a.name, a.dtype, a.shape, a.start, a.end) == ("a", "BF16", (2, 3), start, start + 12)
    assert (b.start, b.end) == (start + 12, start + 15)


@pytest.mark.parametrize(
    ("name", "field", "value", "why"),
    [
        ("a", "data_offsets", [0, 13], "do not hold 12 bytes"),
        ("a", "data_offsets", [12, 0], "do not hold"),
        ("a", "data_offsets", [1, 13], "leaves a gap"),
        ("b", "data_offsets", [9, 12], "overlaps"),
        ("b", "data_offsets", [12, 2**70], "no lists of whole numbers"),
        ("b", "data_offsets", [12, True], "no lists of whole numbers"),
        ("b", "data_offsets", None, "no lists"),
        ("a", "shape", [2**40, 2**40], "larger than any file"),
        ("a", "shape", [-2, -3], "no lists"),
        ("a", "dtype", "BF17", "unknown type 'BF17'"),
        ("a", "dtype", [], "unknown type"),
    ],
)
def test_a_header_that_lies_is_refused(name: str, field: str, value: Any, why: str) -> None:
    header: Any = {**HEADER, name: {**HEADER[name], field: value}}
    with pytest.raises(ScanError, match=why):
        read(header)


@pytest.mark.parametrize("size", [14, 16])
def test_data_must_end_where_the_file_does(size: int) -> None:
    with pytest.raises(ScanError, match="tensors end at byte"):
        read(HEADER, size)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_altered_headers_raise_only_ours(data: st.DataObject) -> None:
    text = bytearray(json.dumps(HEADER).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
        text = text or bytearray(b"{")
    try:
        found = read(bytes(text))
    except ScanError:
        return
    assert all(each.start <= each.end <= 8 + len(text) + 15 for each in found)


@given(st.binary(max_size=20), st.integers(0, 10**9))
def test_a_headers_length_is_bounded_by_the_file(first: bytes, size: int) -> None:
    try:
        length = tensors.header_length(first, size)
    except ScanError:
        return
    assert 2 <= length <= size - 8


def test_deep_json_is_refused() -> None:
    with pytest.raises(ScanError):
        read(b"[" * 100_000)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("a/qwen@0x01000100@0@deadbeefdeadbeef.data", "LMCache KV"),
        ("a/qwen@1@0@1f2e3d4c@float.data", "LMCache KV"),
        ("a/qwen@8@7@-1f2e3d4c@bfloat16.pt", "LMCache KV"),
        ("a/0123456789abcdef_qwen-32b_0_8.bin", "SGLang KV"),
        ("a/0123abcd/model.layers.3.self_attn.attn.safetensors", "vLLM KV"),
        ("kv/q/block_size_16_blocks_per_file_16/rank_0/bf16/012/0123456789abcdef.bin", "vLLM KV"),
        ("m/model-00001-of-00002.safetensors", "safetensors"),
        ("m/adapter_model.safetensors", "LoRA adapter"),
        ("m/pytorch_model.bin", "other"),
    ],
)  # fmt: skip
def test_kinds_are_told_by_name(path: str, kind: str) -> None:
    assert kinds.KINDS[kinds.kind_of(path.encode())] == kind


def piece_of(path: Path) -> reading.Piece:
    told = path.stat()
    size, sparse = told.st_size, told.st_blocks * 512 < told.st_size
    times = (told.st_mtime_ns, told.st_dev, told.st_ino)
    return reading.Piece(1, str(path), 0, 0, 0, size, size, *times, sparse)


def in_memory(path: Path) -> bytes:
    with path.open("rb") as file:
        told = reading._Pages().resident(file.fileno(), 0, path.stat().st_size)
    assert told is not None
    return told


@pytest.mark.parametrize("direct", [True, False])
def test_the_page_cache_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, direct: bool
) -> None:
    path = tmp_path / "file"
    path.write_bytes(DATA)
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)  # no read-ahead of this test
        os.pread(file.fileno(), 1_200_000, 400_000)
    before = in_memory(path)
    if not 0 < before.count(1) < len(before):
        pytest.skip("this file system keeps all of a file in memory, or nothing")
    if not direct:
        monkeypatch.delattr(os, "O_DIRECT")
    for asked in (Settings((4096,), True, 1000, 0), Settings((131072,), False, 1000, 0)):
        packed = scan_pieces([piece_of(path)], asked, {})
        assert packed["bytes"] == len(DATA)
        assert (packed["through_cache"] > 0) is not direct
        assert in_memory(path) == before


def test_a_file_in_memory_is_read_from_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(DATA)
    before = in_memory(path)
    scan_pieces([piece_of(path)], Settings((4096,), True, 1000, 0), {})
    assert in_memory(path) == before


def test_larger_blocks_are_made_of_smaller_ones() -> None:
    joined = b"".join(hashing.digest(DATA[at : at + 4096]) for at in range(0, 4096 * 5, 4096))
    assert hashing.group_digests(joined, 2)[:8] == hashing.digest(joined[:16])
    assert len(hashing.group_digests(joined, 2)) == 3 * hashing.DIGEST


def test_pages_are_those_of_the_machine() -> None:
    assert reading.PAGE == mmap.PAGESIZE
    assert reading.WINDOW % max(reading.PAGE, 128 * 1024) == 0
