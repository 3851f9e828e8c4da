"""NVMe drives by nvme-cli and smartctl."""

from typing import Any

from kvgate.model.quantity import Quantity
from kvgate.probes import nvme_tools

ITEM, DEVICE = "SN0000", "/dev/nvme0n1"


def found(server: Any, told: Any, changed: Any = None) -> dict[str, Any]:
    readings: dict[tuple[str, str], Any] = {}
    for probe in nvme_tools.PROBES:
        readings |= told(probe.ask(server(changed)))
    return {name: value for (name, item), value in readings.items() if item == ITEM}


def test_a_healthy_drive(server: Any, told: Any) -> None:
    readings = found(server, told)
    assert readings["nvme.serial"] == "EXS0000000001"
    assert readings["nvme.model"] == "Example SSD 7.68TB"
    assert readings["nvme.lba_format"] == "0: 512 B + 0 B"
    assert readings["nvme.lba_metadata"] == Quantity.of(0, "B")
    assert readings["nvme.lba_best"] is False
    assert readings["nvme.firmware_active"] == "GDC7302Q"
    assert readings["nvme.firmware_slot"] == Quantity.of(1, "")
    assert readings["nvme.firmware_pending"] is False
    assert readings["nvme.smart_passed"] is True


def test_another_firmware_at_the_next_reset_is_told(server: Any, told: Any, recorded: Any) -> None:
    pending = recorded("nvme_fw_log/composed-2.x-pending.txt")
    readings = found(server, told, {("nvme", "fw-log", DEVICE, "-o", "json"): pending})
    assert readings["nvme.firmware_active"] == "GDC7302Q"
    assert readings["nvme.firmware_pending"] is True


def test_a_failing_drive_is_read_though_smartctl_ends_with_bits(
    server: Any, told: Any, recorded: Any
) -> None:
    say = recorded("smartctl/composed-7.4-nvme.json")
    readings = found(server, told, {("smartctl", "-j", "-a", DEVICE): (8, say, b"")})
    assert readings["nvme.smart_passed"] is False


def test_a_missing_or_refused_smartctl_says_why(server: Any, told: Any, recorded: Any) -> None:
    asked = ("smartctl", "-j", "-a", DEVICE)
    missing = found(server, told, {asked: (127, b"", b"not found")})
    assert "install the package 'smartmontools'" in missing["nvme.smart_passed"]
    refused = found(server, told, {asked: (1, b"", b"sudo: a password is required")})
    assert "not permitted" in refused["nvme.smart_passed"]
    unopened = recorded("smartctl/smartctl-7.3-not_opened.json")
    assert (
        "opened no drive" in found(server, told, {asked: (1, unopened, b"")})["nvme.smart_passed"]
    )


def test_odd_answers_cost_their_drive_only(server: Any, told: Any) -> None:
    changed = {("nvme", "id-ns", DEVICE, "-o", "json"): b'{"nsze": 5, "flbas": 9, "lbafs": []}'}
    assert "does not tell" in found(server, told, changed)["nvme.lba_format"]
    other = told(nvme_tools.PROBES[1].ask(server(changed)))
    assert other["nvme.lba_format", "SN0001"] == "0: 512 B + 0 B"
