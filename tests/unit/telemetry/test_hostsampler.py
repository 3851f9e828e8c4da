from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvgate.telemetry import hostsampler, hosttools
from kvgate.telemetry.hostread import body
from kvgate.telemetry.hostsampler import MOST_KERNEL, Files, Kernel, Sampler
from kvgate.telemetry.hosttools import Tool


@pytest.fixture
def kernel() -> Iterator[tuple[Kernel, socket.socket]]:
    """Return a kernel log whose records a test writes: one a read, as /dev/kmsg has it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    log = Kernel()
    if log.fd >= 0:
        os.close(log.fd)
    log.fd, log.why = ours.fileno(), ""
    yield log, theirs
    ours.close()
    theirs.close()


def test_records_of_the_kernel_are_events_once(kernel: Any) -> None:
    log, said = kernel
    said.send(b"12,345,67890,-;nvme nvme0: I/O \xff timeout\n SUBSYSTEM=nvme\n")
    assert log.records() == [
        {
            "kind": "kernel",
            "level": 4,
            "seq": 345,
            "us": 67890,
            "text": "nvme nvme0: I/O \\xff timeout",
        }
    ]
    assert log.records() == []


@pytest.mark.parametrize(("seq", "us", "told"), [(2, 9, [3, 4]), (-1, 25, [3, 4]), (-1, -1, 5)])
def test_a_sampler_that_follows_another_goes_on_where_that_left_the_kernel_log(
    kernel: Any, seq: int, us: int, told: Any
) -> None:
    log, said = kernel
    log.seq, log.us = Kernel(seq, us).seq, Kernel(seq, us).us
    for number in range(5):
        said.send(b"6,%d,%d,-;x" % (number, 10 * number))
    found = [each["seq"] for each in log.records()]
    assert found == (told if isinstance(told, list) else list(range(told)))


def test_what_the_kernel_said_between_two_samplers_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    left = {"boot": hostsampler.boot_id(), "seq": 7, "us": 3}
    base = {"every_ms": 1000, "slow_ms": 60000}
    asked: list[tuple[int, ...]] = []
    monkeypatch.setattr(hostsampler, "Kernel", lambda *marker: asked.append(marker))
    Sampler({**base, "kernel": left})
    Sampler({**base, "kernel": {**left, "boot": "another"}})
    Sampler(base)
    assert asked == [(7, 3), (), ()]


def test_a_kernel_that_floods_is_cut_and_counted(kernel: Any) -> None:
    log, said = kernel
    for number in range(MOST_KERNEL + 7):
        said.send(b"6,%d,1,-;x" % number)
    *records, last = log.records()
    assert len(records) == MOST_KERNEL
    assert last == {"kind": "kernel_lost", "text": "7 more records, 0 overwritten"}


def test_files_are_read_anew_and_those_that_went_are_left_out(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text("1")
    files = Files([f"{tmp_path}/*", str(tmp_path / "absent")])
    first.write_text("2")
    second.write_text("3")
    assert files.read() == {str(first): "2"}
    files.look()
    assert files.read() == {str(first): "2", str(second): "3"}
    assert files.refused == {str(tmp_path / "absent"): "No such file or directory"}
    second.unlink()
    files.look()
    assert list(files.read()) == [str(first)]
    for fd in files.open.values():
        os.close(fd)


def until_told(tool: Tool) -> Any:
    end = time.monotonic() + 30
    while (found := tool.poll()) is None:
        assert time.monotonic() < end
        time.sleep(0.01)
    return found


def test_a_tool_tells_numbers_or_nothing_and_a_hung_one_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    good = Tool("smart.x", ["echo", '{"temperature": 311}'], "json")
    good.start()
    assert until_told(good) == {"smart.x.temperature": ("l1000", 311_000)}
    odd = Tool("smart.x", ["echo", "Permission denied"], "json")
    odd.start()
    assert until_told(odd) == {}
    monkeypatch.setattr(hosttools, "TOOL_S", 0.05)
    hung = Tool("smart.x", ["sleep", "300"], "json")
    hung.start()
    assert until_told(hung) == {}
    endless = Tool("smart.x", ["yes"], "json")
    endless.start()
    assert until_told(endless) == {}
    assert len(endless.told) < hosttools.MOST_TOLD + 2**17
    assert Tool("x", ["no-such-tool-here"], "json").why == "not installed"


def test_without_leave_no_sudo_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosttools.glob, "glob", lambda p: ["/sys/block/sda"] * p.endswith("sd*"))
    monkeypatch.setattr(hosttools.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(hosttools.shutil, "which", lambda name: name)
    mine = ("tool.x", ["cat", "/x"], "json")
    own, smart = hosttools.tools([mine])
    assert (own.why, smart.why) == ("", "wants root, and the inventory allows no sudo there")
    own, smart = hosttools.tools([mine], sudo=True)
    assert smart.why == ""
    assert list(smart.argv[:3]) == ["sudo", "-n", "smartctl"]
    monkeypatch.setattr(hosttools.os, "geteuid", lambda: 0)
    own, smart = hosttools.tools([mine])
    assert (smart.why, smart.argv[0]) == ("", "smartctl")


class Answer:
    """An answer that gives `piece` for ever, each after `wait_s`."""

    def __init__(self, piece: bytes, wait_s: float) -> None:
        self.piece, self.wait_s, self.given = piece, wait_s, 0

    def read1(self, most: int) -> bytes:
        time.sleep(self.wait_s)
        self.given += 1
        return self.piece[:most]


def test_an_answer_without_end_is_left_by_size_and_by_time() -> None:
    fast, drips = Answer(b"x" * 65536, 0), Answer(b"x", 0.01)
    with pytest.raises(ValueError, match="over 1048576 bytes"):
        body(fast, 5.0)
    assert fast.given == 17
    with pytest.raises(ValueError, match=r"takes over 0\.1 s"):
        body(drips, 0.1)
    assert drips.given <= 11


def test_states_that_change_and_clocks_that_are_set_are_events() -> None:
    sampler = Sampler({"every_ms": 1000, "slow_ms": 60000})
    state = "/sys/class/nvme/nvme0/state"
    sampler.changes({state: "live\n"}, 5 * 10**9)
    sampler.changes({state: "live\n"}, 5 * 10**9 + 10**6)  # it drifts: no event
    assert sampler.out == []
    sampler.changes({state: "connecting\n"}, 65 * 10**9)
    events = [json.loads(line[2:]) for line in sampler.out]
    assert [event["kind"] for event in events] == ["state", "clock_step"]
    assert events[0]["text"] == f"{state}: connecting, was live"
    assert "was set by 59.999 s" in events[1]["text"]


def test_names_are_told_when_they_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = Sampler({"every_ms": 1000, "slow_ms": 60000})
    sampler.sample("fast", {"a": ("c", 1)}, (10**9, 10**9))
    sampler.sample("fast", {"a": ("c", 2**70)}, (2 * 10**9, 10**9))
    sampler.sample("fast", {"a": ("c", 1), "b": ("l", None)}, (3 * 10**9, 10**9))
    assert [line[:8] for line in sampler.out] == [
        "S fast 1",
        "V fast 1",
        "V fast 1",
        "S fast 2",
        "V fast 2",
    ]
    assert sampler.out[2].endswith(f" {hostsampler.MISSING}\n")
