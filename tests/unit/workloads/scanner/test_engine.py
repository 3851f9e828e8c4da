"""Whole scans: counts as a plain reference has them, bad trees, restarts, the sketch."""

from __future__ import annotations

import json
import os
import random
import socket
import tempfile
from collections import deque
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.workloads.scanner import engine, listing, reading
from kvgate.workloads.scanner.course import Settings
from kvgate.workloads.scanner.engine import Asked, scan
from kvgate.workloads.scanner.errors import ScanError
from kvgate.workloads.scanner.frames import scan_pieces
from kvgate.workloads.scanner.pool import Done

HOW = ("elapsed_s", "through_cache_bytes")


class Inline:
    """A pool of no process: scans when asked for what is done, the last asked first."""

    jobs = 3

    def __init__(self, settings: Any, most: int = 10**9) -> None:
        self._settings, self._left = settings, most
        self._asked: deque[Any] = deque()

    def __enter__(self) -> Inline:
        return self

    def __exit__(self, *_: object) -> None:
        self._asked.clear()

    def submit(self, pieces: list[Any], below: dict[int, int]) -> None:
        self._asked.append((pieces, below))

    def next(self) -> Done:
        if self._left == 0:
            raise KeyboardInterrupt
        self._left -= 1
        pieces, below = self._asked.pop()
        return Done(pieces, scan_pieces(pieces, self._settings, below), "")


def content(document: dict[str, Any]) -> dict[str, Any]:
    """Return a result without how it was scanned."""
    return {name: value for name, value in document.items() if name not in HOW}


@pytest.fixture
def scanned() -> Any:
    """Return what scans paths in this process and gives the result document."""

    def run(*paths: Path, most: int = 10**9, **more: Any) -> dict[str, Any]:
        asked = Asked(paths=[str(each) for each in paths], **more)
        return scan(asked, lambda settings: Inline(settings, most))

    return run


