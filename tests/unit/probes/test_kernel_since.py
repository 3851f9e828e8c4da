"""The kernel log since a mark, of which nothing is left on the host."""

import dataclasses
from typing import Any

import pytest

from kvgate.errors import CommandError, ParseError
from kvgate.model.quantity import Quantity
from kvgate.probes import kernel_since

ARGV = ("sh", "-c", kernel_since.SCRIPT)
BOOT, OTHER = (f"00000000-0000-4000-8000-00000000000{n}\n".encode() for n in (1, 2))
OLD = b"[    1.000000] mlx5_core 0000:9a:00.0 ens1np0: Link down\n[    2.000000] last\n"
NEW = b"[    2.000000] BUG: unable to handle page fault for address: ffffa1b2c3d4e5f6\n"
FLAP = b"[    9.000000] mlx5_core 0000:9a:00.0 ens1np0: Link down\n"


def since(server: Any, told: Any, before: bytes, after: Any) -> dict[str, Any]:
    mark = kernel_since.mark(server({ARGV: before}))
    found = told(kernel_since.ask_since(server({ARGV: after}), mark))
    assert {name for name, _ in found} == set(kernel_since.MEASURES)
    return {name: value for (name, _), value in found.items()}


def test_only_what_came_after_the_mark_counts(server: Any, told: Any) -> None:
    found = since(server, told, BOOT + OLD, BOOT + OLD + NEW + FLAP)
    assert found["log.new_link_flaps"] == Quantity.of(1, "")
    assert found["log.new_kernel_errors"] == Quantity.of(1, "")
    assert found["log.new_fatal"] == Quantity.of(1, "")
    assert "page fault" in found["log.first_new_fatal"]


def test_silence_is_zero_where_the_mark_is_still_there(server: Any, told: Any) -> None:
    found = since(server, told, BOOT + OLD, BOOT + OLD)
    assert {found[name] for name in kernel_since.NEW} == {Quantity.of(0, "")}
    assert found["log.first_new_fatal"] == "none"


def test_the_same_line_again_is_after_the_mark(server: Any, told: Any) -> None:
    found = since(server, told, BOOT + FLAP + FLAP, BOOT + FLAP + FLAP + FLAP)
    assert found["log.new_link_flaps"] == Quantity.of(1, "")


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (OTHER + OLD, "booted again"),
        (BOOT + FLAP, "lines were lost"),
        (b"nonsense\n" + OLD, "no boot's id"),
        (BOOT, "is empty"),
        ((1, b"", b"dmesg: read kernel buffer failed: Operation not permitted"), "not permitted"),
    ],
)
def test_what_proves_nothing_is_no_silence(server: Any, told: Any, after: Any, why: str) -> None:
    found = since(server, told, BOOT + OLD, after)
    assert all(why in str(value) for value in found.values())


@pytest.mark.parametrize("say", [BOOT, b"", BOOT + b"no stamp: nvme nvme0: resetting controller\n"])
def test_no_mark_without_a_log(server: Any, say: bytes) -> None:
    with pytest.raises(ParseError):
        kernel_since.mark(server({ARGV: say}))


@pytest.mark.parametrize("length", [kernel_since.LONGEST, kernel_since.LONGEST + 1])
def test_no_mark_is_longer_than_the_kernel_s_own_messages(server: Any, length: int) -> None:
    say = BOOT + OLD + b"[    3.000000] " + b"x" * length + b"\n"
    if length <= kernel_since.LONGEST:
        assert len(kernel_since.mark(server({ARGV: say})).mark.text) == length
        return
    with pytest.raises(ParseError, match="none is so long"):
        kernel_since.mark(server({ARGV: say}))


def test_the_end_of_a_log_that_was_cut_is_not_known(
    server: Any, told: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mark in its midst would make old lines new ones; without its end, nothing is silent."""
    mark = kernel_since.mark(server({ARGV: BOOT + OLD}))
    cut = server({ARGV: BOOT + OLD})
    whole = cut.transport.run
    monkeypatch.setattr(
        cut.transport,
        "run",
        lambda argv, **more: dataclasses.replace(whole(argv, **more), stdout_dropped=3_000_000),
    )
    with pytest.raises(CommandError, match="over the cap"):
        kernel_since.mark(cut)
    found = told(kernel_since.ask_since(cut, mark))
    assert "over the cap" in found["log.new_fatal", ""]


def test_no_mark_where_the_log_is_refused(server: Any) -> None:
    with pytest.raises(CommandError):
        kernel_since.mark(server({ARGV: (1, b"", b"")}))


def test_it_is_read_on_this_machine_and_leaves_no_trace(here: Any, told: Any) -> None:
    try:
        mark = kernel_since.mark(here({}))
    except (CommandError, ParseError) as err:
        pytest.skip(f"this machine shows no kernel log: {err.message}")
    assert kernel_since.mark(here({})) == mark or mark.mark.times
    found = told(kernel_since.ask_since(here({}), mark))
    assert isinstance(found["log.new_fatal", ""], Quantity)
