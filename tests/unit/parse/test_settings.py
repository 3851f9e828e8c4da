"""How hosts are set up. Chrony's sign is the one that is easily mistaken."""

from collections.abc import Callable
from decimal import Decimal

import pytest

from kvgate.errors import ParseError
from kvgate.parse import kernel_config, settings

Recorded = Callable[[str], bytes]
CSV = "A9FEA97B,192.0.2.1,{stratum},1764494000.1,{correction},0,0,-12.1,0,0.05,0,0,64.2,Normal"
TEXT = "Reference ID    : C0000279 (h)\nStratum : {stratum}\nSystem time : {offset} of NTP time\n"


@pytest.mark.parametrize(
    ("correction", "words", "ahead"),
    [
        # chrony's client.c: `(correction > 0) ? "slow" : "fast"`
        ("0.250000000", "0.250000000 seconds slow", "-0.25"),
        ("-0.000012345", "0.000012345 seconds fast", "0.000012345"),
        ("0.000000000", "0.000000000 seconds fast", "0"),
    ],
)
def test_a_slow_clock_is_behind_in_both_forms(correction: str, words: str, ahead: str) -> None:
    csv = CSV.format(stratum=3, correction=correction).encode()
    text = TEXT.format(stratum=3, offset=words).encode()
    assert settings.chrony_offset_s(csv) == settings.chrony_offset_s(text) == Decimal(ahead)


def test_without_server_there_is_no_offset() -> None:
    assert settings.chrony_offset_s(CSV.format(stratum=0, correction="0.0").encode()) is None
    text = TEXT.format(stratum=0, offset="0.000000000 seconds fast")
    assert settings.chrony_offset_s(text.encode()) is None


def test_recorded_forms(recorded: Recorded) -> None:
    csv = settings.chrony_offset_s(recorded("chronyc/composed-4.3-csv.txt"))
    assert csv == Decimal("0.000012345")
    assert settings.chrony_offset_s(recorded("chronyc/composed-4.3.txt")) == -csv


@pytest.mark.parametrize(
    "answer",
    [
        b"506 Cannot talk to daemon\n",
        CSV.format(stratum=3, correction="soon").encode(),
        TEXT.format(stratum=3, offset="0,5 seconds slow").encode(),
        TEXT.format(stratum=3, offset="0.5 seconds late").encode(),
        b"Reference ID : C0000279 (h)\nStratum : 3\n",
    ],
)
def test_no_tracking_is_refused(answer: bytes) -> None:
    with pytest.raises(ParseError):
        settings.chrony_offset_s(answer)


def test_parameters_of_modules() -> None:
    assert [settings.yes_no(each, "p") for each in (b"Y\n", b"1\n", b"N\n", b"0\n")] == [
        *(True, True),
        *(False, False),
    ]
    with pytest.raises(ParseError):
        settings.yes_no(b"maybe\n", "p")


def test_options_of_a_kernel(recorded: Recorded) -> None:
    here = kernel_config.options(recorded("kernel_config/linux-6.18-kvm.txt"))
    assert here["CONFIG_PCI"] == "y"
    assert here["CONFIG_PCI_P2PDMA"] == "n"
    for odd in (b"CONFIG_A=y\nCONFIG_A=n\n", b"gzip: not found\n", b"# Linux\n"):
        with pytest.raises(ParseError):
            kernel_config.options(odd)
