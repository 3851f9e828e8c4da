"""Published outputs of real tools, where the corpus lies beside the repository: facts hold.

The comparison and the meaning of the flags are the corpus's (its README.md and compare.py).
"""

import importlib.util
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kvgate.errors import ParseError
from kvgate.parse import block, lscpu, smart, system

CORPUS = Path(__file__).parents[3].parent / "shared" / "corpus"
Adapter = Callable[[bytes], dict[str, Any]]


def _lscpu(answer: bytes) -> dict[str, Any]:
    found = lscpu.processors(answer)
    return {
        "cpus": found.cpus, "vendor": found.vendor, "model_name": found.model_name,
        "sockets": found.sockets, "numa_nodes": found.numa_nodes,
        "cores_per_socket": found.cores_per_socket, "threads_per_core": found.threads_per_core,
        "virtual": found.hypervisor is not None, "numa0_cpus": found.node0_cpus,
    }


def _lsblk(answer: bytes) -> dict[str, Any]:
    found = block.from_lsblk(answer)
    devices = [
        {"name": each.name, "type": each.type, "size_bytes": each.size_bytes,
         "serial": each.serial, "wwn": each.wwn, "model": each.model}
        for each in found
    ]
    return {"device_count": len(devices), "devices": devices}


def _smart(answer: bytes) -> dict[str, Any]:
    found = smart.smart_log(answer)
    kelvin = None if found.temperature_c is None else found.temperature_c + smart.KELVIN
    return {
        "critical_warning": found.critical_warning, "temperature_c": found.temperature_c,
        "temperature_kelvin": kelvin, "avail_spare_pct": found.available_spare_pct,
        "percent_used": found.percentage_used, "data_units_read": found.data_units_read,
        "data_units_written": found.data_units_written, "media_errors": found.media_errors,
        "power_on_hours": found.power_on_hours, "unsafe_shutdowns": found.unsafe_shutdowns,
        "num_err_log_entries": found.error_log_entries,
    }


def _uname(answer: bytes) -> dict[str, Any]:
    found = system.uname(answer)
    return {"release": found.release, "machine": found.machine}


ADAPTERS: dict[str, Adapter] = {
    "os_release": lambda answer: dict(system.os_release(answer)),
    "uname": _uname,
    "lscpu": _lscpu,
    "lsblk": _lsblk,
    "nvme_smart_log": _smart,
}
ELSEWHERE = {"fio"}  # parsed by fiopy, whose tests compare it


def sidecars(tool: str) -> list[Path]:
    return sorted((CORPUS / tool).glob("*.expect.json")) if CORPUS.is_dir() else []


SAMPLES = [pytest.param(tool, path, id=f"{tool}/{path.name.removesuffix('.expect.json')}")
           for tool in ADAPTERS for path in sidecars(tool)]
absent = pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no corpus in ../shared/{CORPUS.name}")


@pytest.fixture(scope="module")
def compare() -> ModuleType:
    spec = importlib.util.spec_from_file_location("corpus_compare", CORPUS / "compare.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@absent
@pytest.mark.parametrize(("tool", "sidecar"), SAMPLES)
def test_sample(tool: str, sidecar: Path, compare: ModuleType) -> None:
    facts = json.loads(sidecar.read_text("utf-8"))["facts"]
    answer = sidecar.with_name(sidecar.name.removesuffix(".expect.json")).read_bytes()
    if facts.get("must_report_parse_error"):
        with pytest.raises(ParseError):
            ADAPTERS[tool](answer)
        return
    try:
        result = ADAPTERS[tool](answer)
    except ParseError:
        if facts.get("may_refuse"):
            return
        raise
    assert compare.cmp(facts, result) == []


@absent
def test_every_tool_here_has_samples() -> None:
    assert [tool for tool in ADAPTERS if not sidecars(tool)] == []


@absent
def test_tools_without_parser_are_named() -> None:
    tools = {path.name for path in CORPUS.iterdir() if path.is_dir()}
    missing = sorted(tools - set(ADAPTERS) - ELSEWHERE)
    if missing:
        warnings.warn(
            f"{len(missing)} tools of the corpus have no parser yet: {', '.join(missing)}",
            stacklevel=1,
        )
    assert set(ADAPTERS) <= tools
