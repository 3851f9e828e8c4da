"""Why a criterion would cover nothing on a machine: one precise sentence from what was seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kvgate.engine.draft_facts import Facts
from kvgate.probes.network import no_speed
from kvgate.spec.gate import Criterion
from kvgate.spec.inventory import Inventory
from kvgate.spec.plan import Plan

_MANY = 4


def reason_for(criterion: Criterion, inventory: Inventory, facts: Facts) -> str:
    """Return why nothing in `inventory`, drafted from `facts`, is covered by `criterion`."""
    if not inventory.with_role(criterion.hosts):
        return f"no host of this inventory has the role '{criterion.hosts}'"
    measure = criterion.measure
    if measure in _REASONS:
        return _REASONS[measure](facts)
    kind = measure.partition(".")[0]
    if kind in _REASONS:
        return _REASONS[kind](facts)
    hosts = inventory.hosts.values()
    names = ", ".join(sorted({f"'{host.baseline}'" for host in hosts if host.baseline}))
    if kind in ("os", "kernel", "tool") and names:
        return f"the baseline {names} requires nothing for {measure}"
    return f"no host declares anything for {measure}"


def no_such_arm(criterion: Criterion, plan: Plan) -> str:
    """Return why `criterion` compares an arm that `plan` does not run; empty where it runs it."""
    loads = plan.workloads
    compared = loads.fio_arms if criterion.measure.startswith("arms.") else loads.kv
    asked = [criterion.where[label] for label in ("arm", "over") if label in criterion.where]
    asked += [criterion.ratio.of, criterion.ratio.to] if criterion.ratio else []
    missing = [arm for arm in asked if compared and arm not in compared.runs]
    if not compared or not missing:
        return ""
    return f"the plan runs no arm '{missing[0]}' (its arms: {', '.join(compared.arms)})"


def not_asked(criterion: Criterion, plan: Plan) -> str:
    """Return that `plan` asks for no such diagnostic; empty where it does."""
    own = "nvme_self_test" if criterion.measure == "nvme.self_test_passed" else ""
    name = criterion.where.get("diagnostic", own)
    asked = plan.workloads.diagnostics
    if not name or (asked and getattr(asked, name)):
        return ""
    return f"the plan asks for no such diagnostic (workloads.diagnostics.{name})"


def no_limit(criterion: Criterion, plan: Plan) -> str:
    """Return that `criterion` has no limit in `plan`'s profile; empty where it has one."""
    if plan.profile in criterion.limits:
        return ""
    others = ", ".join(f"'{profile}'" for profile in criterion.limits)
    return f"it has no limit for the profile '{plan.profile}', only for {others}"


def _list(names: Iterable[str]) -> str:
    """Return a few of `names`, and how many more there are."""
    known = list(names)
    more = f" and {len(known) - _MANY} more" if len(known) > _MANY else ""
    return ", ".join(known[:_MANY]) + more


def _disk(facts: Facts) -> str:
    seen = _list(disk.name for disk in facts.disks)
    return f"no disk sits on a bus of this machine (seen: {seen or 'none at all'})"


def _disk_model(facts: Facts) -> str:
    if not facts.own_disks:
        return _disk(facts)
    return f"no host declares a disk's model: {_list(d.name for d in facts.own_disks)} tells none"


def _nvme(facts: Facts) -> str:
    seen = _list(disk.name for disk in facts.own_disks)
    return f"no host has an NVMe drive (its disks: {seen or 'none'})"


def _nic(facts: Facts) -> str:
    seen = _list(port.name for port in facts.ports)
    return f"no network port with a link sits on a bus of this machine (seen: {seen or 'none'})"


def _nic_speed(facts: Facts) -> str:
    if not facts.own_ports:
        return _nic(facts)
    return f"no host declares a NIC with a speed: {_list(map(no_speed, facts.own_ports))}"


def _pcie(facts: Facts) -> str:
    if not facts.functions:
        return "this machine shows no PCI devices"
    seen = _list(f"{f.address} ({f.id})" for f in facts.functions)
    return f"no PCI device reports a link: {seen}"


def _pcie_speed(facts: Facts) -> str:
    if not facts.links:
        return _pcie(facts)
    seen = _list(f"{f.address} at {f.speed_gts} of {f.speed_max_gts} GT/s" for f in facts.links)
    return f"no PCIe link runs steadily at its own full speed: {seen}"


def _gpu(facts: Facts) -> str:
    return (
        f"no GPU is there: none of {len(facts.functions)} PCI devices is a display or "
        "accelerator of AMD or NVIDIA"
    )


def _untold(what: str) -> Callable[[Facts], str]:
    return lambda _facts: f"this machine does not tell {what}"


def _undeclared(what: str) -> Callable[[Facts], str]:
    return lambda _facts: f"the inventory does not say {what}: it is agreed, not found by asking"


def _no_bom(_facts: Facts) -> str:
    return "there is no bill of materials: no part of this machine tells a serial number"


_REASONS: dict[str, Callable[[Facts], str]] = {
    "disk": _disk,
    "disk.model": _disk_model,
    "nvme": _nvme,
    "nic": _nic,
    "nic.speed": _nic_speed,
    "pcie": _pcie,
    "pcie.speed": _pcie_speed,
    "part.status": _no_bom,
    "parts.surplus": _no_bom,
    "part.firmware": _undeclared("which firmware a model of its parts should run"),
    "nvme.firmware": _undeclared("which firmware its NVMe drives should run"),
    "host.bios": _undeclared("which BIOS the host should run"),
    "nic.mtu": _undeclared("which MTU a network port should have"),
    "nic.fec": _undeclared("which FEC a network port should use"),
    "nic.neighbour": _undeclared("which switch port a network port should be cabled to"),
    "card": _gpu,
    "gpu.count": _gpu,
    "gpu.driven": _gpu,
    "cpu.model": _untold("the model of its processors"),
    "cpu.sockets": _untold("how many processor sockets it has"),
    "cpu.threads": _untold("how many hardware threads it has"),
    "memory.size": _untold("the size of its memory"),
    "numa.nodes": _untold("its NUMA nodes"),
}
