"""A tier gives back what was stored, or says what it gives instead, sector by sector."""

from __future__ import annotations

import collections
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from kvgate.kv.content import PAGE, SECTOR, Content
from kvgate.workloads import replay_tier
from kvgate.workloads.replay import Spec
from kvgate.workloads.replay_place import aligned
from kvgate.workloads.replay_tier import Damage, LostError, Shape, Tier, plants

CHUNK = 8 * PAGE
PLACES = 4


def stored(folder: Path, **changes: Any) -> Tier:
    """Return a tier of three sessions, buffered, so that it stands on any file system."""
    shape = Shape(PLACES, CHUNK, CHUNK, direct=False, **changes)
    tier = Tier(folder, shape, Content(3))
    with aligned(CHUNK) as buffer:
        for session in range(3):
            for place in range(PLACES):
                tier.make(buffer, session, place)
                tier.remember(buffer, session, place)
                tier.write(buffer, session, place)
            tier.sessions[session] = 0
    return tier


def looked(tier: Tier, session: int, place: int) -> Damage | None:
    with aligned(CHUNK) as buffer:
        came = tier.read(buffer, session, place)
        return tier.damage(buffer, came, session, place)


def patch(tier: Tier, session: int, place: int, at: int, data: bytes) -> None:
    path, start = tier.path(session, place)
    with path.open("r+b") as file:
        file.seek(start + at)
        file.write(data)


@pytest.mark.parametrize("extents", [False, True])
def test_what_was_stored_comes_back(tmp_path: Path, extents: bool) -> None:
    tier = stored(tmp_path, extents=extents, shared=2)
    assert [looked(tier, s, p) for s in range(3) for p in range(PLACES)] == [None] * 12
    assert len(list(tmp_path.iterdir())) == (3 if extents else 12)
    first, second = (tier.path(s, 0) for s in (0, 1))
    with first[0].open("rb") as one, second[0].open("rb") as two:
        assert one.read(CHUNK) == two.read(CHUNK), "a shared chunk is the same bytes"


def test_a_flipped_bit_is_named(tmp_path: Path) -> None:
    tier = stored(tmp_path)
    path, _ = tier.path(1, 2)
    was = path.read_bytes()
    patch(tier, 1, 2, 5 * PAGE + 700, bytes([was[5 * PAGE + 700] ^ 8]))
    found = looked(tier, 1, 2)
    assert found is not None
    assert (found.session, found.place, found.kind) == (1, 2, "flipped")
    assert "block 5 (bytes 20992 to 21503) has 1 flipped bit" in found.told


def test_a_swapped_chunk_is_named_by_its_owner(tmp_path: Path) -> None:
    tier = stored(tmp_path)
    other = tier.path(2, 3)[0].read_bytes()
    patch(tier, 0, 1, 0, other)
    found = looked(tier, 0, 1)
    assert found is not None
    assert found.kind == "swapped"
    assert "is session 2, chunk 3" in found.told


def test_no_two_hosts_have_the_same_data_but_what_is_shared(tmp_path: Path) -> None:
    """Else a device behind several hosts could hold their sessions once."""
    spec = Spec(seed=1, sessions=3, chunks=4, chunk_bytes=CHUNK, ranks=2, shared=1)
    firsts = [spec.first_of(number, 3) for number in range(3)]
    sectors: collections.Counter[bytes] = collections.Counter()
    for number, first in enumerate(firsts):
        shape = Shape(8, CHUNK, CHUNK, shared=2, first=first)
        tier = Tier(tmp_path, shape, Content(1))
        for session in range(3):
            for place in range(8):
                data = tier.content.made(CHUNK, tier.chunk(session, place))
                sectors.update({data[at : at + SECTOR] for at in range(0, CHUNK, SECTOR)})
                told = replay_tier._owner(tier, tier.chunk(session, place))
                mine = f"session {session}, chunk {place}"
                assert told == (mine if place >= 2 else f"chunk {place} that all sessions share")
        if number:
            assert "of another host's" in replay_tier._owner(tier, 8 * (firsts[number - 1] + 1) + 3)
    assert sorted(set(sectors.values())) == [1, 9]
    assert list(sectors.values()).count(9) == 2 * CHUNK // SECTOR
    with pytest.raises(ValueError, match="too large a number"):
        tier.make(memoryview(bytearray(CHUNK)), 2**40, 5)


