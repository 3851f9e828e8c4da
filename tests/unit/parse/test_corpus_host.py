"""Published outputs of a host's tools: their facts hold, damaged ones are refused."""

import importlib.util
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kvgate.parse import registry, smart

Result = dict[str, Any]
ELSEWHERE = {"fio"}  # parsed by fiopy, whose own corpus test compares it


def _lscpu(found: Any) -> Result:
    return {
        "cpus": found.cpus,
        "vendor": found.vendor,
        "model_name": found.model_name,
        "sockets": found.sockets,
        "numa_nodes": found.numa_nodes,
        "cores_per_socket": found.cores_per_socket,
        "threads_per_core": found.threads_per_core,
        "virtual": found.hypervisor is not None,
        "numa0_cpus": found.node0_cpus,
    }


def _lsblk(found: Any) -> Result:
    devices = [
        {
            "name": each.name,
            "type": each.type,
            "size_bytes": each.size_bytes,
            "serial": each.serial,
            "wwn": each.wwn,
            "model": each.model,
        }
        for each in found
    ]
    return {"device_count": len(devices), "devices": devices}


def _smart(found: Any) -> Result:
    kelvin = None if found.temperature_c is None else found.temperature_c + smart.KELVIN
    return {
        "critical_warning": found.critical_warning,
        "temperature_c": found.temperature_c,
        "temperature_kelvin": kelvin,
        "avail_spare_pct": found.available_spare_pct,
        "percent_used": found.percentage_used,
        "data_units_read": found.data_units_read,
        "data_units_written": found.data_units_written,
        "media_errors": found.media_errors,
        "power_on_hours": found.power_on_hours,
        "unsafe_shutdowns": found.unsafe_shutdowns,
        "num_err_log_entries": found.error_log_entries,
    }


ADAPTERS: dict[str, Callable[[Any], Result]] = {
    "os_release": lambda found: dict(found.assignments),
    "uname": lambda found: {"release": found.release, "machine": found.machine},
    "lscpu": _lscpu,
    "lsblk": _lsblk,
    "nvme_smart_log": _smart,
}


def test_sample(corpus_sample: Any, holds: Callable[[Any], None]) -> None:
    holds(corpus_sample)


def test_every_tool_here_has_samples(corpus: Path) -> None:
    assert [tool for tool in ADAPTERS if not list((corpus / tool).glob("*.expect.json"))] == []


def _adapted() -> set[str]:
    """Return the tools that any module beside this one compares."""
    found: set[str] = set()
    for path in Path(__file__).parent.glob("test_corpus_*.py"):
        spec = importlib.util.spec_from_file_location(f"_{path.stem}", path)
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found |= set(module.ADAPTERS)
    return found


def test_no_sample_is_skipped_in_silence(corpus: Path) -> None:
    """Tools with a parser are compared; samples of those without one are listed as a warning."""
    samples = {
        path.name: len(list(path.glob("*.expect.json")))
        for path in corpus.iterdir()
        if path.is_dir()
    }
    assert set(samples) & set(registry.tools()) <= _adapted() | ELSEWHERE
    missing = [
        f"{tool} ({number})"
        for tool, number in sorted(samples.items())
        if tool not in registry.tools() and tool not in ELSEWHERE
    ]
    if missing:
        warnings.warn(f"samples without a parser: {', '.join(missing)}", stacklevel=1)
