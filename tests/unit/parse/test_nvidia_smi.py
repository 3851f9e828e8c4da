from collections.abc import Callable
from decimal import Decimal

import pytest

from kvgate.errors import ParseError
from kvgate.parse import nvidia_smi

Recorded = Callable[[str], bytes]
HEAD = b"index, pci.bus_id, power.limit [W]\n"


def test_two_gpus(recorded: Recorded) -> None:
    first, second = nvidia_smi.query(recorded("nvidia_smi/composed-550-a100.csv"))
    assert (first.address, second.address) == ("0000:07:00.0", "0000:0f:00.0")
    assert (first.memory_mib, first.power_limit_w) == (81920, Decimal("400.00"))
    assert (first.ecc_corrected, first.ecc_uncorrected, first.pages_double_bit) == (0, 0, 0)
    assert first.busy_pct == 0


def test_what_a_card_does_not_have_is_none(recorded: Recorded) -> None:
    (found,) = nvidia_smi.query(recorded("nvidia_smi/composed-550-no-ecc.csv"))
    assert (found.serial, found.ecc_corrected, found.pages_single_bit) == (None, None, None)
    assert found.temperature_c == 40


def test_other_columns_and_no_units() -> None:
    (found,) = nvidia_smi.query(b"pci.bus_id, index, memory.total\n00000000:01:00.0, 0, 6138\n")
    assert (found.index, found.memory_mib, found.driver) == (0, 6138, None)


@pytest.mark.parametrize(
    "answer",
    [
        b"No devices were found\n",
        b"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
        HEAD,
        b"index\n0\n",
        HEAD + b"0, 00000000:01:00.0\n",
        HEAD + b"0, 00000000:01:00.0, [GPU requires reset]\n",
        HEAD + b"0, 00000000:01:00.0, 400,00 W\n",
        HEAD + b"0, nowhere, 400.00 W\n",
        HEAD + b"0, 00000000:01:00.0, 1.0 W\n1, 00000000:01:00.0, 1.0 W\n",
        HEAD + b'0, "00000000:01:00.0, 1.0 W\n',
    ],
)
def test_what_tells_no_gpu_is_refused(answer: bytes) -> None:
    with pytest.raises(ParseError):
        nvidia_smi.query(answer)
