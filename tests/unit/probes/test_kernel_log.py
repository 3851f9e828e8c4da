from pathlib import Path
from typing import Any

import pytest

from kvgate.model.quantity import Quantity
from kvgate.parse import dmesg
from kvgate.probes import kernel_log

LOGS = sorted((Path(__file__).parents[2] / "recorded/dmesg").iterdir())
ARGV = ("sh", "-c", kernel_log.SCRIPT)
BEGIN = b"[    0.000000] Linux version 6.8.0 (build@host) #1 SMP\n"


def test_a_healthy_boot_has_no_complaint(server: Any, told: Any) -> None:
    found = told(kernel_log.ask_log(server()))
    assert {found[name, ""] for name in kernel_log.SUBJECTS} == {Quantity.of(0, "")}
    assert found["log.fatal", ""] == Quantity.of(0, "")
    assert found["log.whole", ""] is True


@pytest.mark.parametrize(
    ("line", "measure"),
    [
        (b"nvme nvme0: I/O tag 12 (c00c) opcode 0x1 (I/O Cmd) QID 30 timeout, aborting",
         "log.nvme_errors"),
        (b"amdgpu 0000:05:00.0: amdgpu: GPU reset begin!. Source:  3", "log.gpu_errors"),
        (b"mlx5_core 0000:9a:00.0 ens1np0: Link down", "log.link_flaps"),
        (b"BUG: unable to handle page fault for address: ffffa1b2c3d4e5f6", "log.kernel_errors"),
    ],
)  # fmt: skip
def test_complaints_are_counted_by_subject(
    server: Any, told: Any, line: bytes, measure: str
) -> None:
    say = BEGIN + b"[   10.000000] " + line + b"\n"
    found = told(kernel_log.ask_log(server({ARGV: say})))
    counted = {name for name in kernel_log.SUBJECTS if found[name, ""] != Quantity.of(0, "")}
    assert counted == {measure}


def test_silence_of_a_log_without_its_beginning_proves_nothing(server: Any, told: Any) -> None:
    say = b"[ 9000.000000] mlx5_core 0000:9a:00.0 ens1np0: Link down\n"
    found = told(kernel_log.ask_log(server({ARGV: say})))
    assert found["log.link_flaps", ""] == Quantity.of(1, "")
    assert "silence proves nothing" in found["log.nvme_errors", ""]
    assert "silence proves nothing" in found["log.fatal", ""]
    assert found["log.whole", ""] is False


def test_what_must_not_count(server: Any, told: Any) -> None:
    say = BEGIN + b"[    0.5] iommu: Default domain type: Passthrough\n".replace(
        b"0.5", b"0.500000"
    )
    found = told(kernel_log.ask_log(server({ARGV: say})))
    assert {found[name, ""] for name in kernel_log.SUBJECTS} == {Quantity.of(0, "")}


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_nothing_is_lost_by_reading_only_the_telling_lines(path: Path) -> None:
    log = path.read_bytes()
    whole, part = dmesg.kernel_log(log), dmesg.kernel_log(kernel_log.telling(log))
    assert [(each.id, each.count, each.implausible) for each in whole.events] == [
        (each.id, each.count, each.implausible) for each in part.events
    ]
    assert len(kernel_log.telling(log)) <= len(log) + 1


def test_a_message_of_several_lines_stays_whole() -> None:
    log = b"[1.0] Linux version 6\n[2.0] quiet\n[3.0] head\n\tmiddle\n\tOops: x\n\tend\n[4.0] no\n"
    kept = b"[1.0] Linux version 6\n[3.0] head\n\tmiddle\n\tOops: x\n\tend\n"
    assert kernel_log.telling(log) == kept


def test_a_refusal_says_how_to_allow_it(server: Any, told: Any) -> None:
    refused = (1, b"", b"dmesg: read kernel buffer failed: Operation not permitted")
    found = told(kernel_log.ask_log(server({ARGV: refused})))
    assert set(found) == {(name, "") for name in kernel_log.MEASURES}
    assert all("sudo: passwordless" in str(each) for each in found.values())


def test_no_pattern_is_left_without_what_it_is_looked_for_by() -> None:
    assert all(kernel_log._needed())  # an empty word would be found without end
