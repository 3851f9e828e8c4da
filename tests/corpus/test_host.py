"""Published outputs of a host's tools: their facts hold, damaged ones are refused."""

import dataclasses
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kvgate.parse import registry, smart

Result = dict[str, Any]


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


def _dmidecode(found: Any) -> Result:
    devices = [each for each in found.memory if each.populated]
    sizes = {each.size_bytes for each in devices}
    speeds = {each.configured_speed_mts or each.speed_mts for each in devices}
    return {
        "memory_slots": len(found.memory),
        "memory_slots_populated": len(devices),
        "memory_total_bytes": sum(each.size_bytes for each in devices),
        "dimm_size_bytes": sizes.pop() if len(sizes) == 1 else None,
        "dimm_speed_mts": speeds.pop() if len(speeds) == 1 else None,
        "system_product_name": found.system.product_name if found.system else None,
    }


def _numactl(found: Any) -> Result:
    cpus = {len(node.cpus) for node in found}
    return {
        "numa_nodes": len(found),
        "cpus_per_node": cpus.pop() if len(cpus) == 1 else None,
        "size_mib": [node.size_mib for node in found],
        **{f"distance_0_{n.number}": d for n, d in zip(found, found[0].distances, strict=True)},
    }


def _smartctl(found: Any) -> Result:
    return {
        "model": found.model,
        "serial": found.serial,
        "firmware": found.firmware,
        "capacity_bytes": found.capacity_bytes,
        "smart_passed": found.smart_passed,
        "exit_status": found.exit_status,
        "critical_warning": found.critical_warning,
        "temperature_c": found.temperature_c,
        "avail_spare_pct": found.available_spare_pct,
        "percent_used": found.percentage_used,
        "media_errors": found.media_errors,
        "power_on_hours": found.power_on_hours,
        "unsafe_shutdowns": found.unsafe_shutdowns,
        "data_units_written": found.data_units_written,
        "data_units_read": found.data_units_read,
        "temperature_sensors_c": list(found.temperature_sensors_c) or None,
        "smartctl_version": found.smartctl_version,
        "warning_temp_c": found.warning_temp_c,
        "critical_temp_c": found.critical_temp_c,
        "num_err_log_entries": found.error_log_entries,
    }


def _nvme_list(found: Any) -> Result:
    devices = [
        {
            "path": each.path,
            "nsid": each.nsid,
            "model": each.model,
            "serial": each.serial,
            "firmware": each.firmware,
            "size_bytes": each.size_bytes,
            "used_bytes": each.used_bytes,
            "max_lba": each.max_lba,
            "sector_size": each.sector_bytes,
        }
        for each in found.namespaces
    ]
    controllers = [
        {
            "name": each.name,
            "cntlid": each.cntlid,
            "model": each.model,
            "firmware": each.firmware,
            "transport": each.transport,
            "subsystem": each.subsystem,
            "namespaces": list(each.namespaces),
            "trsvcid": each.address.rpartition("trsvcid=")[2],
        }
        for each in found.controllers
    ]
    numbers = [each[key] for each in devices for key in ("size_bytes", "used_bytes", "max_lba")]
    return {
        "shape": found.shape,
        "device_count": len(devices),
        "devices": devices,
        "controller_count": len(controllers),
        "controllers": controllers,
        "must_not_report_negative_size": any(n is not None and n < 0 for n in numbers),
    }


def _nvme_id_ctrl(found: Any) -> Result:
    return dataclasses.asdict(found)


def _nvme_error_log(found: Any) -> Result:
    return {
        "declared_entries": found.declared_entries,
        "entries_in_text": len(found.entries),
        "real_errors": len(found.errors),
        "entries": [dataclasses.asdict(each) for each in found.entries],
    }


def _ethtool(found: Any) -> Result:
    first = found[0]
    return {
        "device": first.device,
        "speed_mbps": first.speed_mbps,
        "link_detected": first.link_detected,
        "warnings": len(first.warnings),
        "link_detected_sequence": [each.link_detected for each in found],
    }


def _ethtool_s(found: Any) -> Result:
    first, last = found[0].counters, found[-1].counters
    return {
        "counters": first,
        "delta": {name: last[name] - value for name, value in first.items()},
        "must_not_count_as_error": found[0].errors(),
    }


