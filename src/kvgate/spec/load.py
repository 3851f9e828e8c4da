"""Loads gate, plan, inventory and baseline files and refuses what is wrong, with file and line."""

from __future__ import annotations

import dataclasses
import difflib
import types
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

import pydantic

from kvgate.errors import SpecError
from kvgate.spec import yamlfile
from kvgate.spec.base import Strict
from kvgate.spec.baseline import Baseline
from kvgate.spec.gate import Gate
from kvgate.spec.inventory import Inventory
from kvgate.spec.plan import Plan
from kvgate.spec.yamlfile import Where, YamlFile

Model = TypeVar("Model", bound=Strict)
T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Loaded(Generic[T]):
    """A checked value and the file (or files: a plan and its base) it came from."""

    value: T
    files: tuple[YamlFile, ...]


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` for the closest of `known`, or the list of all of them."""
    options = sorted(known)
    close = difflib.get_close_matches(word, options, n=1)
    if close:
        return f"; did you mean '{close[0]}'?"
    return f"; known: {', '.join(options)}" if options else ""


def validate(model: type[Model], file: YamlFile) -> Model:
    """Return `file`'s value as `model`; raises SpecError naming every mistake with its line."""
    if not isinstance(file.value, dict):
        raise SpecError(f"{file.name}:1: is not a mapping of keys to values")
    try:
        return model.model_validate(file.value)
    except pydantic.ValidationError as err:
        problems = [_explain(model, file, error) for error in err.errors(include_url=False)]
        raise SpecError("\n".join(dict.fromkeys(problems))) from err


def _explain(model: type[Strict], file: YamlFile, error: Any) -> str:
    loc: Where = tuple(error["loc"])
    if error["type"] == "extra_forbidden":
        fields = _fields_at(model, loc[:-1])
        what = f"'{loc[-1]}' is not a key here{nearest(str(loc[-1]), fields)}"
        return file.error(loc, what).message
    if error["type"] == "missing":
        return file.error(loc[:-1], f"'{loc[-1]}' is missing").message
    message = error["msg"].removeprefix("Value error, ")
    shown = error.get("input")
    if isinstance(shown, str | int | float | bool) and str(shown) not in message:
        message = f"{shown!r}: {message}"
    return file.error(_present(file, loc), message).message


def _present(file: YamlFile, loc: Where) -> Where:
    """Cut from `loc` what stands in no file: names of union members, model names."""
    kept: list[str | int] = []
    for part in loc:
        if (*kept, part) in file.lines:
            kept.append(part)
    return tuple(kept)


def _fields_at(model: type[Strict], loc: Where) -> tuple[str, ...]:
    """Return the keys that are valid at `loc` below `model`."""
    current: Any = model
    for part in loc:
        for kind in _models(current):
            if isinstance(part, str) and part in kind.model_fields:
                current = kind.model_fields[part].annotation
                break
    return tuple(name for kind in _models(current) for name in kind.model_fields)


def _models(annotation: Any) -> Iterator[type[pydantic.BaseModel]]:
    """Yield the models inside an annotation: ``list[X]``, ``dict[str, X]``, ``X | None``."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        if issubclass(annotation, pydantic.BaseModel):
            yield annotation
        return
    for argument in typing.get_args(annotation):
        yield from _models(argument)


def load_gate(path: Path, *, name: str | None = None) -> Loaded[Gate]:
    """Load one gate file; raises SpecError."""
    return gate_of(yamlfile.read(path, name=name))


def gate_of(file: YamlFile) -> Loaded[Gate]:
    """Check one gate file; raises SpecError."""
    return Loaded(validate(Gate, file), (file,))


def load_gates(folder: Path, *, name: str = "gates") -> dict[str, Loaded[Gate]]:
    """Load every ``g*.yaml`` of `folder`, by gate id; raises SpecError, also for a double id."""
    found: dict[str, Loaded[Gate]] = {}
    for path in sorted(folder.glob("g*.yaml")):
        loaded = load_gate(path, name=f"{name}/{path.name}")
        if loaded.value.gate in found:
            other = found[loaded.value.gate].files[0].name
            raise SpecError(f"{name}/{path.name}: gate {loaded.value.gate} stands in {other} too")
        found[loaded.value.gate] = loaded
    if not found:
        raise SpecError(f"{folder}: holds no gate files (g*.yaml)")
    return found


def load_plan(path: Path, *, root: Path, name: str | None = None) -> Loaded[Plan]:
    """Load a plan; a ``base`` (a path below `root`) is read first and narrowed by this one.

    The plan on top may replace any key of its base and adds to its ``scope_out``. Raises SpecError.
    """
    file = yamlfile.read(path, name=name)
    base = file.value.get("base") if isinstance(file.value, dict) else None
    if base is None:
        return Loaded(validate(Plan, file), (file,))
    base_path = root / str(base)
    if not base_path.resolve().is_relative_to(root.resolve()) or not base_path.is_file():
        raise file.error(("base",), f"'{base}' is no plan of this workspace")
    below = yamlfile.read(base_path, name=str(base))
    if isinstance(below.value, dict) and "base" in below.value:
        raise file.error(
            ("base",),
            f"'{base}' has a base itself, and one plan stands on one other at most",
            hint=f"name '{below.value['base']}' as base and copy what '{base}' adds to it",
        )
    return plan_of(file, below)


def plan_of(file: YamlFile, base: YamlFile | None) -> Loaded[Plan]:
    """Check a plan on top of its base (None: it has none); raises SpecError."""
    if base is None:
        return Loaded(validate(Plan, file), (file,))
    below = validate(Plan, base).model_dump()
    own = {key: value for key, value in file.value.items() if key != "base"}
    unknown = sorted(set(own) - set(Plan.model_fields))
    if unknown:
        raise file.error(
            (unknown[0],),
            f"'{unknown[0]}' is not a key here{nearest(unknown[0], Plan.model_fields)}",
        )
    merged = {**base.value, **own}
    merged["scope_out"] = [*base.value.get("scope_out", ()), *own.get("scope_out", ())]
    offset = len(below["scope_out"])
    lines = {**base.lines, **{_shift(where, offset): line for where, line in file.lines.items()}}
    both = YamlFile(file.name, file.content, merged, lines)
    return Loaded(validate(Plan, both), (file, base))


def _shift(where: Where, offset: int) -> Where:
    if len(where) > 1 and where[0] == "scope_out" and isinstance(where[1], int):
        return ("scope_out", where[1] + offset, *where[2:])
    return where


def load_inventory(path: Path, *, name: str | None = None) -> Loaded[Inventory]:
    """Load an inventory and refuse what only shows across hosts; raises SpecError."""
    return inventory_of(yamlfile.read(path, name=name))


def inventory_of(file: YamlFile) -> Loaded[Inventory]:
    """Check one inventory; raises SpecError for doubles, unknown and circular jump hosts too."""
    inventory = validate(Inventory, file)
    seen: dict[tuple[str, str], tuple[str, Where]] = {}
    for host, where, key in _identities(inventory):
        if key in seen:
            raise file.error(
                where,
                f"{key[0]} '{key[1]}' is also that of {seen[key][0]}, "
                f"line {file.line(seen[key][1])}",
            )
        seen[key] = (host, where)
    known = [host.name for host in inventory.with_role("all")]
    for name, host_spec in inventory.hosts.items():
        if host_spec.jump:
            _check_jumps(file, inventory, name)
        if host_spec.of is not None and host_spec.of not in known:
            raise file.error(
                ("hosts", name, "of"),
                f"'{host_spec.of}' is no computer here{nearest(host_spec.of, known)}",
            )
        for index, link in enumerate(host_spec.declared.fabric):
            if link.to not in known:
                raise file.error(
                    ("hosts", name, "declared", "fabric", index, "to"),
                    f"'{link.to}' is no computer here{nearest(link.to, known)}",
                )
        if host_spec.baseline and not inventory.baseline:
            raise file.error(
                ("hosts", name, "baseline"),
                "this inventory names no baseline file",
                hint="add 'baseline: baseline.yaml' at its top",
            )
    return Loaded(inventory, (file,))


def _identities(inventory: Inventory) -> Iterator[tuple[str, Where, tuple[str, str]]]:
    """Yield (host, where, (kind, value)) for everything that must be unique."""
    for name, host in inventory.hosts.items():
        at: Where = ("hosts", name)
        if host.address and host.transport != "recorded":
            yield (
                name,
                (*at, "address"),
                (
                    "address",
                    f"{host.address}:{host.port}" + (f" by {host.jump}" if host.jump else ""),
                ),
            )
        for i, disk in enumerate(host.declared.disks):
            place: Where = (*at, "declared", "disks", i)
            if disk.serial:
                yield name, place, ("serial", disk.serial)
            elif disk.wwn:
                yield name, place, ("wwn", disk.wwn)
            else:
                yield name, place, ("disk name", f"{name}/{disk.name}")
        for i, nic in enumerate(host.declared.nics):
            yield name, (*at, "declared", "nics", i), ("nic", f"{name}/{nic.name}")
        for i, port in enumerate(host.declared.ports):
            yield name, (*at, "declared", "ports", i), ("port", f"{name}/{port.name}")
        for i, link in enumerate(host.declared.pcie):
            yield name, (*at, "declared", "pcie", i), ("pcie address", f"{name}/{link.address}")


def _check_jumps(file: YamlFile, inventory: Inventory, name: str) -> None:
    way = [name]
    while (jump := inventory.hosts[way[-1]].jump) is not None:
        where = ("hosts", way[-1], "jump")
        if jump not in inventory.hosts:
            raise file.error(where, f"'{jump}' is not a host here{nearest(jump, inventory.hosts)}")
        if jump in way:
            raise file.error(where, f"jump hosts go in a circle: {' > '.join([*way, jump])}")
        way.append(jump)


def load_baseline(
    path: Path, inventory: Loaded[Inventory], *, name: str | None = None
) -> Loaded[Baseline]:
    """Load the baseline file that `inventory` cites; raises SpecError for an unknown name too."""
    return baseline_of(yamlfile.read(path, name=name), inventory)


def baseline_of(file: YamlFile, inventory: Loaded[Inventory]) -> Loaded[Baseline]:
    """Check a baseline file against the inventory that cites it; raises SpecError."""
    baseline = validate(Baseline, file)
    for host, spec in inventory.value.hosts.items():
        if spec.baseline and spec.baseline not in baseline.baselines:
            raise inventory.files[0].error(
                ("hosts", host, "baseline"),
                f"'{spec.baseline}' is not in {file.name}"
                f"{nearest(spec.baseline, baseline.baselines)}",
            )
    return Loaded(baseline, (file,))
