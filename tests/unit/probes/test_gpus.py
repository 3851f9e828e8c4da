import json
from typing import Any

import pytest

from kvgate.errors import ParseError
from kvgate.model.quantity import Quantity
from kvgate.parse import gpu_sysfs
from kvgate.probes import gpu_tools, gpus, pci

TOOLS = {probe.name: probe for probe in gpu_tools.PROBES}


def test_eight_gpus_that_are_alike(server: Any, told: Any) -> None:
    found = told(gpus.ask_cards(server()))
    assert found["gpu.driven", ""] == Quantity.of(8, "")
    assert found["gpu.hbm_size", ""] == Quantity.of(206141652992, "B")
    assert found["gpu.ras_uncorrectable", ""] == Quantity.of(0, "")
    assert found["gpu.bad_pages", ""] == Quantity.of(0, "")
    assert found["gpu.power_cap", ""] == Quantity.of(650, "W")
    assert found["gpu.temperature", ""] == Quantity.of(45, "degC")
    assert found["gpu.bar_size", ""] == Quantity.of(256, "GiB")
    assert found["gpu.large_bar", ""] is True
    assert found["gpu.memory_partition", ""] == "NPS1"


def test_one_that_differs_or_errs_is_named_or_counted(
    server: Any, told: Any, composed: Any
) -> None:
    at = composed.GPUS[3].encode()
    odd = composed.cards().replace(
        at + b"/vbios_version:113-M3080203-000", at + b"/vbios_version:OLD"
    )
    odd = odd.replace(at + b"/ras/umc_err_count:ue: 0", at + b"/ras/umc_err_count:ue: 2")
    odd += at + b"/ras/gpu_vram_bad_pages:0x00000001 : 0x00001000 : R\n"
    found = told(gpus.ask_cards(server({gpus.CARDS: odd})))
    assert f"{composed.GPUS[3]} OLD" in found["gpu.vbios", ""]
    assert found["gpu.ras_uncorrectable", ""] == Quantity.of(2, "")
    assert found["gpu.bad_pages", ""] == Quantity.of(1, "")


def test_counters_of_a_suspended_gpu_are_implausible_not_a_million_errors(
    server: Any, told: Any, composed: Any
) -> None:
    odd = composed.cards(ras__umc_err_count="ue: 1048560")
    found = told(gpus.ask_cards(server({gpus.CARDS: odd})))
    assert "all ones" in found["gpu.ras_uncorrectable", ""]
    assert "all ones" in found["gpu.ras_correctable", ""]


def test_what_one_gpu_does_not_tell_is_no_zero(server: Any, told: Any, composed: Any) -> None:
    at = composed.GPUS[0].encode()
    kept = [line for line in composed.cards().split(b"\n")
            if not line.startswith((at + b"/ras", at + b"/hwmon"))]  # fmt: skip
    found = told(gpus.ask_cards(server({gpus.CARDS: b"\n".join(kept)})))
    for name in ("ras_uncorrectable", "ras_correctable", "bad_pages", "power_cap", "temperature"):
        assert found[f"gpu.{name}", ""] == f"not told by {composed.GPUS[0]}"


@pytest.mark.parametrize(("device", "others"), [("74b6", 8), ("74bc", 8), ("74a2", 0)])
def test_virtual_functions_on_bare_metal_are_found(
    server: Any, told: Any, composed: Any, device: str, others: int
) -> None:
    listed = composed.sysfs_pci().replace(b"0x74a2", b"0x" + device.encode())
    found = told(gpus.ask_others(server({pci.SYSFS: listed})))
    assert found["gpu.others", ""] == Quantity.of(others, "")
    assert (f"1002:{device}" in found["gpu.other_ids", ""]) == bool(others)


def test_gpus_far_from_every_nic_are_counted(server: Any, told: Any, composed: Any) -> None:
    near = server(nics=[{"name": composed.NICS[0]}])
    assert told(gpus.ask_affinity(near))["gpu.far_from_nics", ""] == Quantity.of(4, "")
    assert told(gpus.ask_affinity(server()))["gpu.far_from_nics", ""] == Quantity.of(0, "")
    assert told(gpus.ask_affinity(server(nics=[])))["gpu.far_from_nics", ""] == "no NIC is declared"


