"""The baseline of one host, row by row: settings, and those that hold for its models only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvgate.model.part import serial_key, text_key
from kvgate.model.record import Value
from kvgate.spec import device
from kvgate.spec.baseline import Baseline, ModelSettings, Setting
from kvgate.spec.bom import Bom, Ordered
from kvgate.spec.inventory import Host
from kvgate.spec.requirement import Requirement

_ITEM_KINDS = {"disk": "disk", "nvme": "nvme", "nic": "nic", "rdma": "nic", "pcie": "pcie"}
"""First word of a measure → the kind of declared items that it is asked of."""

Row = tuple[str, str, Requirement]
"""Measure, item, and what it must be."""


def settings_of(host: Host, baseline: Baseline, bom: Bom | None) -> Iterator[Row]:
    """Yield every setting of the baseline that `host` cites; a model's comes after the general."""
    entry = baseline.baselines[host.baseline or ""]
    for measure, setting in entry.settings.items():
        need = requirement(setting, f"{host.baseline}: {measure}")
        kind = _kind_of_items(host, measure)
        for item in host.items(kind) if kind else ("",):
            yield measure, item, need
    ordered = [each for each in bom.judged() if each.host == (host.of or host.name)] if bom else []
    for row in entry.models:
        named = row.model or row.part_number or row.id
        for measure, setting in row.settings.items():
            need = requirement(setting, f"{host.baseline}: {row.kind} {named}: {measure}")
            for item in _items(row, measure, host, ordered):
                yield measure, item, need


def _kind_of_items(host: Host, measure: str) -> str | None:
    """Return the kind of declared items that `measure` is asked of; None: of the whole host."""
    if host.is_device:
        known = device.measures(host.role.value).get(measure)
        return known.item or None if known else None
    return _ITEM_KINDS.get(measure.partition(".")[0])


def requirement(setting: Setting, group: str) -> Requirement:
    """Return `setting` as the judge reads it; `group` names those who have to agree."""
    same = group if setting.same_on_all_hosts else ""
    form = setting.form
    given: Any = [] if form == "same" else getattr(setting, form)
    values: tuple[Value, ...] = tuple(given) if isinstance(given, list) else (given,)
    return Requirement(form, values, same)


def _items(row: ModelSettings, measure: str, host: Host, ordered: list[Ordered]) -> Iterator[str]:
    """Yield the items of `host` on which `measure` is asked, as far as `row` speaks of them."""
    word = measure.partition(".")[0]
    parts = [each for each in ordered if _is(row, each.kind, each.model, each.part_number)]
    if word == "part":
        yield from (each.item for each in parts if each.serial)
    elif word in ("disk", "nvme"):
        serials = {each.serial for each in parts}
        for disk in host.declared.disks:
            listed = disk.id in host.items(_ITEM_KINDS[word])
            if listed and (
                _is(row, "drive", disk.model or "", "") or serial_key(disk.serial or "") in serials
            ):
                yield disk.id
    elif parts or _has_gpu(row, host) or _is(row, host.role.value, host.declared.model or "", ""):
        yield ""


def _has_gpu(row: ModelSettings, host: Host) -> bool:
    return row.id is not None and bool(host.declared.gpus and host.declared.gpus.id == row.id)


def _is(row: ModelSettings, kind: str, model: str, part_number: str) -> bool:
    """Tell whether a part is of the model that `row` names."""
    if kind != row.kind or not (row.model or row.part_number):
        return False
    asked = ((row.model, model), (row.part_number, part_number))
    return all(text_key(want) == text_key(have) for want, have in asked if want)
