"""Content of chunks: equal where it is meant to be, different in every sector elsewhere."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.kv import content
from kvgate.kv.content import PAGE, SECTOR, Content, Origin, chunk_of, packed

KEPT = Content(7)
SIZE = 64 * PAGE


def sectors(data: bytes, size: int = SECTOR) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def test_it_is_reproducible_from_the_seed() -> None:
    assert Content(7).made(SIZE, 5, 2) == KEPT.made(SIZE, 5, 2)
    assert Content(8).made(SIZE, 5, 2) != KEPT.made(SIZE, 5, 2)


@pytest.mark.parametrize("pct", [0, 50, 80])
def test_pure_python_makes_the_same(monkeypatch: pytest.MonkeyPatch, pct: int) -> None:
    quick = Content(7, compressed_pct=pct).made(2 * SIZE, 9, 1, sector=5)
    assert content.maker() == "numpy"
    monkeypatch.setattr(content, "numpy", None)
    assert content.maker() == "python"
    assert Content(7, compressed_pct=pct).made(2 * SIZE, 9, 1, sector=5) == quick


@pytest.mark.parametrize("pct", [0, 50, 80])
@pytest.mark.parametrize("size", [SECTOR, 4096])
def test_others_differ_at_every_sector_and_page(pct: int, size: int) -> None:
    made = Content(7, compressed_pct=pct)
    # Far beyond the pool in one chunk, two versions, and two chunks.
    data = made.made(2 * SIZE, 1) + made.made(SIZE, 1, 1) + made.made(SIZE, 2)
    found = sectors(data, size)
    assert len(set(found)) == len(found)


def test_shared_chunks_are_the_same_bytes_and_no_others() -> None:
    chunks = [[chunk_of(s, p, shared=3, chunks=8) for p in range(8)] for s in range(4)]
    flat = [each for row in chunks for each in row]
    assert all(row[:3] == chunks[0][:3] for row in chunks)
    assert len(set(flat)) == 3 + 4 * 5


@pytest.mark.parametrize(("pct", "left"), [(0, 1.0), (50, 0.5), (80, 0.2)])
def test_it_compresses_as_much_as_was_asked(pct: int, left: float) -> None:
    data = Content(7, compressed_pct=pct).made(64 * PAGE, 3)
    assert len(zlib.compress(data, 6)) / len(data) == pytest.approx(left, abs=0.03)
    zstd = pytest.importorskip("zstandard")
    packed_by_zstd = zstd.ZstdCompressor(level=3).compress(data)
    assert len(packed_by_zstd) / len(data) == pytest.approx(left, abs=0.03)


@settings(max_examples=50, deadline=None)
@given(
    chunk=st.integers(0, content.MOST_CHUNKS - 1),
    version=st.integers(0, content.MOST_VERSIONS - 1),
    sector=st.integers(0, 8 * (content.MOST_PAGES - 1)),
)
def test_a_sector_tells_whose_it_is(chunk: int, version: int, sector: int) -> None:
    found = KEPT.origin(KEPT.made(SECTOR, chunk, version, sector=sector))
    assert found == Origin(chunk, version, sector)


@settings(max_examples=50, deadline=None)
@given(st.binary(min_size=SECTOR, max_size=SECTOR))
def test_what_is_no_content_is_nobody_s(data: bytes) -> None:
    assert KEPT.origin(data) is None


def test_another_seed_s_sector_is_nobody_s() -> None:
    assert KEPT.origin(Content(8).made(SECTOR, 1)) is None


@pytest.mark.parametrize("numbers", [(2**32, 0, 0), (0, 64, 0), (0, 0, 2**26), (-1, 0, 0)])
def test_numbers_beyond_a_key_are_refused(numbers: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="too large"):
        packed(*numbers)


def test_torn_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="no whole pages"):
        KEPT.fill(memoryview(bytearray(100)), 1)
    with pytest.raises(ValueError, match="not from 0 to 90"):
        Content(1, compressed_pct=95)


def test_mixing_is_undone() -> None:
    for number in (0, 1, 2**63, 2**64 - 1, 0x0123456789ABCDEF):
        assert content._unmixed(content._mixed(number)) == number


def test_a_part_of_a_chunk_is_that_part_with_numpy_and_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = content.Content(9)
    pages = 2 * content.POOL_PAGES + 3
    whole = made.made(pages * content.PAGE, 5, 2)
    parts = [(0, 1), (63, 2), (64, 64), (100, 31), (130, 1)]

    def part(page: int, many: int) -> bytes:
        size = many * content.PAGE
        return made.made(size, 5, 2, sector=page * content.PAGE // content.SECTOR)

    for with_numpy in (True, False):
        if not with_numpy:
            monkeypatch.setattr(content, "numpy", None)
        for page, many in parts:
            assert part(page, many) == whole[page * content.PAGE : (page + many) * content.PAGE]
    for sector in (0, 511, 512, 1030):
        at = sector * content.SECTOR
        found = made.origin(whole[at : at + content.SECTOR])
        assert found == content.Origin(5, 2, sector)
