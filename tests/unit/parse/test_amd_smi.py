import json
from collections.abc import Callable

import pytest

from kvgate.errors import ParseError
from kvgate.parse.amd_smi import TOOLS, Link, amd_smi

Recorded = Callable[[str], bytes]


def test_json_behind_warnings(recorded: Recorded) -> None:
    found = amd_smi(recorded("amd_smi/composed-rocm7.0-static-warnings.json"))
    assert found.shape == "gpu_data"
    assert len(found.warnings) == 2
    assert "SyntaxWarning" in found.warnings[0]
    gpu = found.gpus[0]
    assert (gpu.device_id, gpu.bdf, gpu.compute_units) == ("0x74a2", "0000:0c:00.0", 80)
    assert (gpu.max_pcie_width, gpu.max_pcie_speed_gts, gpu.pcie_gen) == (16, 32, 5)
    assert gpu.vram_total_bytes == 196592 * 1024**2
    assert (gpu.power_cap_w, gpu.compute_partition, gpu.memory_partition) == (650, "SPX", "NPS1")
    assert gpu.vram_vendor is None
    assert found.gpus[1].product_name is None  # N/A, as in a container


def test_metrics_of_a_list(recorded: Recorded) -> None:
    found = amd_smi(recorded("amd_smi/composed-rocm6.3-metric-list.json"))
    gpu = found.gpus[1]
    assert found.shape == "list"
    assert (gpu.hotspot_temp_c, gpu.mem_temp_c, gpu.edge_temp_c) == (43, 36, None)
    assert (gpu.ecc_correctable, gpu.ecc_uncorrectable, gpu.ecc_deferred) == (7, 0, 0)
    assert [(each.name, each.correctable, each.deferred) for each in gpu.ecc_blocks] == [
        ("UMC", 7, 0),
        ("GFX", 0, None),
    ]
    assert (gpu.pcie_replay_count, gpu.pcie_l0_to_recovery_count) == (0, 2)


def test_text_is_the_same_tree(recorded: Recorded) -> None:
    one, other = amd_smi(recorded("amd_smi/composed-rocm6.2-static.txt")).gpus
    assert (one.market_name, one.max_pcie_speed_gts, one.pcie_gen) == ("AMD Instinct MI308X", 32, 5)
    assert (one.power_cap_w, one.power_cap_max_w, one.oam_id) == (550, 650, None)
    assert (other.index, other.bdf, other.market_name) == (1, "0000:22:00.0", None)
    assert other.power_cap_w is None


def test_bad_pages_are_counted(recorded: Recorded) -> None:
    one, other = amd_smi(recorded("amd_smi/composed-rocm6.4-bad-pages.txt")).gpus
    assert (one.bad_pages_retired, one.bad_pages_pending, one.bad_pages_un_res) == (2, 1, 0)
    assert (other.bad_pages_retired, other.bad_pages_un_res) == (0, None)
    pages = [{"gpu": 0, "retired": [{"page_address": "0x1"}], "pending": "No bad pages found."}]
    assert amd_smi(json.dumps(pages).encode()).gpus[0].bad_pages_retired == 1


def test_monitor_tables(recorded: Recorded) -> None:
    found = amd_smi(recorded("amd_smi/composed-rocm6.3-monitor.txt"))
    assert [gpu.power_w for gpu in found.gpus] == [141, None]
    assert [gpu.pcie_bandwidth_mbps for gpu in found.gpus] == [None, 12]
    assert found.gpus[0].vram_used_bytes == 283 * 1024**2
    process = found.processes[0]
    assert (process.gpu, process.pid, process.vram_bytes) == (0, 4711, 2 * 1024**3)


def test_partitions_share_a_gpu(recorded: Recorded) -> None:
    one, other = amd_smi(recorded("amd_smi/composed-rocm7.0-monitor-cpx.txt")).gpus
    assert (one.index, one.partition_id, other.index, other.partition_id) == (0, 0, 0, 1)
    assert (one.power_w, other.power_w) == (141, None)
    assert one.vram_total_bytes == 192 * 1024**3
    parts = amd_smi(recorded("amd_smi/composed-rocm6.4-partition.json")).gpus
    assert [(part.index, part.compute_partition) for part in parts] == [
        (0, "CPX"),
        (1, "CPX"),
        (2, "CPX"),
    ]
    assert parts[0].memory_partition == "NPS4"