def test_a_host_without_declared_gpus_says_so_and_is_not_asked(server: Any) -> None:
    for probe in (*gpus.PROBES, *gpu_tools.PROBES):
        witness = server(gpus=None)
        told = probe.ask(witness).readings
        if probe.name != "gpu others":
            assert {r.problem for r in told} == {gpus.NONE_DECLARED}
            assert witness.transport.asked == []


def test_a_host_that_should_have_no_gpu_tells_those_that_it_has(server: Any, told: Any) -> None:
    found = told(gpus.ask_others(server(gpus=None)))
    assert found["gpu.seen", ""] == found["gpu.others", ""] == Quantity.of(8, "")
    bare = pci.SYSFS
    say = b"0000:00:00.0/vendor:0x1022\n0000:00:00.0/device:0x14a4\n0000:00:00.0/class:0x060000\n"
    found = told(gpus.ask_others(server({bare: say}, gpus=None)))
    assert found["gpu.seen", ""] == Quantity.of(0, "")
    assert found["gpu.other_ids", ""] == "none"


@pytest.mark.parametrize(
    "answer",
    [
        b"card0/device:0x74a2\n",
        b"0000:05:00.0/device:74a2\n",
        b"0000:05:00.0/vbios_version:x\n",
        b"0000:05:00.0/device:0x74a2\n0000:05:00.0/ras/umc_err_count:ue: -1\n",
        b"0000:05:00.0/device:0x74a2\n0000:05:00.0/ras/gpu_vram_bad_pages:odd\n",
        b"0000:05:00.0/device:0x74a2\n0000:05:00.0/resource:odd\n",
        b"0000:05:00.0/device:0x74a2\n0000:05:00.0/mem_info_vram_total:-4\n",
    ],
)
def test_odd_answers_of_the_driver_are_refused(answer: bytes) -> None:
    with pytest.raises(ParseError):
        gpu_sysfs.cards(answer)


def test_tools_tell_beside_the_driver(server: Any, told: Any) -> None:
    found: dict[tuple[str, str], Any] = {}
    for probe in gpu_tools.PROBES:
        found |= told(probe.ask(server()))
    assert found["gpu.xgmi_pairs", ""] == Quantity.of(28, "")
    assert found["gpu.model", ""] == "AMD Instinct MI308X"
    assert found["rocm.version", ""] == "7.2.0"
    assert found["gpu.ecc_uncorrectable", ""] == Quantity.of(0, "")
    assert found["gpu.bad_pages_by_tool", ""] == Quantity.of(0, "")


def test_bad_pages_that_are_told_in_part_are_no_sum(server: Any, told: Any) -> None:
    argv = ("amd-smi", "bad-pages", "--json")
    part = json.dumps([{"gpu": 0, "retired": "No bad pages found.", "pending": "N/A"}]).encode()
    found = told(TOOLS["amd-smi bad-pages"].ask(server({argv: part})))
    assert found["gpu.bad_pages_by_tool", ""] == "not told by GPU 0"


def test_rocm_smi_is_asked_where_amd_smi_is_missing(server: Any, told: Any, recorded: Any) -> None:
    old = recorded("rocm_smi/composed-rocm6.4-showallinfo-warning.json")
    witness = server({gpu_tools.STATIC: (127, b"", b""), gpu_tools.OLD: old})
    found = told(gpu_tools.ask_model(witness))
    assert found["gpu.model", ""]
    assert [argv[0] for argv in witness.transport.asked] == ["amd-smi", "rocm-smi"]


def test_a_missing_tool_names_its_package(server: Any, told: Any) -> None:
    witness = server()
    witness.transport.answers = {}
    for probe in gpu_tools.PROBES:
        assert all("install the package" in str(each) for each in told(probe.ask(witness)).values())
