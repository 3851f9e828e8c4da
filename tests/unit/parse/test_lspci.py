import decimal
from collections.abc import Callable

import pytest

from kvgate.errors import ParseError
from kvgate.parse.lspci import Link, lspci

Recorded = Callable[[str], bytes]
ERRORS = "lspci/composed-pciutils3.10-vvnn-errors.txt"


def test_bits_are_bits(recorded: Recorded) -> None:
    gpu, drive, nic = lspci(recorded(ERRORS))
    assert gpu.status_bits == ("CorrErr", "FatalErr")
    assert gpu.uncorrectable_bits == ("MalfTLP", "UnsupReq")  # the mask's bits are not errors
    assert gpu.correctable_bits == ("RxErr", "AdvNonFatalErr")
    assert gpu.acs_bits == ("SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd")
    assert nic.status_bits == ()  # read, and none is set
    assert (drive.status_bits, drive.denied) == (None, True)  # not read


def test_links(recorded: Recorded) -> None:
    gpu, drive, nic = lspci(recorded(ERRORS))
    assert gpu.link_cap == Link(speed_gts=decimal.Decimal(32), width=16)
    assert gpu.link == Link(speed_gts=decimal.Decimal(16), width=8)
    assert (gpu.speed_downgraded, gpu.width_downgraded) == (True, True)
    assert nic.link == Link(speed_gts=None, width=None)
    assert (drive.link, drive.speed_downgraded) == (None, None)


def test_before_pciutils_36_the_numbers_tell(recorded: Recorded) -> None:
    (nic,) = lspci(recorded("lspci/composed-pciutils3.5-vv-plain.txt"))
    assert (nic.speed_downgraded, nic.width_downgraded) == (True, False)


def test_identity(recorded: Recorded) -> None:
    gpu, drive, _ = lspci(recorded(ERRORS))
    assert (gpu.slot, gpu.class_name, gpu.class_id) == (
        "0000:0c:00.0",
        "Processing accelerators",
        "1200",
    )
    assert (gpu.vendor_id, gpu.device_id, gpu.revision) == ("1002", "74a2", None)
    assert (gpu.driver, gpu.modules) == ("amdgpu", ("amdgpu", "amdkcl"))
    assert (gpu.numa_node, gpu.physical_slot) == (0, "7")
    assert (gpu.max_payload_bytes, gpu.max_read_request_bytes) == (512, 4096)
    assert (drive.vendor_id, drive.device_id, drive.revision) == ("1e0f", "0020", "01")


@pytest.mark.parametrize("form", ["vvnn", "nnmm", "vmmkn"])
def test_forms_agree(recorded: Recorded, form: str) -> None:
    found = lspci(recorded(f"lspci/3.9.0-vm-{form}.txt"))
    assert [(each.slot, each.class_id, each.vendor_id, each.device_id) for each in found] == [
        ("00:00.0", "0600", "8086", "0d57"),
        ("00:01.0", "ffff", "1af4", "1045"),
        ("00:02.0", "0180", "1af4", "1042"),
        ("00:03.0", "0200", "1af4", "1041"),
        ("00:04.0", "ffff", "1af4", "1053"),
        ("00:05.0", "ffff", "1af4", "1044"),
    ]


def test_numeric(recorded: Recorded) -> None:
    gpu, drive = lspci(recorded("lspci/composed-pciutils3.9-n.txt"))
    assert (gpu.class_id, gpu.vendor_id, gpu.device_id) == ("1200", "1002", "74a2")
    assert (drive.device_id, drive.revision) == ("0020", "01")


def test_wrapped_by_a_mailer() -> None:
    (bridge,) = lspci(
        b"00:01.2 PCI bridge: Advanced Micro Devices, Inc. [AMD]\nGPP Bridge\n"
        b"LnkSta: Speed 16GT/s (ok), Width x4 (downgraded)\n"
    )
    assert bridge.description == "Advanced Micro Devices, Inc. [AMD] GPP Bridge"
    assert (bridge.speed_downgraded, bridge.width_downgraded) == (False, True)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"pcilib: Cannot open /proc/bus/pci\n", "no device"),
        (b"-bash: lspci: command not found\n", "belongs to no device"),
        (b"00:01.0 PCI bridge: A\n00:01.0 PCI bridge: B\n", "a device twice"),
        (b"00:01.0 PCI bridge: A\n\tLnkSta: Speed fast\n", "without speed and width"),
        (b"00:01.0 PCI bridge: A\n\tLnkSta: Speed 8GT/s, Width x9999", "without speed and width"),
        (b"00:01.0 PCI bridge: A\n\tDevSta: CorrErr- NonFa", "it is cut"),
        (b"00:01.0 PCI bridge: A\n\tNUMA node: first\n", "NUMA node"),
        (
            b"00:01.0 PCI bridge: A\n\tLnkSta: Speed 8GT/s, Width x4\n"
            b"\tLnkSta: Speed 8GT/s, Width x2\n",
            "two different LnkSta",
        ),
        (b"Slot:\t00:01.0\nClass:\t0604\nClass:\t0600\n", "stands twice"),
        (b"Slot:\tfirst\nClass:\t0604\n", "no device"),
    ],
)
def test_refused(answer: bytes, why: str) -> None:
    with pytest.raises(ParseError, match=why):
        lspci(answer)