def _ibstat(found: Any) -> Result:
    return {
        "ca_count": len(found),
        "cas": [
            {
                "name": each.name,
                "type": each.type,
                "fw": each.firmware,
                "state": each.ports[0].state,
                "physical_state": each.ports[0].physical_state,
                "rate_gbps": each.ports[0].rate_gbps,
                "link_layer": each.ports[0].link_layer,
            }
            for each in found
        ],
    }


def _ibv_devinfo(found: Any) -> Result:
    return {
        "hca_count": len(found),
        "hcas": [
            {
                "id": each.name,
                "fw": each.firmware,
                "vendor_part_id": each.vendor_part_id,
                "state": port.state,
                "phys_state": port.physical_state,
                "active_mtu": port.active_mtu_bytes,
                "max_mtu": port.max_mtu_bytes,
                "link_layer": port.link_layer,
                "gid_count": len(port.gids),
                "gids": [dataclasses.asdict(gid) for gid in port.gids],
            }
            for each in found
            for port in each.ports
        ],
    }


def _rdma_link(found: Any) -> Result:
    links = [dataclasses.asdict(each) | {"dev": each.device} for each in found]
    return {"link_count": len(found), "links": links}


def _rdma_statistic(found: Any) -> Result:
    return {
        "link_count": len(found),
        "links": {each.link: each.counters for each in found},
        "optional_counters": {each.link: each.optional for each in found},
    }


def _show_gids(found: Any) -> Result:
    return {
        "row_count": len(found.rows),
        "n_gids_found": found.declared,
        "rocev2_ipv4": [each.ipv4 for each in found.rows if each.version == "v2" and each.ipv4],
    }


def _ip_link(found: Any) -> Result:
    links = [
        {
            "ifname": each.name,
            "operstate": each.operstate,
            "mtu": each.mtu_bytes,
            "no_carrier": each.no_carrier,
        }
        for each in found
    ]
    return {"link_count": len(found), "links": links}


def _mlnx_qos(found: Any) -> Result:
    return {
        "pfc_enabled_priorities": list(found.pfc_enabled_priorities),
        "cable_len": found.cable_len_m,
        "must_not_report_pfc_on": bool(found.pfc_enabled_priorities),
    }


def _dcb_pfc(found: Any) -> Result:
    return dataclasses.asdict(found)


ADAPTERS: dict[str, Callable[[Any], Result]] = {
    "os_release": lambda found: dict(found.assignments),
    "uname": lambda found: {"release": found.release, "machine": found.machine},
    "lscpu": _lscpu,
    "lsblk": _lsblk,
    "nvme_smart_log": _smart,
    "dmidecode": _dmidecode,
    "numactl": _numactl,
    "smartctl": _smartctl,
    "nvme_list": _nvme_list,
    "nvme_id_ctrl": _nvme_id_ctrl,
    "nvme_error_log": _nvme_error_log,
    "ethtool": _ethtool,
    "ethtool_S": _ethtool_s,
    "ibstat": _ibstat,
    "ibv_devinfo": _ibv_devinfo,
    "rdma_link": _rdma_link,
    "rdma_statistic": _rdma_statistic,
    "show_gids": _show_gids,
    "ip_link": _ip_link,
    "mlnx_qos": _mlnx_qos,
    "dcb_pfc": _dcb_pfc,
}


def test_sample(corpus_sample: Any, holds: Callable[[Any], None]) -> None:
    holds(corpus_sample)


def test_every_tool_here_has_samples(corpus: Path) -> None:
    assert [tool for tool in ADAPTERS if not list((corpus / tool).glob("*.expect.json"))] == []


def _adapted() -> set[str]:
    """Return the tools that any module beside this one compares."""
    found: set[str] = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        spec = importlib.util.spec_from_file_location(f"_{path.stem}", path)
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found |= set(getattr(module, "ADAPTERS", ()))
    return found


def test_no_sample_of_a_tool_that_is_read_is_left_out(corpus: Path) -> None:
    samples = {path.name for path in corpus.iterdir() if path.is_dir()}
    assert samples & set(registry.tools()) <= _adapted()
