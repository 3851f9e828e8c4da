from collections.abc import Callable

import pytest

from kvgate.errors import ParseError
from kvgate.parse.rocm_smi import rocm_smi

Recorded = Callable[[str], bytes]


def test_json_behind_a_warning(recorded: Recorded) -> None:
    found = rocm_smi(recorded("rocm_smi/composed-rocm6.4-showallinfo-warning.json"))
    assert (found.driver_version, found.physical_gpus) == ("6.12.12", 2)
    assert "low-power state" in found.warnings[0]
    gpu = found.gpus[1]
    assert (gpu.index, gpu.device_id, gpu.bdf, gpu.guid) == (1, "0x74a2", "0000:0D:00.0", 3001)
    assert (gpu.temp_junction_c, gpu.temp_edge_c, gpu.voltage_mv) == (43, None, None)
    assert (gpu.power_w, gpu.power_cap_w, gpu.vram_total_bytes) == (141, 650, 206141652992)


def test_lines(recorded: Recorded) -> None:
    found = rocm_smi(recorded("rocm_smi/composed-rocm5.7-showid.txt"))
    assert [(gpu.device_id, gpu.bdf) for gpu in found.gpus] == [
        ("0x74a2", "0000:0C:00.0"),
        ("0x74a2", "0000:22:00.0"),
    ]
    assert (found.driver_version, found.complete) == ("6.2.4", True)
    assert "Not supported" in found.notes[0]
    assert found.gpus[1].voltage_mv is None


def test_concise_new(recorded: Recorded) -> None:
    one, other = rocm_smi(recorded("rocm_smi/composed-rocm6.4-concise-cpx.txt")).gpus
    assert (one.node, one.device_id, one.guid) == (2, "0x74a2", 47056)
    assert (one.mem_partition, one.compute_partition, one.partition_id) == ("NPS1", "CPX", 0)
    assert (one.temp_junction_c, one.temp_edge_c, one.power_w) == (43, None, 141)
    assert (one.gfx_util_pct, one.vram_used_pct, one.sclk_mhz) == (3, 0, 132)
    assert (other.partition_id, other.power_w, other.gfx_util_pct) == (1, None, None)


def test_concise_old_and_oldest(recorded: Recorded) -> None:
    (gpu,) = rocm_smi(recorded("rocm_smi/composed-rocm6.0-concise-old.txt")).gpus
    assert (gpu.name, gpu.card_model, gpu.compute_partition) == (
        "AMD Instinct MI308X",
        "0x74a2",
        "SPX",
    )
    assert gpu.device_id is None  # the old table shows the card's model, not the device's id
    one, other = rocm_smi(recorded("rocm_smi/composed-rocm5.4-concise-oldest.txt")).gpus
    assert (one.temp_edge_c, one.temp_junction_c, one.power_w) == (31, None, 39)
    assert (other.temp_edge_c, other.power_w, other.power_cap_w) == (None, None, 290)


def test_rows_without_heading_tell_ids_only(recorded: Recorded) -> None:
    rows = recorded("rocm_smi/composed-rocm6.4-concise-cpx.txt").splitlines(keepends=True)[5:7]
    found = rocm_smi(b"".join(rows))
    assert (found.header, found.complete, found.physical_gpus) == (False, False, None)
    assert [(gpu.index, gpu.partition_id, gpu.power_w) for gpu in found.gpus] == [
        (0, 0, None),
        (1, 1, None),
    ]


def test_partitions_are_logical_gpus(recorded: Recorded) -> None:
    found = rocm_smi(recorded("rocm_smi/composed-rocm6.1-showhw-tpx.txt"))
    assert (len(found.gpus), found.physical_gpus) == (3, 2)
    assert [gpu.partition_id for gpu in found.gpus] == [0, 1, 0]
    assert (found.gpus[0].umc_ras, found.gpus[0].vbios) == ("DISABLED", None)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"WARNING: No JSON data to report\n", "has no data"),
        (b'{"card0": {"GPU use (%)": "3"}', "not the JSON"),
        (b"[\n1\n]", "not an object"),
        (b'{"card0": 3}', "neither a card"),
        (b'{"card0": {"GPU use (%)": "3 W"}}', "its unit is 'W'"),
        (b'{"card0": {"GPU use (%)": [3]}}', "neither a text nor a number"),
        (b"rocm-smi: command not found\n", "no GPU"),
        (b"GPU[0]\t: GPU use (%): 3\nGPU[0]\t: GPU use (%): 4\n", "two different things"),
        (b"Device  Node  Temp\n0  1  3\n", "other columns"),
    ],
)
def test_refused(answer: bytes, why: str) -> None:
    with pytest.raises(ParseError, match=why):
        rocm_smi(answer)


def test_exit_code_is_a_warning() -> None:
    assert rocm_smi(b'{"card0": {"GPU use (%)": "3"}}', 2).warnings == (
        "the command ended with exit code 2",
    )
