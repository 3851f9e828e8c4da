"""A sealed run as one archive to hand over: the same run is the same tar, byte for byte."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from kvgate.errors import StoreError, UsageError
from kvgate.store import disk, tar
from kvgate.store.canonical import parse
from kvgate.store.layout import LOCK, MANIFEST, listing, read_bytes
from kvgate.store.verify import verify

LEVEL = 10
"""zstd's level; by one thread, as the bytes would depend on how many there are."""


def export(run: Path, out: Path) -> int:
    """Write the sealed run in folder `run` to the new file `out`; return how many files it holds.

    ``.tar.zst`` is compressed (the same bytes by the same release of zstd), ``.tar`` is not. Files
    lie in a folder called as the run, all dated at the run's beginning, all owned by nobody.
    Raises StoreError where the run is not sealed and whole, UsageError where `out` is there.
    """
    state = verify(run)
    if not state.ok:
        raise StoreError(
            f"{run.name}: is not sealed and whole, so it is not handed over: {state.problems[0]}",
            hint="`kvgate verify` names every problem; `kvgate seal` seals what was added",
        )
    if not out.name.endswith((".tar", ".tar.zst")):
        raise UsageError(f"{out}: an export is called .tar.zst or .tar")
    manifest = parse(read_bytes(run / MANIFEST))
    name = str(manifest["run"])
    files = sorted(f"{name}/{each}" for each in listing(run).files if each != LOCK)
    pairs = ((each, run / each[len(name) + 1 :]) for each in files)
    try:
        with out.open("xb") as file, _packed(file, out) as packed:
            tar.write(packed, pairs, _began(manifest))
    except FileExistsError as err:
        raise UsageError(f"{out}: is there already, and is not overwritten") from err
    except OSError as err:
        raise StoreError(f"{out}: can't be written: {err.strerror or err}") from err
    except BaseException:
        out.unlink(missing_ok=True)
        raise
    disk.sync_file(out)
    return len(files)


def _began(manifest: dict[str, object]) -> int:
    return int(datetime.datetime.fromisoformat(str(manifest["created"])).timestamp())


@contextlib.contextmanager
def _packed(file: BinaryIO, out: Path) -> Iterator[BinaryIO]:
    if out.suffix == ".tar":
        yield file
        return
    import zstandard

    machine = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True, threads=0)
    with machine.stream_writer(file, closefd=False) as packed:
        yield cast(BinaryIO, packed)
