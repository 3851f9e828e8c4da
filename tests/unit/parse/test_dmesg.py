import decimal
import re
from collections import Counter
from collections.abc import Callable

import pytest

from kvgate.errors import ParseError
from kvgate.parse import dmesg
from kvgate.parse.dmesg import kernel_log
from kvgate.parse.kernel_patterns import SEVERITIES, Pattern, patterns

Recorded = Callable[[str], bytes]
FAULTS = "dmesg/composed-6.8-faults.txt"
HEALTHY = "dmesg/composed-6.8-healthy-boot.txt"
EACH = pytest.mark.parametrize("pattern", patterns(), ids=lambda pattern: pattern.id)


def ids(answer: bytes) -> list[str]:
    return [event.id for event in kernel_log(answer).events]


@EACH
def test_example_matches(pattern: Pattern) -> None:
    assert pattern.needs in pattern.example
    assert pattern.id in ids(f"[    1.000000] {pattern.example}\n".encode())


@EACH
def test_never_does_not_match(pattern: Pattern) -> None:
    assert pattern.id not in ids(f"[    1.000000] {pattern.never}\n".encode())


@EACH
def test_entry_is_sound(pattern: Pattern) -> None:
    assert pattern.severity in SEVERITIES
    assert pattern.id.count(".") == 1
    assert pattern.id.replace(".", "").replace("_", "").isalnum()


def test_ids_are_unique() -> None:
    assert [
        name for name, count in Counter(each.id for each in patterns()).items() if count > 1
    ] == []


def test_an_example_means_one_thing() -> None:
    """No fault counts twice: an example fires its own pattern only."""
    for pattern in patterns():
        assert ids(f"[    1.000000] {pattern.example}\n".encode()) == [pattern.id]


def test_health_is_no_fault(recorded: Recorded) -> None:
    found = kernel_log(recorded(HEALTHY))
    assert found.events == ()
    assert found.aer == ()
    assert found.messages == 40


def test_faults(recorded: Recorded) -> None:
    found = kernel_log(recorded(FAULTS))
    assert [(event.id, event.severity, event.device) for event in found.events] == [
        ("aer.nonfatal", "error", "0000:0c:00.0"),
        ("aer.corrected", "warning", "0000:c1:00.0"),
        ("ras.uncorrectable", "error", "0000:0c:00.0"),
        ("ras.total", "info", "0000:0c:00.0"),
        ("ras.correctable", "warning", "0000:22:00.0"),
        ("nvme.io_timeout", "error", "nvme0"),
        ("nvme.reconnecting", "warning", "nvme0"),
        ("nvme.reconnected", "info", "nvme0"),
        ("link.down", "warning", "0000:9a:00.0"),
        ("link.up", "info", "0000:9a:00.0"),
        ("oom.killed", "error", None),
        ("mce.logged", "error", None),
    ]
    assert found.events[5].fields["queue"] == "30"
    assert found.events[5].uptime_s == decimal.Decimal("104.000001")


def test_lines_of_two_devices_are_kept_apart(recorded: Recorded) -> None:
    gpu, drive = kernel_log(recorded(FAULTS)).aer
    assert (gpu.driver, gpu.vendor_device, dict(gpu.bits)) == (
        "amdgpu",
        "1002:74a2",
        {"UnsupReq": 1},
    )
    assert (drive.device, drive.severity, dict(drive.bits)) == (
        "0000:c1:00.0",
        "Correctable",
        {"RxErr": 1, "BadTLP": 1},
    )


@pytest.mark.parametrize(("printed", "count"), [(65535, None), (1048560, None), (1048561, 1048561)])
def test_counters_of_a_suspended_gpu_are_implausible(printed: int, count: int | None) -> None:
    text = (
        f"amdgpu 0000:22:00.0: amdgpu: {printed} correctable hardware errors detected in umc block"
    )
    (event,) = kernel_log(f"[ 1.0] {text}\n".encode()).events
    assert (event.count, event.implausible) == (count, count is None)


def test_firmware_first(recorded: Recorded) -> None:
    found = kernel_log(recorded("dmesg/composed-5.15-journal-ghes.txt"))
    (record,) = found.firmware
    assert (record.severity, record.device, record.vendor_device) == (
        "recoverable",
        "0000:11:01.0",
        "1002:74a2",
    )
    (device,) = found.aer
    assert (device.severity, device.vendor_device) == ("Recoverable", "1002:74a2")
    assert "oom.killed" not in [event.id for event in found.events]  # a daemon wrote it


