"""The scratch folder: made, marked, with room, and removed only if it is ours."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvgate.errors import CommandError, NotRunError, ParseError, TransportError
from kvgate.workloads.base import MARKER, free_bytes, scratch_folder


def with_scratch(bench: Any, scratch: str | None) -> Any:
    host = bench.witness.host.model_copy(update={"scratch": scratch})
    return dataclasses.replace(bench.witness, host=host)


def test_a_folder_is_made_marked_and_removed(bench: Any) -> None:
    with scratch_folder(bench.witness, "fio", needs_bytes=1) as folder:
        path = Path(folder.path)
        assert path.parent == bench.scratch
        assert path.name.startswith("kvgate-fio-")
        assert (path / MARKER).stat().st_size == 32
        (path / "data").write_bytes(b"x")
        assert folder.free_bytes > 0
        assert folder.evidence[0] in bench.kept
    assert list(bench.scratch.iterdir()) == []


def test_it_is_removed_on_errors_too(bench: Any) -> None:
    with pytest.raises(ZeroDivisionError), scratch_folder(bench.witness, "fio", needs_bytes=1):
        raise ZeroDivisionError
    assert list(bench.scratch.iterdir()) == []


def test_a_folder_without_our_marker_is_left(bench: Any) -> None:
    with (
        pytest.raises(CommandError, match="not the folder this run made"),
        scratch_folder(bench.witness, "fio", needs_bytes=1) as folder,
    ):
        (Path(folder.path) / MARKER).write_bytes(b"someone else's")
    assert Path(folder.path).is_dir()


def test_the_first_error_is_the_one_that_is_raised(bench: Any) -> None:
    def failing() -> None:
        with scratch_folder(bench.witness, "fio", needs_bytes=1) as folder:
            (Path(folder.path) / MARKER).unlink()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as err:
        failing()
    assert "could not be removed" in err.value.__notes__[0]


def test_no_room_is_a_reason_not_to_run(bench: Any) -> None:
    with (
        pytest.raises(NotRunError, match=r"GB free, the workload needs 1000000\.00 GB"),
        scratch_folder(bench.witness, "fio", needs_bytes=10**15),
    ):
        pytest.fail("there is no room")
    assert list(bench.scratch.iterdir()) == []


@pytest.mark.parametrize(
    "scratch", [None, "", "/dev", "/dev/nvme0n1", "/proc/1", "relative/folder", "/srv/../dev"]
)
def test_only_a_folder_for_files_will_do(bench: Any, scratch: str | None) -> None:
    with (
        pytest.raises(NotRunError),
        scratch_folder(with_scratch(bench, scratch), "fio", needs_bytes=1),
    ):
        pytest.fail("that is no scratch folder")
    assert bench.transport.asked == [], "nothing was asked of the host"


def test_a_scratch_folder_that_is_not_there(bench: Any, tmp_path: Path) -> None:
    with (
        pytest.raises(NotRunError, match="No such file"),
        scratch_folder(with_scratch(bench, str(tmp_path / "none")), "fio", needs_bytes=1),
    ):
        pytest.fail("that folder is not there")


@pytest.mark.parametrize(
    "answer", [b"/\n", b"/etc\n", b"\n", b"{}-abcd;rm -r\n", b"{}-../../../x\n"]
)
def test_a_host_that_lies_about_the_folder_gets_nothing_removed(bench: Any, answer: bytes) -> None:
    said = b"0" * 32 + b" " + answer.replace(b"{}", f"{bench.scratch}/kvgate-fio".encode())
    lies = ["sh", "-c", 'printf %s "$0"; sleep 60', said.decode()]
    bench.transport.started["sh"] = lambda _: lies
    with (
        pytest.raises(ParseError, match="guard"),
        scratch_folder(bench.witness, "fio", needs_bytes=1),
    ):
        pytest.fail("that is not the folder")
    assert not any(argv[0] == "rm" for argv in bench.transport.asked)


def test_a_host_without_room_for_a_marker_keeps_no_folder(bench: Any) -> None:
    full = """sh -c 'trap "" 25; ulimit -f 0; exec sh -c "$@"' -"""  # 25: SIGXFSZ
    bench.transport.started["sh"] = lambda argv: [
        word.replace("sh -c", full) if word.startswith("while") else word for word in argv
    ]
    with (
        pytest.raises(NotRunError, match="takes no file"),
        scratch_folder(bench.witness, "fio", needs_bytes=1),
    ):
        pytest.fail("that folder takes no file")
    assert list(bench.scratch.iterdir()) == []


def test_a_folder_that_can_not_be_removed_is_said(bench: Any) -> None:
    bench.transport.answers["rm"] = lambda real: dataclasses.replace(real, exit_status=1)
    with (
        pytest.raises(TransportError, match="rm -rf"),
        scratch_folder(bench.witness, "fio", needs_bytes=1),
    ):
        pass


def test_df_as_posix_prints_it() -> None:
    answer = (
        b"Filesystem     1024-blocks      Used Available Capacity Mounted on\n"
        b"/dev/my disk     263940717  23345678  83000000      23% /srv/a b\n"
    )
    assert free_bytes(answer) == 83_000_000 * 1024


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_other_df_is_refused(answer: bytes) -> None:
    with pytest.raises(ParseError):
        free_bytes(answer)


def test_df_in_other_units_is_refused() -> None:
    with pytest.raises(ParseError):
        free_bytes(b"Filesystem 512-blocks Used Available Capacity Mounted on\n/ 9 9 9 9% /\n")
