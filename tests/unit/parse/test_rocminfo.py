from collections.abc import Callable

import pytest

from kvgate.errors import ParseError
from kvgate.parse.rocminfo import rocminfo

Recorded = Callable[[str], bytes]
SAMPLE = "rocminfo/composed-rocm6.4-mi308x.txt"


def test_agents(recorded: Recorded) -> None:
    found = rocminfo(recorded(SAMPLE))
    cpu, gpu = found.agents
    assert found.runtime_version == "1.15"
    assert (cpu.type, cpu.compute_units, cpu.chip_id, cpu.vram_bytes) == ("CPU", 192, None, None)
    assert (gpu.number, gpu.name, gpu.marketing_name) == (2, "gfx942", "AMD Instinct MI308X")
    assert (gpu.chip_id, gpu.address, gpu.compute_units) == ("0x74a2", "0c:00.0", 80)
    assert gpu.vram_bytes == 201310208 * 1024
    assert gpu.isas == ("amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-",)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b"*** Done ***", b"", "Done .* is missing"),
        (b"Agent 1 ", b"Agent x ", "not numbered"),
        (b"Device Type:             GPU", b"Device Type:", "no known type"),
        (b"Compute Unit:            80", b"Compute Unit:            many", "not a number"),
        (b"201310208(0xbffc000) KB", b"201310208(0xbffc000) MB", "has the size"),
    ],
)
def test_refused(recorded: Recorded, old: bytes, new: bytes, why: str) -> None:
    answer = recorded(SAMPLE)
    assert old in answer
    with pytest.raises(ParseError, match=why):
        rocminfo(answer.replace(old, new))


def test_driver_not_loaded() -> None:
    with pytest.raises(ParseError, match="driver is not loaded"):
        rocminfo(b"ROCk module is NOT loaded, possibly no GPU devices\n")