def draws(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311  content of files, the same each time


KIB = 1024
SIZES = (4 * KIB, 8 * KIB, 32 * KIB, 128 * KIB)


def reference(files: list[bytes], size: int) -> tuple[int, int, int]:
    """Return blocks, distinct blocks and distinct bytes, by a set."""
    blocks = [data[at : at + size] for data in files for at in range(0, len(data), size)]
    return len(blocks), len(set(blocks)), sum(map(len, set(blocks)))


BLOCK = st.integers(0, 5).map(lambda n: bytes([n]) * 4096 if n < 2 else draws(n).randbytes(4096))
FILE = st.builds(
    lambda blocks, tail, zeros: b"".join(blocks) + bytes(zeros * 1024 * KIB) + b"t" * tail,
    st.lists(BLOCK, max_size=40), st.integers(0, 5000), st.sampled_from([0, 0, 0, 1, 2]),
)  # fmt: skip


@settings(max_examples=15, deadline=None)
@given(files=st.lists(FILE, min_size=1, max_size=6))
def test_counts_are_those_of_a_plain_reference(files: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as made:
        for number, data in enumerate(files):
            folder = Path(made, "ab"[number % 2])
            folder.mkdir(exist_ok=True)
            (folder / str(number)).write_bytes(data)
        found = scan(Asked([made]), Inline)
    assert found["logical_bytes"] == sum(map(len, files))
    for level, size in zip(found["levels"], SIZES, strict=False):
        told = (level["blocks"], level["unique_blocks"], level["unique_bytes"])
        assert told == reference(files, size)
        zeros = sum(
            data[at : at + size] == bytes(size)
            for data in files
            for at in range(0, len(data), size)
        )
        assert level["zero_blocks"] == zeros
    whole = [data for data in files if data]
    assert found["same_files"]["again"] == len(whole) - len(set(whole))


def test_folders_say_what_is_again_inside_and_elsewhere(tmp_path: Path, scanned: Any) -> None:
    block = [draws(n).randbytes(4096) for n in range(6)]
    for folder, blocks in {"a": [0, 0, 1, 2], "b": [2, 3], "c": [4, 5, 5]}.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "f").write_bytes(b"".join(block[n] for n in blocks))
    rows = {Path(row["path"]).name: row for row in scanned(tmp_path)["folders"]["first"]}
    told = {
        name: (row["again_inside_bytes"] // 4096, row["also_elsewhere_bytes"] // 4096)
        for name, row in rows.items()
    }
    assert told == {"a": (1, 1), "b": (0, 1), "c": (1, 0)}


def safetensors(**tensors: bytes) -> bytes:
    at, header = 0, {}
    for name, data in tensors.items():
        header[name] = {"dtype": "U8", "shape": [len(data)], "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + b"".join(tensors.values())


def test_equal_tensors_in_different_files_are_found_by_name(tmp_path: Path, scanned: Any) -> None:
    draw = draws(1)
    same, other = draw.randbytes(3_000_001), draw.randbytes(70_000)
    (tmp_path / "base.safetensors").write_bytes(safetensors(a=other, embed=same))
    (tmp_path / "adapter_model.safetensors").write_bytes(safetensors(tied=same, b=other[:-1]))
    found = scanned(tmp_path)
    assert {row["kind"] for row in found["kinds"]} == {"safetensors", "LoRA adapter"}
    told = found["tensors"]
    assert (told["files"], told["count"], told["unique"]) == (2, 4, 3)
    (row,) = told["first"]
    assert (row["name"], row["times"], row["files"]) == ("embed", 2, 2)
    assert row["bytes"] == len(same)


def test_a_safetensors_file_that_lies_is_named_and_its_blocks_count(
    tmp_path: Path, scanned: Any
) -> None:
    lie = safetensors(a=b"x" * 5000).replace(b"[0, 5000]", b"[0, 9000]")
    (tmp_path / "lie.safetensors").write_bytes(lie)
    (tmp_path / "short.safetensors").write_bytes(b"abc")
    found = scanned(tmp_path)
    told = {Path(row["path"]).name: row["what"] for row in found["problems"]["first"]}
    assert "offsets 0 to 9000 do not hold 5000 bytes" in told["lie.safetensors"]
    assert "too few" in told["short.safetensors"]
    assert found["logical_bytes"] == len(lie) + 3
    assert found["left_out_bytes"] == 0


def test_only_regular_files_are_read_once_each(
    tmp_path: Path, scanned: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = os.fsencode(tmp_path) + b"/\xff\n\x1b"
    Path(os.fsdecode(name)).write_bytes(b"x" * 10_000)
    os.link(name, tmp_path / "hard")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "out").symlink_to("/etc")
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        monkeypatch.chdir(tmp_path)
        listening.bind("s")
        found = scanned(tmp_path)
    listed = found["listed"]
    assert (listed["files"], listed["hard_links"]) == (1, 1)
    assert (listed["links"], listed["specials"]) == (2, 2)
    assert found["logical_bytes"] == 10_000


def test_a_name_that_is_no_utf8_is_shown_as_escapes(tmp_path: Path, scanned: Any) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\n.safetensors")).write_bytes(b"no header")
    (row,) = scanned(tmp_path)["problems"]["first"]
    assert row["path"].endswith("/\\xff\\x0a.safetensors")


def test_a_sparse_file_of_a_terabyte_takes_no_time(tmp_path: Path, scanned: Any) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
        file.seek(700_000_000)
        file.write(b"data")
    found = scanned(tmp_path)
    assert found["logical_bytes"] == 1 << 40
    assert found["physical_bytes"] < 1 << 20
    assert found["listed"]["sparse_files"] == 1
    assert found["levels"][0]["unique_blocks"] == 2
    assert found["levels"][0]["zero_blocks"] == (1 << 28) - 1


def test_what_can_not_be_read_is_named_with_its_path(
    tmp_path: Path, scanned: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "open").write_bytes(b"1" * 4096)
    (tmp_path / "shut").write_bytes(b"2" * 4096)
    really = reading._open

    def opened(path: bytes, more: int) -> int:
        if path.endswith(b"shut"):
            raise PermissionError(13, "Permission denied")
        return really(path, more)

    monkeypatch.setattr(reading, "_open", opened)
    found = scanned(tmp_path)
    (row,) = found["problems"]["first"]
    assert row["path"].endswith("/shut")
    assert row["what"] == "Permission denied; 4096 bytes left out"
    assert (found["logical_bytes"], found["left_out_bytes"]) == (4096, 4096)


@pytest.mark.parametrize("change", ["longer", "shorter", "replaced", "gone", "fifo"])
def test_a_file_that_changes_while_it_is_scanned_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    changed = tmp_path / "changed"
    changed.write_bytes(b"1" * 9000)
    (tmp_path / "other").write_bytes(b"2" * 5000)

    class Changing(Inline):
        def submit(self, pieces: list[Any], below: dict[int, int]) -> None:
            super().submit(pieces, below)
            if change == "longer":
                changed.write_bytes(b"1" * 9001)
            elif change == "shorter":
                os.truncate(changed, 100)
            else:
                changed.unlink()
                if change == "replaced":
                    (tmp_path / "new").write_bytes(b"1" * 9000)
                    (tmp_path / "new").rename(changed)
                elif change == "fifo":
                    os.mkfifo(changed)

    found = scan(Asked([str(tmp_path)]), Changing)
    (row,) = found["problems"]["first"]
    assert row["path"].endswith("/changed")
    assert "9000 bytes left out" in row["what"]
    assert (found["logical_bytes"], found["left_out_bytes"]) == (5000, 9000)


def tree(top: Path, files: int, draw: random.Random) -> None:
    blocks = [draw.randbytes(4096) for _ in range(300)]
    for number in range(files):
        folder = top / f"d{number % 7}"
        folder.mkdir(parents=True, exist_ok=True)
        count = draw.randrange(1, 120)
        data = b"".join(draw.choices(blocks, k=count)) + draw.randbytes(draw.randrange(9000))
        (folder / str(number)).write_bytes(data)


def test_stopped_at_any_moment_it_goes_on_to_the_same_result(
    tmp_path: Path, scanned: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "SEGMENT", 256 * KIB * 4)
    monkeypatch.setattr(engine, "_SAVE_S", 0.0)
    monkeypatch.setattr(engine, "_SAVE_SHARE", 0)
    tree(tmp_path / "t", 60, draws(3))
    (tmp_path / "t" / "big").write_bytes(draws(4).randbytes(3_500_000))
    once = content(scanned(tmp_path / "t"))
    state = tmp_path / "scan.state"
    stops = 0
    while True:
        try:
            found = scanned(tmp_path / "t", state=str(state), most=2)
            break
        except KeyboardInterrupt:
            stops += 1
    assert stops > 3
    assert content(found) == once
    assert content(scanned(tmp_path / "t", state=str(state))) == once  # finished: nothing is read


def test_a_state_of_another_scan_is_refused(tmp_path: Path, scanned: Any) -> None:
    (tmp_path / "t").mkdir()
    scanned(tmp_path / "t", state=str(tmp_path / "s"))
    with pytest.raises(ScanError, match=r"another scan \(chunked differ\)"):
        scanned(tmp_path / "t", state=str(tmp_path / "s"), chunked=False)
    (tmp_path / "text").write_text("no database, but a text of some length " * 40)
    with pytest.raises(ScanError, match="text: file is not a database"):
        scanned(tmp_path / "t", state=str(tmp_path / "text"))


def test_beyond_its_memory_it_is_a_sketch_that_knows_its_error(
    tmp_path: Path, scanned: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, 150, draws(5))
    exact = scanned(tmp_path, sizes=(4096,), chunked=False)["levels"][0]
    monkeypatch.setattr(engine, "_settings", _small)
    sketch = scanned(tmp_path, sizes=(4096,), chunked=False)["levels"][0]
    assert sketch["sampled_part"] < 1
    assert sketch["blocks"] == exact["blocks"]
    low, high = sketch["unique_bytes_low"], sketch["unique_bytes_high"]
    assert low < sketch["unique_bytes"] < high
    # the content is fixed, so this can't flake: it holds for it, or the estimate is wrong
    assert low <= exact["unique_bytes"] <= high
    monkeypatch.setattr(listing, "SEGMENT", 300 * KIB)  # other units, another order
    assert scanned(tmp_path, sizes=(4096,), chunked=False)["levels"][0] == sketch


def _small(*_: Any) -> Settings:
    return Settings((4096,), False, 200, 0)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"sizes": (5000,)}, "multiples of 4 KiB"),
        ({"sizes": (4096, 1 << 20)}, "up to 128 KiB"),
        ({"memory": 10**6}, "are too few"),
        ({"sizes": (), "chunked": False}, "no block size"),
    ],
)
def test_what_can_not_be_asked_is_refused(
    tmp_path: Path, scanned: Any, more: dict[str, Any], why: str
) -> None:
    with pytest.raises(ScanError, match=why):
        scanned(tmp_path, **more)


def test_paths_that_are_no_folder_are_refused(tmp_path: Path, scanned: Any) -> None:
    with pytest.raises(ScanError, match="No such file"):
        scanned(tmp_path / "none")
    with pytest.raises(ScanError, match="neither a folder nor a regular file"):
        scanned(Path("/dev/null"))


def test_kv_chunks_that_each_rank_stored_again_are_told_by_kind(
    tmp_path: Path, scanned: Any
) -> None:
    data = draws(9).randbytes(20_000)
    for rank in range(4):
        (tmp_path / f"deepseek@4@{rank}@1f2e3d4c@bfloat16.pt").write_bytes(data)
    (tmp_path / "0123456789abcdef_qwen_0_1.bin").write_bytes(data)
    found = scanned(tmp_path)
    assert found["same_files"]["by_kind"] == {"LMCache KV": {"again": 3, "bytes": 60_000}}
    assert found["same_files"]["again"] == 4
