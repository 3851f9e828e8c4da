"""Drafts the inventory of a machine and the site plan that scopes out what it can't settle."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from kvgate.engine.bom_draft import ask, text_of
from kvgate.engine.draft_facts import Facts, Scratch, about_kernel_log, about_scratch, look
from kvgate.engine.draft_reasons import no_limit, no_such_arm, not_asked, reason_for
from kvgate.errors import CommandError, KvgateError, ParseError
from kvgate.model.quantity import Quantity
from kvgate.model.record import Evidence, EvidenceRef
from kvgate.parse.block import BlockDevice
from kvgate.parse.net import Port
from kvgate.parse.pci import DISPLAY, Function
from kvgate.probes import ALL, gather
from kvgate.probes.network import no_speed
from kvgate.spec import load, yamlfile
from kvgate.spec.expect import Expectations, coverage, expectations
from kvgate.spec.gate import Criterion, Gate
from kvgate.spec.inventory import Host, Inventory
from kvgate.spec.load import Loaded
from kvgate.spec.load_bom import bom_of
from kvgate.spec.plan import Plan
from kvgate.transport.base import Transport
from kvgate.witness import Witness

BASELINE_FILE = "baseline.yaml"
"""The workspace's own baselines, in inventory/."""

_GIB = 2**30


@dataclasses.dataclass(frozen=True, slots=True)
class Draft:
    """The texts of the files, and what a person should know who corrects them.

    ``bom`` is "" where the machine tells no serial number at all.
    """

    inventory: str
    plan: str
    remarks: tuple[str, ...]
    bom: str = ""


def draft(
    host: Host,
    transport: Transport,
    entry: Mapping[str, Any],
    *,
    workspace: Path,
    plan: str,
    devices: Mapping[str, Mapping[str, Any]] | None = None,
) -> Draft:
    """Return the inventory of the machine behind `transport`, and a site plan on top of `plan`.

    `entry` is the host's entry as an inventory file has it, without ``declared``; `host` the same
    as a model. `plan` is a path below `workspace`. `devices` are entries to stand beside it.

    1. Look what is there, and declare it. 2. Ask again as G1 will, for what is declared. 3. Scope
    out, with the reason, each criterion of the plan's gates that would cover nothing, whose
    question this machine can't answer, or that has no limit in the plan's profile.

    Raises TransportError where it can't be asked at all, SpecError for an unsound file.
    """
    base = load.load_plan(workspace / plan, root=workspace, name=plan)
    gates = {name: each.value for name, each in load.load_gates(workspace / "gates").items()}
    facts = look(Witness(host, transport, _forget))
    text = _inventory_text(host.name, entry, facts) + _devices_text(devices or {})
    inventory = load.inventory_of(yamlfile.parse(text.encode(), "the drafted inventory"))
    baseline = load.load_baseline(workspace / "inventory" / BASELINE_FILE, inventory)
    witness = Witness(inventory.value.hosts[host.name], transport, _forget)
    bom_text = _bom_text(witness, inventory.value)
    if bom_text:
        text = text.replace("hosts:\n", f"bom: {bom_file(host.name)}\nhosts:\n", 1)
        inventory = load.inventory_of(yamlfile.parse(text.encode(), "the drafted inventory"))
    bom = bom_of(yamlfile.parse(bom_text.encode(), "the drafted BOM")) if bom_text else None
    scratch = about_scratch(witness, host.scratch) if host.scratch else Scratch()
    silent = _unanswerable(witness) | scratch.silent | about_kernel_log(witness)
    expected = expectations(inventory.value, baseline.value, bom.value if bom else None)
    out = _scope_out(base.value, gates, inventory.value, expected, facts, silent)
    plan_text = _plan_text(base, plan, host.name, out)
    load.plan_of(yamlfile.parse(plan_text.encode(), "the drafted plan"), base.files[0])
    return Draft(text, plan_text, (*_remarks(facts), *scratch.remarks), bom_text)


