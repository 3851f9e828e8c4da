from typing import Any

from kvgate.model.quantity import Quantity
from kvgate.probes import memory

DMI = ("dmidecode", "-t", "memory")


def slots(*sizes: str) -> bytes:
    told = ["# dmidecode 3.5", "SMBIOS 3.3 present.", ""]
    for number, size in enumerate(sizes):
        told += [f"Handle 0x00{number:02X}, DMI type 17, 92 bytes", "Memory Device",
                 f"\tSize: {size}", f"\tLocator: DIMM {number}",
                 "\tConfigured Memory Speed: 4800 MT/s", ""]  # fmt: skip
    return "\n".join(told).encode()


def test_modules_are_counted_and_the_slowest_speed_counts(server: Any, told: Any) -> None:
    slow = slots("64 GB", "64 GB", "No Module Installed").replace(b"4800", b"4400", 1)
    found = told(memory.ask_dimms(server({DMI: slow})))
    assert found["memory.dimms", ""] == Quantity.of(2, "")
    assert found["memory.slots", ""] == Quantity.of(3, "")
    assert found["memory.installed", ""] == Quantity.of(128, "GiB")
    assert found["memory.dimm_speed", ""] == Quantity.of("4.4", "GT/s")


def test_a_slot_that_is_not_known_is_not_counted_as_empty(server: Any, told: Any) -> None:
    found = told(memory.ask_dimms(server({DMI: slots("64 GB", "Unknown")})))
    assert found["memory.dimms", ""] == "the firmware doesn't say what is in DIMM 1"


def test_without_root_there_is_no_number(server: Any, told: Any) -> None:
    refused = (1, b"", b"/dev/mem: Permission denied")
    assert (
        "sudo: passwordless" in told(memory.ask_dimms(server({DMI: refused})))["memory.dimms", ""]
    )


def test_errors_of_all_controllers_are_summed(server: Any, told: Any) -> None:
    counts = b"mc0/ce_count:3\nmc0/ue_count:0\nmc1/ce_count:4\nmc1/ue_count:1\n"
    found = told(memory.ask_ecc(server({memory.EDAC: counts})))
    assert found["memory.ecc_correctable", ""] == Quantity.of(7, "")
    assert found["memory.ecc_uncorrectable", ""] == Quantity.of(1, "")


def test_no_driver_is_no_zero(server: Any, told: Any) -> None:
    for say in ((2, b"", b"can't cd"), (0, b"", b"")):
        found = told(memory.ask_ecc(server({memory.EDAC: say})))
        assert "nothing counts" in found["memory.ecc_uncorrectable", ""]