def test_csv_with_bom_and_lists(recorded: Recorded) -> None:
    one, other = amd_smi(recorded("amd_smi/composed-rocm5.7-metric-bom.csv")).gpus
    assert (one.gfx_util_pct, one.vram_total_bytes, one.gfx_clock_mhz) == (
        98,
        14928 * 1024**2,
        None,
    )
    assert (other.gfx_util_pct, other.gfx_clock_mhz, other.mem_clock_mhz) == (0, 132, 900)


def test_links_of_all_shapes(recorded: Recorded) -> None:
    new = amd_smi(recorded("amd_smi/composed-rocm6.3-topology.json")).links
    assert new[1] == Link(
        gpu=0, peer=1, type="XGMI", weight=15, hops=1, status="ENABLED", bandwidth="50000-100000"
    )
    old = amd_smi(recorded("amd_smi/composed-rocm6.2-topology-old.json")).links
    assert [(link.peer, link.type, link.hops, link.bandwidth) for link in old] == [
        (0, "SELF", 0, None),
        (1, "PCIE", 2, None),
    ]
    xgmi = amd_smi(recorded("amd_smi/composed-rocm7.0-xgmi.json")).links
    assert (xgmi[1].bit_rate_gbps, xgmi[1].max_bandwidth_gbps) == (32, 512)
    assert (xgmi[2].type, xgmi[2].bit_rate_gbps, xgmi[2].max_bandwidth_gbps) == (None, None, None)


def test_versions_firmware_and_processes(recorded: Recorded) -> None:
    versions = amd_smi(recorded("amd_smi/composed-rocm6.1-version.txt")).versions
    assert versions
    assert (versions.tool, versions.rocm) == ("24.5.1+c5106a9", "6.1.2")
    assert versions.amdgpu is None
    firmware = amd_smi(recorded("amd_smi/composed-rocm6.2-firmware.txt")).gpus[0].firmware
    assert [(each.name, each.version) for each in firmware] == [
        ("CP_MEC1", "147"),
        ("VCN", "61.13.00.C"),
    ]
    found = amd_smi(recorded("amd_smi/composed-rocm6.4-process.json"))
    assert [(each.gpu, each.pid) for each in found.processes] == [(0, 4711)]


def test_sysfs_identity() -> None:
    named = amd_smi(b"AMD Instinct MI308X OAM\n113-M3080202-101\n").gpus[0]
    assert (named.product_name, named.vbios_version) == (
        "AMD Instinct MI308X OAM",
        "113-M3080202-101",
    )
    assert amd_smi(b"\n113-M3080202-101\n").gpus[0].product_name is None


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b'[\n    {\n        "gpu": 0,\n        "usage": {', "not the JSON it should print"),
        (b"'CTRL' + 'C' to stop watching output:\n", "prints no data"),
        (b'{"error": "Can not find a device: 9"}', "Can not find a device"),
        (b"[]", "no GPU"),
        (b"[\n1\n]", "not a list of GPUs"),
        (b'[{"gpu": 0, "novel": 1}]', "nothing that kvgate reads"),
        (b"amd-smi: command not found\n", "nothing that kvgate reads"),
        (
            b'[{"gpu": 0, "bdf": "0000:01:00.0"}, {"gpu": 0, "bdf": "0000:02:00.0"}]',
            "one GPU twice",
        ),
        (b"GPU: 0\n    BDF: 0000:01:00.0\n    BDF: 0000:02:00.0\n", "stands twice"),
        (b"GPU  POWER\n  0  141 W  3 %\n", "3 cells below 2 headings"),
        (b"GPU  POWER\n  0  141,5 W\n", "not a number"),
        (b"GPU  POWER\n  0  141 MHz\n", "its unit is 'MHz'"),
        (b'[{"gpu": 0, "power": {"socket_power": {"value": true, "unit": "W"}}}]', "not a number"),
        (b'[{"gpu": -1, "uuid": "u"}]', "not a count"),
        (b"LINK METRIC TABLE:\n       bdf bit_rate\n", "nothing that kvgate reads"),
    ],
)
def test_refused(answer: bytes, why: str) -> None:
    with pytest.raises(ParseError, match=why):
        amd_smi(answer)


def test_a_failed_command_is_no_answer() -> None:
    with pytest.raises(ParseError, match="exit code 255"):
        TOOLS["amd_smi"](b"GPU: 0\n    BDF: 0000:01:00.0\n", 255)


def test_cut_marks_are_told() -> None:
    assert amd_smi(b"GPU: 0\n    BDF: 0000:01:00.0\n \n[output truncated]\n").cut
    assert not amd_smi(b"GPU: 0\n    BDF: 0000:01:00.0\n").cut
