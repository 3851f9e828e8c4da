"""Writes imported hosts as an inventory of ours, checked as `kvgate check` would."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import yaml

from kvgate.errors import SpecError, UsageError
from kvgate.spec import yamlfile
from kvgate.spec.importing.entry import Entry, Source
from kvgate.spec.inventory import COMPUTERS
from kvgate.spec.load import inventory_of, nearest

_SLUG = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)
_NAMED = 5


@dataclasses.dataclass(frozen=True, slots=True)
class Imported:
    """The inventory's text, how many hosts it has, and what its reader should know."""

    text: str
    hosts: int
    remarks: tuple[str, ...]


def roles_of(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return group → roles from texts ``GROUP=ROLE``; raises UsageError."""
    known = [role.value for role in COMPUTERS]
    found: dict[str, tuple[str, ...]] = {}
    for text in texts:
        group, equals, role = text.partition("=")
        if not equals or not group or role not in known:
            raise UsageError(
                f"'{text}' is not GROUP=ROLE", hint=f"a role is one of: {', '.join(known)}"
            )
        found[group] = tuple(dict.fromkeys((*found.get(group, ()), role)))
    return found


def write(
    source: Source, entries: Sequence[Entry], roles: Mapping[str, tuple[str, ...]], name: str
) -> Imported:
    """Return the inventory of `entries`; raises SpecError, UsageError (see the package)."""
    if not _SLUG.fullmatch(name):
        raise UsageError(
            f"'{name}' can't name an inventory",
            hint="--name NAME: small letters, digits, '.', '_' and '-', 64 at most",
        )
    groups = {group for entry in entries for group in entry.groups}
    if missing := sorted(roles.keys() - groups):
        raise UsageError(f"{source.name}: has no group '{missing[0]}'{nearest(missing[0], groups)}")
    mapped = roles or {role.value: (role.value,) for role in COMPUTERS}
    taken = {entry.name: found for entry in entries if (found := _roles(entry, mapped))}
    if not taken:
        raise SpecError(
            f"{source.name}: no host has a role",
            hint="say which group is what, e.g. --role GROUP=serving; "
            f"groups: {', '.join(sorted(groups)) or 'none'}",
        )
    names = _names(source, [entry for entry in entries if entry.name in taken])
    hosts = {
        names[entry.name]: _host(source, entry, taken[entry.name], names)
        for entry in entries
        if entry.name in taken
    }
    text = _text(source, name, hosts)
    inventory_of(yamlfile.parse(text.encode(), f"{source.name} as imported"))
    return Imported(text, len(hosts), tuple(_remarks(entries, taken, names, hosts)))


def _roles(entry: Entry, mapped: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    given = {role for group in entry.groups for role in mapped.get(group, ())}
    return tuple(role.value for role in COMPUTERS if role.value in given)


def _names(source: Source, entries: Iterable[Entry]) -> dict[str, str]:
    """Return each host's name as kvgate has it: in small letters."""
    found: dict[str, str] = {}
    lines: dict[str, int] = {}
    for entry in entries:
        name = entry.name.lower()
        if not _SLUG.fullmatch(name):
            raise source.error(
                entry.line,
                f"'{entry.name}' can't be a host's name",
                hint="letters, digits, '.', '_' and '-', 64 at most; put the address into "
                "ansible_host (or the column address) and name the host otherwise",
            )
        if name in lines:
            raise source.error(entry.line, f"host '{name}' stands in line {lines[name]} too")
        found[entry.name], lines[name] = name, entry.line
    return found


def _host(
    source: Source, entry: Entry, roles: tuple[str, ...], names: Mapping[str, str]
) -> dict[str, Any]:
    """Return a host's entry as an inventory has it."""
    made: dict[str, Any] = {"roles": list(roles)}
    for key in ("transport", "address", "port", "user"):
        if told := entry.settings.get(key):
            if key == "port" and not told.value.isdecimal():
                raise source.error(told.line, f"{entry.name}: '{told.value}' is no port")
            made[key] = int(told.value) if key == "port" else told.value
    for kind in ("file", "env"):
        if told := entry.settings.get(f"key_{kind}"):
            if "key" in made:
                raise source.error(
                    told.line, f"{entry.name}: has key_file and key_env; one of them"
                )
            made["key"] = {kind: told.value}
    if (told := entry.settings.get("jump")) and told.value in names:
        made["jump"] = names[told.value]
    for key in ("known_hosts", "scratch", "baseline", "sudo"):
        if told := entry.settings.get(key):
            made[key] = told.value
    return made


def _text(source: Source, name: str, hosts: Mapping[str, Mapping[str, Any]]) -> str:
    shown = source.name.rpartition("/")[2]
    lines = [
        f"# Imported from {shown if shown.isprintable() else ascii(shown)}. Add what each host is",
        "# declared to have (see inventory/README.md): only what is declared is judged.",
        f"inventory: {_flow(name)}",
    ]
    if any("baseline" in host for host in hosts.values()):
        lines.append("baseline: baseline.yaml")
    lines.append("hosts:")
    lines += [f"  {_flow(host)}: {_flow(entry)}" for host, entry in hosts.items()]
    return "\n".join(lines) + "\n"


def _flow(value: object) -> str:
    return yaml.safe_dump(
        [value], default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**9
    ).strip()[1:-1]


def _remarks(
    entries: Sequence[Entry],
    taken: Mapping[str, tuple[str, ...]],
    names: Mapping[str, str],
    hosts: Mapping[str, Mapping[str, Any]],
) -> Iterator[str]:
    """Yield what was left out, or has to be done by hand."""
    if out := [entry.name for entry in entries if entry.name not in taken]:
        yield f"no role, left out: {_list(out)}"
    if left := dict.fromkeys(key for entry in entries if entry.name in taken for key in entry.left):
        yield f"not taken over: {_list(list(left))}"
    for entry in entries:
        told = entry.settings.get("jump")
        if entry.name in taken and told and "jump" not in hosts[names[entry.name]]:
            yield (
                f"{entry.name}: its jump host '{told.value}' is not among the hosts taken over: "
                "add it with a role, and 'jump:' to this host"
            )


def _list(parts: Sequence[str]) -> str:
    more = len(parts) - _NAMED
    return ", ".join(parts[:_NAMED]) + (f" and {more} more" if more > 0 else "")
