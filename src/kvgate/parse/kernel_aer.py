"""PCIe errors of the kernel log by device: AER's own lines, and those by firmware (APEI GHES)."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping

from kvgate.parse.kernel_patterns import PCI

_WHO = rf"(?P<driver>\S+) (?P<device>{PCI}): (?:AER: )?\s*"
_BUS = re.compile(_WHO + r"PCIe Bus Error: severity=(?P<severity>[^,]+), type=(?P<layer>[^,]+)")
_ID = re.compile(_WHO + r"device \[(?P<id>[0-9a-f]{4}:[0-9a-f]{4})\] error status/mask=")
_BIT = re.compile(_WHO + r"\[ ?(?P<number>\d{1,2})\] (?P<bit>[A-Za-z]\w*)")
_STATUS = re.compile(_WHO + r"aer_status: 0x[0-9a-f]+")
_LAYER = re.compile(_WHO + r"aer_layer=(?P<layer>[^,]+), *aer_agent=")
_REPORTS = ("PCIe Bus Error: ", "aer_status: ")
_GHES = re.compile(r"\{\d+\}\[Hardware Error\]: ?(?P<told>.*)")
_GHES_KEY = re.compile(r"\s*(event severity|section_type|device_id|vendor_id): (.*)")
_GHES_ID = re.compile(r"0x([0-9a-f]{4}), device_id: 0x([0-9a-f]{4})")
_GRAVITY = (
    "Corrected",
    "Correctable",
    "Uncorrected (Non-Fatal)",
    "Uncorrectable (Non-Fatal)",
    "Uncorrected (Fatal)",
    "Uncorrectable (Fatal)",
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AerDevice:
    """A device that reported PCIe errors; ``severity`` is the gravest, as printed.

    ``bits`` is how many lines name each error bit (RxErr, BadTLP, UnsupReq…), in order.
    """

    device: str
    driver: str
    severity: str | None
    layer: str | None
    vendor_device: str | None
    bits: Mapping[str, int]
    reports: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FirmwareRecord:
    """An error that the firmware reported through APEI."""

    severity: str | None
    section: str | None
    device: str | None
    vendor_device: str | None


def firmware_records(texts: Iterable[str]) -> tuple[FirmwareRecord, ...]:
    """Return the records of ``{n}[Hardware Error]:`` lines, in order."""
    records: list[dict[str, str]] = []
    for text in texts:
        match = _GHES.match(text) if text.startswith("{") else None
        if not match:
            continue
        if "Hardware error from APEI" in match["told"]:
            records.append({})
        key = _GHES_KEY.fullmatch(match["told"])
        if key and records:
            records[-1].setdefault(key[1], key[2].strip())
    return tuple(_record(told) for told in records)


def _record(told: Mapping[str, str]) -> FirmwareRecord:
    ids = _GHES_ID.search(told.get("vendor_id", ""))
    return FirmwareRecord(
        severity=told.get("event severity"),
        section=told.get("section_type"),
        device=told.get("device_id"),
        vendor_device=f"{ids[1]}:{ids[2]}" if ids else None,
    )


def aer_devices(texts: list[str], firmware: Iterable[FirmwareRecord]) -> tuple[AerDevice, ...]:
    """Return what every device reported; lines of several devices may be interleaved.

    What a firmware-first report leaves out (severity, ids) comes from the firmware's record of
    the same device.
    """
    found: dict[str, AerDevice] = {}
    whole = "\n".join(texts)
    for text in texts if any(report in whole for report in _REPORTS) else ():
        for shape in (_BUS, _ID, _BIT, _STATUS, _LAYER):
            match = shape.match(text)
            if match:
                known = found.get(match["device"]) or AerDevice(
                    device=match["device"],
                    driver=match["driver"],
                    severity=None,
                    layer=None,
                    vendor_device=None,
                    bits={},
                    reports=0,
                )
                found[known.device] = _with(known, match.groupdict(), shape in (_BUS, _STATUS))
                break
    for record in firmware:
        known_device = found.get(record.device or "")
        if known_device:
            found[known_device.device] = dataclasses.replace(
                known_device,
                severity=known_device.severity or (record.severity or "").capitalize() or None,
                vendor_device=known_device.vendor_device or record.vendor_device,
            )
    return tuple(found.values())


def _with(known: AerDevice, told: Mapping[str, str | None], report: bool) -> AerDevice:
    bits = dict(known.bits)
    bit = told.get("bit")
    if bit:
        bits[bit] = bits.get(bit, 0) + 1
    return dataclasses.replace(
        known,
        severity=_graver(known.severity, told.get("severity")),
        layer=known.layer or told.get("layer"),
        vendor_device=known.vendor_device or told.get("id"),
        bits=bits,
        reports=known.reports + report,
    )


def _graver(one: str | None, other: str | None) -> str | None:
    both = [each for each in (one, other) if each in _GRAVITY]
    return max(both, key=_GRAVITY.index, default=one or other)