@pytest.mark.parametrize(
    ("prefix", "stamp", "uptime"),
    [
        ("[  304.395405] ", "304.395405", "304.395405"),
        ("kern  :warn  : [  304.395405] ", "304.395405", "304.395405"),
        (
            "kern  :warn  : 2026-01-07T10:00:05,123456-06:00 ",
            "2026-01-07T10:00:05,123456-06:00",
            None,
        ),
        ("[Mon Dec 26 06:14:36 2022] ", "Mon Dec 26 06:14:36 2022", None),
        ("[  +0.000323] ", "+0.000323", None),
        ("[Mar18 00:14] ", "Mar18 00:14", None),
        ("<4>[  304.395405] ", "304.395405", "304.395405"),
        ("[  304.395405][   T55] ", "304.395405", "304.395405"),
        ("4,2210,4053154882,-;", "4,2210,4053154882,-", "4053.154882"),
        ("Jan  1 23:30:53 host01 kernel: [   46.675818] ", "Jan  1 23:30:53", "46.675818"),
        ("Jan 21 23:30:53 host01 kernel: ", "Jan 21 23:30:53", None),
        ("2026-01-07T10:00:05+0000 host01 kernel: ", "2026-01-07T10:00:05+0000", None),
        ("2026-01-07T10:00:05+0000 ", "2026-01-07T10:00:05+0000", None),
        (
            "2026-01-07T10:00:05.12+00:00 host01 kernel: [   46.675818] ",
            "2026-01-07T10:00:05.12+00:00",
            "46.675818",
        ),
        ("16:32:32 ", "16:32:32", None),
    ],
)
def test_time_formats(prefix: str, stamp: str, uptime: str | None) -> None:
    (event,) = kernel_log(f"{prefix}nvme nvme2: I/O 1 QID 0 timeout\n".encode()).events
    assert (event.stamp, event.text) == (stamp, "nvme nvme2: I/O 1 QID 0 timeout")
    assert event.uptime_s == (None if uptime is None else decimal.Decimal(uptime))


def test_since_a_marker(recorded: Recorded) -> None:
    log = recorded(FAULTS)
    assert kernel_log(log, "marker 17 begin").messages == kernel_log(log).messages - 1
    after = kernel_log(log + b"[  120.0] kvgate: marker 18 begin\n", "marker 18 begin")
    assert (after.messages, after.events) == (0, ())
    with pytest.raises(ParseError, match="lines were lost"):
        kernel_log(log, "marker 16 begin")


def test_wrapped_lines_are_joined() -> None:
    (event,) = kernel_log(
        b"[ 1.0] blk_update_request: I/O error, dev nvme2n1, sector 0 op\n0x3:(DISCARD) flags\n"
    ).events
    assert event.fields["op"] == "DISCARD"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "no evidence of health"),
        (b"\n \n", "no evidence of health"),
        (b"dmesg: read kernel buffer failed: Operation not permitted\n", "could not be read"),
        (b"total 8\ndrwxr-xr-x 2 root root\n", "no kernel log"),
        (b"[ 1.0] a\0b\n", "NUL byte"),
    ],
)
def test_refused(answer: bytes, why: str) -> None:
    with pytest.raises(ParseError, match=why):
        kernel_log(answer)


def test_bytes_that_are_not_utf8_hide_no_fault() -> None:
    log = b"[ 1.0] usb 1-1: Product: \xe9cran\n[ 2.0] nvme nvme2: starting error recovery\n"
    assert ids(log) == ["nvme.recovering"]


DOWN = b"[    1.000000] mlx5_core 0000:9a:00.0 ens1np0: Link down\n"


def test_a_mark_is_a_place_in_the_log_not_a_text() -> None:
    log = b"[    0.500000] first\n" + DOWN + DOWN
    mark = dmesg.end_of(log)
    assert mark.times == 2
    assert len(dmesg.kernel_log(log).events) == 2
    assert dmesg.kernel_log(log, mark).events == ()
    assert len(dmesg.kernel_log(log + DOWN, mark).events) == 1


def test_a_mark_that_the_ring_has_lost_is_no_silence() -> None:
    mark = dmesg.end_of(b"[    0.500000] first\n")
    with pytest.raises(ParseError, match="lines were lost"):
        dmesg.kernel_log(DOWN, mark)
    with pytest.raises(ParseError, match="no time stamp"):
        dmesg.end_of(b"nvme nvme0: I/O tag 1 QID 2 timeout, aborting\n")


def test_a_message_without_end_costs_no_more_than_its_lines() -> None:
    lines = ["[    1.000000] nvme nvme0: one:", *["  and more"] * 20_000]
    end = "[    2.000000] nvme nvme0: I/O 8 QID 1 timeout, aborting"
    found = dmesg.kernel_log("\n".join([*lines, end]).encode())
    assert found.messages == 2
    assert [event.line for event in found.events] == [20_002]


@pytest.mark.parametrize("pattern", patterns(), ids=lambda each: each.id)
def test_no_pattern_is_tried_without_bound_from_every_place(pattern: Pattern) -> None:
    """A message is up to 64 KiB of a host's words; a log has many."""
    source = pattern.regex.pattern
    assert not re.search(r"(?<!\\)\.[*+]", source), "bounded, as .* becomes"
    assert not re.match(r"\(\?P<\w+>(?:\\[Sw]|\[[^]]+\])\+\)", source), (
        "(?<!\\S) before a first word"
    )