def _devices_text(devices: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the entries of devices, as they stand under an inventory's ``hosts``."""
    if not devices:
        return ""
    plain = yaml.safe_dump({n: dict(each) for n, each in devices.items()}, sort_keys=False)
    return "".join(f"  {line}\n" for line in plain.splitlines())


def bom_file(host: str) -> str:
    """Return the name of the bill of materials that is drafted with the inventory of `host`."""
    return f"bom-{host}.yaml"


def _bom_text(witness: Witness, inventory: Inventory) -> str:
    """Return the bill of materials of the machine, "" where it can't tell its parts."""
    try:
        return text_of(witness.host.name, ask(witness, inventory))
    except (ParseError, CommandError):
        return ""


def _forget(evidence: Evidence) -> EvidenceRef:
    """Return the reference of an answer that is not kept: a draft proves nothing."""
    return hashlib.sha256(evidence.stdout).hexdigest()


def _unanswerable(witness: Witness) -> dict[tuple[str, str], str]:
    """Return (measure, item) → why, for everything declared that the probes get no value for."""
    found: dict[tuple[str, str], str] = {}
    with contextlib.suppress(ParseError, CommandError):  # asked one by one then
        answered = gather.Facts(witness.host, witness.transport, ()).answered(ALL)
        witness = dataclasses.replace(witness, transport=answered)
    for probe in ALL:
        try:
            readings = probe.ask(witness).readings
        except KvgateError as err:
            readings = probe.unanswered(witness.host, err.message)
        found |= {(each.name, each.item): each.problem for each in readings if each.problem}
    return found


def _scope_out(
    base: Plan,
    gates: Mapping[str, Gate],
    inventory: Inventory,
    expected: Expectations,
    facts: Facts,
    silent: Mapping[tuple[str, str], str],
) -> dict[str, list[str]]:
    """Return reason → criteria, in the gates' order."""
    settled = set(base.scoped_out())
    out: dict[str, list[str]] = {}
    for planned in base.gates:
        for criterion in gates[planned.gate].criteria if planned.gate in gates else ():
            if criterion.id in settled:
                continue
            covered = coverage(criterion, inventory, expected)
            reason = (
                no_such_arm(criterion, base)
                or not_asked(criterion, base)
                or (
                    _silence(criterion, covered, silent)
                    if covered
                    else reason_for(criterion, inventory, facts)
                )
                or no_limit(criterion, base)
            )
            if reason:
                out.setdefault(reason, []).append(criterion.id)
    return out


def _silence(
    criterion: Criterion,
    covered: Mapping[str, Iterable[str]],
    silent: Mapping[tuple[str, str], str],
) -> str:
    """Return why a criterion that covers something can't be settled; empty where it can.

    A missing tool is no reason: it can be installed, and the finding names its package.
    """
    if criterion.measure.startswith("tool."):
        return ""
    problems = [
        silent[criterion.measure, item]
        for items in covered.values()
        for item in items
        if (criterion.measure, item) in silent
    ]
    return "; ".join(dict.fromkeys(problems))


# the inventory's text


_NOTES = {
    "roles": "serving: under test; client: load and test equipment",
    "tools": "where commands are that the login's PATH may lack",
    "scratch": "workloads make files here, and remove them",
    "baseline": "required versions, by name",
}


def _inventory_text(name: str, entry: Mapping[str, Any], facts: Facts) -> str:
    lines = [
        "# Drafted by asking the machine itself. Correct it by hand: what is declared here is",
        "# judged, and what is declared and absent fails.",
        f"inventory: {_flow(name)}",
        "title: Drafted from what the machine reports",
        f"baseline: {BASELINE_FILE}",
        "hosts:",
        f"  {_flow(name)}:",
    ]
    tools = {**facts.tools, **entry.get("tools", {})}
    for key, value in {**entry, "tools": tools}.items():
        if value not in (None, {}):
            note = f"  # {_NOTES[key]}" if key in _NOTES else ""
            lines.append(f"    {key}: {_flow(value)}{note}")
    declared = list(_declared(facts))
    return "\n".join([*lines, f"    declared:{'' if declared else ' {}'}", *declared]) + "\n"


def _declared(facts: Facts) -> Iterator[str]:
    told = facts.told
    cpu = {
        key.removeprefix("cpu."): int(value.number) if isinstance(value, Quantity) else value
        for key, value in told.items()
        if key.startswith("cpu.")
    }
    if cpu:
        yield f"      cpu: {_flow(cpu)}"
    if isinstance(memory := told.get("memory.size"), Quantity):
        note = "as the kernel sees it, a little less than installed"
        yield f"      memory: {memory.base // 2**20} MiB  # {note}"
    if isinstance(nodes := told.get("numa.nodes"), Quantity):
        yield f"      numa_nodes: {int(nodes.number)}"
    if facts.gpus:
        kind = max({f.id for f in facts.gpus}, key=[f.id for f in facts.gpus].count)
        count = sum(f.id == kind for f in facts.gpus)
        at = [f.address for f in facts.gpus if f.id == kind]
        yield f"      gpus: {_flow({'count': count, 'id': kind, 'addresses': at})}"
    yield from _section(
        "disks",
        "by serial, else WWN, else name",
        (_disk(disk, facts.own_disks) for disk in facts.own_disks),
    )
    yield from _section(
        "nics",
        "ports with a link; speed where they report one",
        (_nic(port) for port in facts.own_ports),
    )
    yield from _section(
        "pcie", "devices with a link, as they run now", (_link(link) for link in facts.links)
    )


def _section(name: str, note: str, items: Iterable[dict[str, Any]]) -> Iterator[str]:
    listed = [f"        - {_flow(item)}" for item in items]
    if listed:
        yield f"      {name}:  # {note}"
        yield from listed


def _disk(disk: BlockDevice, others: Iterable[BlockDevice]) -> dict[str, Any]:
    """Return a disk's entry; a serial that another disk has too identifies neither."""
    serials = [each.serial for each in others]
    wwns = [each.wwn for each in others]
    found: dict[str, Any] = {}
    if disk.serial and serials.count(disk.serial) == 1:
        found["serial"] = disk.serial
    elif disk.wwn and wwns.count(disk.wwn) == 1:
        found["wwn"] = disk.wwn
    else:
        found["name"] = disk.name
    if disk.model:
        found["model"] = disk.model
    if disk.size_bytes:
        gib, rest = divmod(disk.size_bytes, _GIB)
        found["size"] = f"{disk.size_bytes} B" if rest else f"{gib} GiB"
    return found | ({"nvme": True} if disk.nvme else {})


def _nic(port: Port) -> dict[str, Any]:
    found: dict[str, Any] = {"name": port.name}
    if port.mac:
        found["mac"] = port.mac
    if port.speed_mbps:
        found["speed"] = f"{port.speed_mbps} Mbit/s"
    return found


def _link(link: Function) -> dict[str, Any]:
    """Return a link's entry; a speed below the device's own, or a GPU's, may change when idle."""
    found: dict[str, Any] = {"address": link.address, "id": link.id}
    if link.speed_gts is not None and _steady(link):
        found["speed"] = f"{link.speed_gts} GT/s"
    return found | {"width": link.width}


def _steady(link: Function) -> bool:
    return link.kind not in DISPLAY and link.speed_gts == link.speed_max_gts


def _flow(value: Any) -> str:
    """Return `value` as YAML on one line, quoted where YAML would read something else."""
    plain = dict(value) if isinstance(value, Mapping) else value
    return yaml.safe_dump(
        [plain], default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**9
    ).strip()[1:-1]


# the plan's text, and what to say


def _plan_text(base: Loaded[Plan], path: str, host: str, out: Mapping[str, Sequence[str]]) -> str:
    lines = [
        "# Drafted: the plan named as 'base', narrowed to what this machine can settle.",
        "# What stands under scope_out is listed in the report with its reason, and not judged.",
        f"plan: {_flow(f'{base.value.plan}-here')}",
        f"title: {_flow(f'{base.value.title} ({host})')}",
        f"base: {_flow(path)}",
        f"drafted_for: {_flow(host)}",
    ]
    if out:
        lines.append("scope_out:")
    for reason, criteria in out.items():
        lines += [f"  - criteria: [{', '.join(criteria)}]", f"    reason: {_flow(reason)}"]
    return "\n".join(lines) + "\n"


def _remarks(facts: Facts) -> Iterator[str]:
    """Yield what could not be asked, what was seen and not declared, or declared with less."""
    yield from facts.remarks
    for disk in facts.disks:
        if disk.attached and disk.removable:
            yield f"{disk.name} is removable: not declared"
        elif disk in facts.own_disks and "name" in _disk(disk, facts.own_disks):
            yield f"{disk.name} tells no serial or WWN of its own: declared by name"
    for port in facts.ports:
        if port.attached and not port.carrier:
            yield f"{port.name} has no link: not declared"
        elif port.attached and port.speed_mbps is None:
            yield f"{no_speed(port)}: declared without a speed"
    for link in facts.links:
        if not _steady(link):
            yield (
                f"{link.address} runs at {link.speed_gts} GT/s of {link.speed_max_gts}, or is a "
                "GPU and slows down when idle: declared without a speed"
            )
        if link.width != link.width_max:
            yield (
                f"{link.address} has x{link.width} and could have x{link.width_max}: declared "
                "as it runs"
            )
