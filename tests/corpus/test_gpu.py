"""Published outputs of GPU tools, lspci and kernel logs: every fact holds, or it is refused."""

import dataclasses
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kvgate.parse.amd_smi import AmdSmi
from kvgate.parse.amd_smi import Gpu as AmdGpu
from kvgate.parse.dmesg import Event, KernelLog
from kvgate.parse.lspci import Device
from kvgate.parse.rocm_smi import RocmSmi
from kvgate.parse.rocminfo import RocmInfo


def _amd_gpu(gpu: AmdGpu) -> dict[str, Any]:
    blocks = {
        block.name: {
            "correctable": block.correctable,
            "uncorrectable": block.uncorrectable,
            "deferred": block.deferred,
        }
        for block in gpu.ecc_blocks
    }
    return {
        **{field.name: getattr(gpu, field.name) for field in dataclasses.fields(gpu)},
        "fw": {firmware.name: firmware.version for firmware in gpu.firmware},
        "ecc_blocks": blocks,
        "total_correctable": gpu.ecc_correctable,
        "total_uncorrectable": gpu.ecc_uncorrectable,
        "total_deferred": gpu.ecc_deferred,
        "single_ecc": gpu.ecc_correctable,
        "double_ecc": gpu.ecc_uncorrectable,
        "retired": gpu.bad_pages_retired,
        "pending": gpu.bad_pages_pending,
        "un_res": gpu.bad_pages_un_res,
        "pcie_bw": gpu.pcie_bandwidth_mbps,
        "is_mi308x": "MI308X" in (gpu.product_name or ""),
    }


def _amd_smi(found: AmdSmi) -> dict[str, Any]:
    gpus = [_amd_gpu(gpu) for gpu in found.gpus]
    versions = found.versions
    alone = gpus[0] if len(gpus) == 1 and gpus[0]["index"] is None else {}
    return {
        **alone,
        "shape": found.shape,
        "bom": found.bom,
        "gpu_count": len(gpus),
        "gpus": gpus,
        "processes": [dataclasses.asdict(process) for process in found.processes],
        "process_count": len(found.processes),
        "links": [{"pair": f"{link.gpu}-{link.peer}"} for link in found.links],
        "amdsmi_tool": versions and versions.tool,
        "amdsmi_library": versions and versions.library,
        "rocm_version": versions and versions.rocm,
        "amdgpu_version": versions and versions.amdgpu,
        "amd_hsmp_version": versions and versions.amd_hsmp,
    }


def _rocm_smi(found: RocmSmi) -> dict[str, Any]:
    gpus = [dataclasses.asdict(gpu) for gpu in found.gpus]
    return {
        "gpu_count": len(gpus),
        "gpus": gpus,
        "physical_gpu_count": found.physical_gpus,
        "distinct_bdf": list(dict.fromkeys(gpu["bdf"] for gpu in gpus)),
        "driver_version": found.driver_version,
        "rocm_smi_version": found.version,
        "rocm_smi_lib_version": found.library_version,
        "header_present": found.header,
        "homogeneous": len({gpu["device_id"] for gpu in gpus}) == 1,
    }


def _rocminfo(found: RocmInfo) -> dict[str, Any]:
    gpus = [agent for agent in found.agents if agent.type == "GPU"]
    cpus = [agent for agent in found.agents if agent.type == "CPU"]

    def same(values: set[Any]) -> Any:
        return values.pop() if len(values) == 1 else None

    return {
        "gpu_agent_count": len(gpus),
        "cpu_agent_count": len(cpus),
        "gfx_target": same({gpu.name for gpu in gpus}),
        "gpu_marketing_name": same({gpu.marketing_name for gpu in gpus}),
        "compute_units_per_gpu": same({gpu.compute_units for gpu in gpus}),
        "cpu_marketing_name": same({cpu.marketing_name for cpu in cpus}),
        "vram_total_bytes_per_gpu": same({gpu.vram_bytes for gpu in gpus}),
    }


def _device(device: Device) -> dict[str, Any]:
    cap, link = device.link_cap, device.link
    return {
        "slot": device.slot,
        "class": device.class_name or device.class_id,
        "vendor": device.vendor or device.vendor_id,
        "device": device.name or device.device_id,
        "description": device.description,
        "rev": device.revision,
        "driver": device.driver,
        "modules": device.modules,
        "cap_speed_gts": cap and cap.speed_gts,
        "cap_width": cap and cap.width,
        "sta_speed_gts": link and link.speed_gts,
        "sta_width": link and link.width,
        "speed_downgraded": device.speed_downgraded,
        "width_downgraded": device.width_downgraded,
    }


def _lspci(found: tuple[Device, ...]) -> dict[str, Any]:
    return {"device_count": len(found), "devices": [_device(device) for device in found]}


