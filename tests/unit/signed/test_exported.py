"""A run as one archive: the same bytes each time, signed itself, and nothing hostile in it."""

from __future__ import annotations

import hashlib
import io
import random
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.engine.sign import sign_archive
from kvgate.errors import DamagedRunError, StoreError, UsageError
from kvgate.store import tar
from kvgate.store.export import export
from kvgate.store.single import single_file
from kvgate.store.unpack import unpacked
from kvgate.store.verify import inspect
from kvgate.store.verify_steps import verify_steps

if TYPE_CHECKING:
    from tests.unit.signed.conftest import Base, Verify
else:
    Base = Verify = Any


@pytest.fixture(scope="module")
def archive(base: Base, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the signed run exported, and the archive signed by the supplier."""
    path = tmp_path_factory.mktemp("export") / "run.tar.zst"
    export(base.run, path)
    sign_archive(base.run, path, base.site.signer("supplier"))
    return path


@pytest.fixture
def copied(archive: Path, tmp_path: Path) -> Path:
    for path in archive.parent.iterdir():
        shutil.copy(path, tmp_path)
    return tmp_path / archive.name


def test_an_archive_is_the_same_bytes_each_time_and_tar_reads_it(
    archive: Path, base: Base, verify: Verify, tmp_path: Path
) -> None:
    moved = Path(shutil.copytree(base.run, tmp_path / "elsewhere"))
    export(moved, tmp_path / "again.tar.zst")
    assert (tmp_path / "again.tar.zst").read_bytes() == archive.read_bytes()
    export(moved, tmp_path / "plain.tar")
    with tarfile.open(tmp_path / "plain.tar") as file:
        names = {each.name for each in file.getmembers()}
        assert {(each.mode, each.uid, each.uname) for each in file.getmembers()} == {(0o644, 0, "")}
    here = {
        f"{base.run.name}/{p.relative_to(base.run)}" for p in base.run.rglob("*") if p.is_file()
    }
    assert names == here - {f"{base.run.name}/lock"}
    assert verify(tmp_path / "plain.tar")[0] == 0
    with pytest.raises(UsageError, match="is there already"):
        export(moved, tmp_path / "plain.tar")
    with pytest.raises(UsageError, match=r"called .tar.zst or .tar"):
        export(moved, tmp_path / "plain.zip")


def test_a_signed_archive_verifies_and_says_by_whom(archive: Path, verify: Verify) -> None:
    code, told = verify(archive, require=["buyer", "supplier"])
    assert code == 0, told
    assert hashlib.sha256(archive.read_bytes()).hexdigest() in told
    assert "archive: ok" in told
    assert told.count("supplier: Ada Kern (supplier@example.com) for Supplier AG, key") == 2


def test_an_archive_packed_anew_is_not_what_was_signed(copied: Path, verify: Verify) -> None:
    plain = subprocess.run(
        ["zstd", "-q", "-d", "-c", copied], capture_output=True, check=True, timeout=60
    ).stdout
    packed = subprocess.run(
        ["zstd", "-q", "-19", "-c"], input=plain, capture_output=True, check=True, timeout=60
    ).stdout
    assert packed != copied.read_bytes()
    copied.write_bytes(packed)
    code, told = verify(copied)
    assert code == 1
    assert "altered: run.tar.zst: the archive has SHA-256" in told


@pytest.mark.parametrize("cut", [10, 1000, -1])
def test_an_archive_that_is_cut_off_or_longer_is_refused(
    copied: Path, verify: Verify, cut: int
) -> None:
    data = copied.read_bytes()
    copied.write_bytes(data[:-cut] if cut > 0 else data + b"more")
    code, told = verify(copied)
    assert code == 3
    assert "run.tar.zst: " in told


def a_tar(*members: tuple[str, bytes], kind: bytes = tarfile.REGTYPE, link: str = "") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as file:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size, info.type, info.linkname, info.mode = len(content), kind, link, 0o644
            file.addfile(info, io.BytesIO(content))
    return out.getvalue()


def ours(*members: tuple[str, bytes]) -> bytes:
    parts = [tar.header(n, len(c), 0) + c + bytes(-len(c) % tar.BLOCK) for n, c in members]
    return b"".join([*parts, bytes(2 * tar.BLOCK)])


HOSTILE = {
    "path traversal": (a_tar(("run/../../evil", b"x")), "not a safe name"),
    "absolute": (a_tar(("/etc/passwd", b"x")), "not a safe name"),
    "symbolic link": (a_tar(("run/a", b""), kind=tarfile.SYMTYPE, link="/etc"), "a symbolic link"),
    "hard link": (a_tar(("run/a", b""), kind=tarfile.LNKTYPE, link="run/b"), "a hard link"),
    "device": (a_tar(("run/a", b""), kind=tarfile.BLKTYPE), "a device"),
    "pipe": (a_tar(("run/a", b""), kind=tarfile.FIFOTYPE), "a pipe"),
    "folder": (a_tar(("run/a", b""), kind=tarfile.DIRTYPE), "a folder"),
    "sparse": (a_tar(("run/a", b""), kind=tarfile.GNUTYPE_SPARSE), "of kind"),
    "extended": (a_tar(("run/a", b"13 path=../x\n"), kind=tarfile.XHDTYPE), "of kind"),
    "twice": (ours(("run/a", b"1"), ("run/a", b"2")), "twice"),
    "two folders": (ours(("a/x", b"1"), ("b/x", b"2")), "one folder"),
    "no folder": (ours(("manifest.json", b"{}")), "one folder"),
    "of another hand": (a_tar(("run/a", b"1")), "not as kvgate writes it"),
    "terminal": (a_tar(("run/\x1b[2Jx", b"1")), "not a safe name"),
    "nothing": (bytes(10240), "holds no file|bytes behind"),
    "no tar": (b"hello" * 500, "header"),
    "no archive": (b"", "cut off"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_no_export_holds_is_refused(tmp_path: Path, by_script: Verify, case: str) -> None:
    data, said = HOSTILE[case]
    path = tmp_path / "x.tar"
    path.write_bytes(data)
    with pytest.raises(DamagedRunError, match=said), unpacked(path):
        pass
    code, told = by_script(path)
    assert code == 3
    assert "x.tar: " in told
    assert told.rstrip("\n").isprintable()
    assert not (tmp_path.parent / "evil").exists()


def test_a_bomb_is_refused_before_it_is_written(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.tar.zst"
    with subprocess.Popen(
        ["zstd", "-q", "-c"], stdin=subprocess.PIPE, stdout=bomb.open("wb")
    ) as child:
        assert child.stdin is not None
        child.stdin.write(tar.header("run/zeros", 300 << 20, 0))
        for _ in range(300):
            child.stdin.write(bytes(1 << 20))
        child.stdin.close()
    assert bomb.stat().st_size < 1 << 20
    with pytest.raises(DamagedRunError, match="more than its size allows"), unpacked(bomb):
        pass


@settings(max_examples=60, deadline=None)
@given(
    at=st.integers(0, 2000), to=st.binary(min_size=1, max_size=9), name=st.text("ab/.é", max_size=9)
)
def test_any_tar_is_read_as_it_was_written_or_refused(at: int, to: bytes, name: str) -> None:
    files = {"run/a": b"1" * 700, "run/b/c": b"2"}
    data = ours(*files.items())
    changed = io.BytesIO(data[:at] + to + data[at + len(to) :])
    try:
        read = {m.name: b"".join(tar.bytes_of(changed, m)) for m in tar.members(changed)}
    except DamagedRunError:
        return
    assert {each: len(content) for each, content in read.items()} == {"run/a": 700, "run/b/c": 1}
    try:
        block = tar.header(f"run/{name}", 3, 0)
    except StoreError:
        return
    assert len(block) == tar.BLOCK


def test_without_a_zstd_the_way_out_is_told(archive: Path, script: Path, tmp_path: Path) -> None:
    blind = "import sys; sys.modules['zstandard'] = sys.modules['compression'] = None\n"
    alone = tmp_path / "verify.py"
    alone.write_text(blind + script.read_text())
    done = subprocess.run(
        [sys.executable, "-I", alone, archive], capture_output=True, text=True, timeout=60,
        env={"PATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 3
    assert "takes Python 3.14, its module zstandard, or the command zstd" in done.stderr


def test_the_file_in_a_run_is_that_of_this_kvgate_and_hears_no_module_of_the_run(
    run: Path, oldest_python: str
) -> None:
    import importlib.metadata

    assert (run / "verify.py").read_bytes() == single_file(importlib.metadata.version("kvgate"))
    for name in ("json", "dataclasses", "argparse", "pathlib"):
        (run / f"{name}.py").write_text("raise SystemExit(0)\n")
    for word in ([], ["-I"]):
        done = subprocess.run(
            [oldest_python, *word, run / "verify.py"], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 1
        assert "added: json.py: no seal layer covers it" in done.stdout


def mutate(run: Path, passes: Callable[[Path], bool], times: int) -> list[str]:
    """Change one random byte of one random file `times` times; return those that passed."""
    chance = random.Random(13)  # noqa: S311
    files = sorted(path for path in run.rglob("*") if path.is_file() and path.stat().st_size)
    passed = []
    for _ in range(times):
        path = chance.choice(files)
        whole = path.read_bytes()
        at = chance.randrange(len(whole))
        changed = bytearray(whole)
        changed[at] = (changed[at] + chance.randrange(1, 256)) % 256
        path.write_bytes(changed)
        if passes(run):
            passed.append(f"{path.name} byte {at}: {whole[at]} to {changed[at]}")
        path.write_bytes(whole)
    return passed


def _passes(run: Path) -> bool:
    # The seal is the cheap part; only what passes it is worth asking ssh-keygen about.
    return not inspect(run)[0].problems and verify_steps(run).exit_code == 0


def test_no_mutated_byte_of_an_unpacked_export_passes(archive: Path) -> None:
    with unpacked(archive) as found:
        assert _passes(found.run)
        assert mutate(found.run, _passes, 150) == []


@pytest.mark.whole
def test_none_of_5000_mutated_bytes_of_an_unpacked_export_passes(archive: Path) -> None:
    with unpacked(archive) as found:
        assert mutate(found.run, _passes, 5000) == []