def test_a_stale_version_and_a_torn_one_are_told_apart(tmp_path: Path) -> None:
    tier = stored(tmp_path)
    old = tier.content.made(CHUNK, tier.chunk(0, 1), 1)
    patch(tier, 0, 1, 0, old)
    found = looked(tier, 0, 1)
    assert found is not None
    assert (found.kind, "its version 1, not 0" in found.told) == ("stale", True)
    patch(tier, 0, 2, 2 * PAGE, tier.content.made(PAGE, tier.chunk(0, 2), 1, sector=16))
    torn = looked(tier, 0, 2)
    assert torn is not None
    assert torn.kind == "torn"
    assert "block 2 (bytes 8192 to 12287) is its version 1, not 0" in torn.told


def test_a_zeroed_page_a_short_file_and_foreign_bytes(tmp_path: Path) -> None:
    tier = stored(tmp_path)
    patch(tier, 0, 0, PAGE, bytes(PAGE))
    os.truncate(tier.path(0, 1)[0], 3 * PAGE)
    patch(tier, 0, 2, 0, os.urandom(SECTOR))
    patch(tier, 0, 3, 0, tier.content.made(SECTOR, tier.chunk(0, 3), sector=8))
    told = [looked(tier, 0, place) for place in range(4)]
    assert [each.kind if each else None for each in told] == [
        "zeroed",
        "short",
        "foreign",
        "misplaced",
    ]
    assert told[1] is not None
    assert told[1].told == f"short: {3 * PAGE} of {CHUNK} bytes came"


@pytest.mark.parametrize("extents", [False, True])
def test_all_planted_faults_are_found_and_named(tmp_path: Path, extents: bool) -> None:
    tier = stored(tmp_path, extents=extents)
    planted = list(plants(tier))
    assert {kind for kind, _, _ in planted} == {"flipped", "zeroed", "stale", "short", "swapped"}
    found = {
        (s, p): each.kind for s in range(3) for p in range(PLACES) if (each := looked(tier, s, p))
    }
    assert found == {(session, place): kind for kind, session, place in planted}


def test_a_device_that_goes_away_is_lost_and_a_full_one_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tier = stored(tmp_path)

    def failing(number: int) -> Any:
        def act(*_: object) -> int:
            raise OSError(number, os.strerror(number))

        return act

    with aligned(CHUNK) as buffer:
        monkeypatch.setattr(os, "preadv", failing(errno.EIO))
        with pytest.raises(LostError, match=r"session 0, chunk 1 can't be read: .*EIO"):
            tier.read(buffer, 0, 1)
        monkeypatch.setattr(os, "pwrite", failing(errno.EROFS))
        with pytest.raises(LostError, match="EROFS"):
            tier.write(buffer, 0, 1)
        monkeypatch.setattr(os, "pwrite", failing(errno.ENOSPC))
        with pytest.raises(OSError, match="No space left"):
            tier.write(buffer, 0, 1)


def test_a_chunk_that_vanished_is_lost(tmp_path: Path) -> None:
    tier = stored(tmp_path)
    tier.path(0, 0)[0].unlink()
    with aligned(CHUNK) as buffer, pytest.raises(LostError, match="ENOENT"):
        tier.read(buffer, 0, 0)


def test_without_xxhash_crc32_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_tier, "xxhash", None)
    assert replay_tier.checker() == "crc32"
    tier = stored(tmp_path)
    assert looked(tier, 0, 0) is None
    patch(tier, 0, 0, 0, b"!")
    found = looked(tier, 0, 0)
    assert found is not None
    assert found.kind == "flipped"


def test_an_evicted_session_s_files_are_gone(tmp_path: Path) -> None:
    tier = stored(tmp_path)
    tier.evict(1)
    assert list(tier.sessions) == [0, 2]
    assert not any(path.exists() for path in tier.files(1))


def test_an_extent_has_its_size_before_it_is_written_where_space_can_be_reserved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tier = stored(tmp_path, extents=True)
    tier.prepare(7)
    path, _ = tier.path(7, 0)
    assert path.stat().st_size in (tier.session_bytes, 0)
    tier.prepare(0)
    assert looked(tier, 0, 0) is None, "what is there is not touched"
    monkeypatch.setattr(replay_tier, "reserved", lambda *_: False)
    tier.prepare(8)
    assert tier.path(8, 0)[0].stat().st_size == 0
