"""Published outputs of paths: nvme list-subsys, discover and connect, perftest, multipath."""

from collections.abc import Callable
from typing import Any

from kvgate.parse.nvme_connect import Complaint

Result = dict[str, Any]


def _path(path: Any) -> Result:
    parts = path.parts
    return {
        "name": path.name,
        "transport": path.transport,
        "state": path.state,
        "ana": path.ana_state,
        **{key: parts.get(key) for key in ("traddr", "trsvcid", "src_addr", "host_traddr")},
        "namespaces": list(path.namespaces),
    }


def _subsystem(each: Any) -> Result:
    best = {
        str(path.nsid): path.name
        for path in each.paths
        if path.nsid is not None and path.ana_state == "optimized"
    }
    names = {path.name for path in each.paths}
    return {
        "name": each.name,
        "nqn": each.nqn,
        "iopolicy": each.iopolicy,
        "path_count": len(names),
        "live_paths": len({path.name for path in each.paths if path.state == "live"}),
        "paths": [_path(path) for path in each.paths],
        "nsids": list(dict.fromkeys(path.nsid for path in each.paths)),
        "optimized_path_by_nsid": best,
    }


def _subsystems(found: Any) -> Result:
    devices = [
        {
            "path": each.path,
            "nsid": each.nsid,
            "sector_size": each.sector_bytes,
            "size_bytes": each.size_bytes,
            "used_bytes": each.used_bytes,
        }
        for each in found.devices
    ]
    return {
        "shape": found.shape,
        "subsystem_count": len(found.subsystems),
        "subsystems": [_subsystem(each) for each in found.subsystems],
        "device_count": len(devices),
        "devices": devices,
    }


def _connect(found: Any) -> Result:
    if isinstance(found, Complaint):
        return {"ok": False, "error_text": found.error_text, "errno_name": found.errno_name}
    return {
        "declared_records": found.declared,
        "records_in_text": len(found.records),
        "records": [
            {
                "portid": each.portid,
                "trtype": each.transport,
                "adrfam": each.address_family,
                "traddr": each.traddr,
                "trsvcid": each.trsvcid,
                "subnqn": each.nqn,
            }
            for each in found.records
        ],
    }


def _perftest(found: Any) -> Result:
    rows = [
        {
            "bytes": row.size_bytes,
            "iterations": row.iterations,
            "peak": None if row.peak is None else float(row.peak),
            "avg": float(row.average),
            "mpps": float(row.mega_messages_s),
        }
        for row in found.rows
    ]
    return {
        "unit": found.unit,
        "device": found.device,
        "row_count": len(rows),
        "rows_printed": found.rows_printed,
        "rows": rows,
    }


def _multipath(found: Any) -> Result:
    return {
        "map_count": len(found),
        "maps": [
            {
                "device": each.device,
                "alias": each.alias,
                "wwid": each.wwid,
                "size": each.size,
                "hwhandler": each.handler,
                "path_count": len(each.paths),
                "active_paths": sum(path.dm_state == "active" for path in each.paths),
                "failed_paths": sum(path.failed for path in each.paths),
                "group_count": len(each.groups),
                "prios": [group.priority for group in each.groups],
                "paths": [
                    {"name": path.name, "ana": path.checker, "state": path.state}
                    for path in each.paths
                ],
            }
            for each in found
        ],
    }


ADAPTERS: dict[str, Callable[[Any], Result]] = {
    "nvme_list_subsys": _subsystems,
    "nvme_connect": _connect,
    "ib_write_bw": _perftest,
    "ib_read_bw": _perftest,
    "multipath": _multipath,
}


def test_sample(corpus_sample: Any, holds: Callable[[Any], None]) -> None:
    holds(corpus_sample)