class _Log:
    """The events of a log, asked by their id."""

    def __init__(self, log: KernelLog) -> None:
        self.log = log

    def of(self, *ids: str) -> list[Event]:
        return [event for event in self.log.events if event.id in ids]

    def field(self, ids: str, name: str) -> str | None:
        return next(
            (event.fields[name] for event in self.of(*ids.split()) if name in event.fields), None
        )

    def number(self, ids: str, name: str) -> int | None:
        told = self.field(ids, name)
        return None if told is None else int(told)

    def devices(self, *kinds: str) -> list[str]:
        return [event.device for event in self.log.events if event.kind in kinds and event.device]

    def sum(self, event_id: str, block: str = "umc") -> int:
        return sum(
            event.count or 0 for event in self.of(event_id) if event.fields.get("block") == block
        )


def _nvme(log: _Log) -> dict[str, Any]:
    timeouts = log.of("nvme.io_timeout")
    queues = Counter(event.fields["queue"] == "0" for event in timeouts)
    controllers = [device for device in log.devices("nvme") if "n" not in device[4:]]
    errors = log.of("nvme.reconnect_failed")
    io_error = log.of("block.error")
    return {
        "controller": controllers[0] if controllers else None,
        "admin_queue_timeouts": queues[True],
        "io_queue_timeouts": queues[False],
        "queue_timeouts": len(log.of("nvme.queue_timeout")),
        "timeout_aborting": sum(event.fields.get("then") == "aborting" for event in timeouts),
        "reset_controller_event": any(
            event.fields.get("then") == "reset controller" for event in timeouts
        ),
        "abort_status": log.field("nvme.abort_status", "status"),
        "error_recovery_started": bool(log.of("nvme.recovering")),
        "failed_reconnects": len(errors),
        "successful_reconnects": len(log.of("nvme.reconnected")),
        "reconnected": bool(log.of("nvme.reconnected")),
        "no_path_available": bool(log.of("nvme.no_path")),
        "errno": log.number("nvme.connect_failed", "errno"),
        "connect_status": log.number("nvme.connect_refused", "status"),
        "capacity_bytes": log.number("nvme.capacity", "after"),
        "nvme_events": len(log.devices("nvme")),
        "device": io_error[0].device if io_error else None,
        "io_error": {
            "op": log.field("block.error", "op"),
            "sector": log.number("block.error", "sector"),
        },
    }


def _gpu_faults(log: _Log) -> dict[str, Any]:
    drivers = [event.device for event in log.log.events if event.fields.get("driver") == "amdgpu"]
    gpus = [*log.devices("ras", "gpu"), *drivers]
    pages = log.of("ras.bad_pages")
    saved = log.number("ras.bad_pages", "saved")
    threshold = log.number("ras.bad_pages", "threshold")
    return {
        "gpu": gpus[0] if gpus else None,
        "recovered": not log.of("aer.recovery_failed"),
        "umc_correctable": log.sum("ras.correctable"),
        "umc_uncorrectable": log.sum("ras.uncorrectable"),
        "uncorrectable": log.sum("ras.uncorrectable"),
        "lines_with_faults": len({event.line for event in log.log.events}),
        "reset_begin": bool(log.of("gpu.reset_begin")),
        "reset_failed": bool(log.of("gpu.reset_failed")),
        "reset_ret": log.number("gpu.reset_failed", "ret"),
        "bad_pages": {
            "gpu": pages[0].device if pages else None,
            "saved": saved,
            "threshold": threshold,
            "over_threshold": None not in (saved, threshold) and (saved or 0) > (threshold or 0),
        },
        "poison_consumed_gpu": log.field("ras.poison_consumed", "device"),
        "aca_gpu": log.field("ras.aca", "device"),
    }


def _dmesg(found: KernelLog) -> dict[str, Any]:
    log = _Log(found)
    firmware = found.firmware[0] if found.firmware else None
    return {
        **_nvme(log),
        **_gpu_faults(log),
        "devices": {
            each.device: {
                "driver": each.driver,
                "severity": each.severity,
                "layer": each.layer,
                "bits": list(each.bits),
                "bit_counts": each.bits,
                "vendor_device": each.vendor_device,
            }
            for each in found.aer
        },
        "nvme_uncorrected": sum(
            each.driver == "nvme" and (each.severity or "").startswith("Uncorrect")
            for each in found.aer
        ),
        "ghes": firmware and dataclasses.asdict(firmware),
        "drain_error": log.number("rdma.drain_failed", "errno"),
        "kernel_warning": bool(log.of("kernel.warning")),
        "nic": log.field("rdma.qp_failed", "device"),
    }


ADAPTERS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "amd_smi": _amd_smi,
    "rocm_smi": _rocm_smi,
    "rocminfo": _rocminfo,
    "lspci": _lspci,
    "dmesg": _dmesg,
}


def test_sample(corpus_sample: Any, holds: Callable[[Any], None]) -> None:
    holds(corpus_sample)


def test_every_tool_here_has_samples(corpus: Path) -> None:
    assert [tool for tool in ADAPTERS if not list((corpus / tool).glob("*.expect.json"))] == []
