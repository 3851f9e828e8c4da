"""Cards' own data from lspci -vv, and ethtool -i."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.errors import ParseError
from kvgate.parse.drvinfo import driver_info
from kvgate.parse.vpd import cards

CARD = b"""\
0000:41:00.0 Ethernet controller: Mellanox Technologies MT2892 Family [ConnectX-6 Dx]
\tCapabilities: [48] Vital Product Data
\t\tProduct Name: ConnectX-6 Dx
\t\tRead-only fields:
\t\t\t[PN] Part number: MCX623106AN-CDAT
\t\t\t[SN] Serial number: MT2138X03477
\tCapabilities: [9c] MSI-X: Enable+ Count=64 Masked-
\t\t\t[SN] Serial number: not of this capability
\tKernel driver in use: mlx5_core
"""


def test_a_card_says_what_it_is() -> None:
    (card,) = cards(CARD)
    assert (card.address, card.serial, card.part_number) == (
        "0000:41:00.0",
        "MT2138X03477",
        "MCX623106AN-CDAT",
    )
    assert (card.product, card.driver, card.readable) == ("ConnectX-6 Dx", "mlx5_core", True)


def test_a_card_without_data_or_driver() -> None:
    (card,) = cards(b"00:03.0 Ethernet controller: Red Hat, Inc. Virtio\n")
    assert (card.address, card.serial, card.driver) == ("0000:00:03.0", None, None)
    denied = cards(CARD.split(b"\n")[0] + b"\n\tCapabilities: <access denied>\n")
    assert not denied[0].readable


@pytest.mark.parametrize("placeholder", [b"0000000000", b"N/A", b"To be filled by O.E.M."])
def test_a_placeholder_is_no_serial_number(placeholder: bytes) -> None:
    assert cards(CARD.replace(b"MT2138X03477", placeholder))[0].serial is None


def test_none_of_a_class_is_there() -> None:
    assert cards(b"") == ()


def test_other_words_are_refused() -> None:
    with pytest.raises(ParseError):
        cards(b"lspci: Unknown option\nfoo\n")


@settings(deadline=None, max_examples=50)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    for parser in (cards, driver_info):
        try:
            parser(content)
        except ParseError:
            continue


def test_a_port_s_driver() -> None:
    told = driver_info(
        b"driver: mlx5_core\nversion: 6.8.0-45\nfirmware-version: 22.35.1012 (MT_0000000359)\n"
        b"expansion-rom-version: \nbus-info: 0000:41:00.0\nsupports-statistics: yes\n"
    )
    assert (told.driver, told.firmware, told.bus) == (
        "mlx5_core",
        "22.35.1012 (MT_0000000359)",
        "0000:41:00.0",
    )
    assert driver_info(b"driver: virtio_net\nfirmware-version: \n").firmware is None
    with pytest.raises(ParseError, match="names no driver"):
        driver_info(b"bus-info: x\n")
