"""Reads Ansible's YAML inventories: groups with hosts, vars and children."""

from __future__ import annotations

from typing import Any

from kvgate.errors import SpecError
from kvgate.spec import yamlfile
from kvgate.spec.importing.ansible import Groups
from kvgate.spec.importing.entry import Entry, Source
from kvgate.spec.load import nearest
from kvgate.spec.yamlfile import Where, YamlFile

_KEYS = ("hosts", "vars", "children")


def read(source: Source) -> tuple[Entry, ...]:
    """Return the hosts of a YAML inventory; raises SpecError with file and line."""
    try:
        file = yamlfile.parse(source.content, source.name)
    except SpecError as err:
        if "!vault" in err.message:
            raise SpecError(
                err.message.partition(": ")[0] + ": holds a vaulted secret",
                hint="take it out of (a copy of) the file; kvgate reads no secrets",
            ) from err
        raise
    reader = _Reader(file, Groups(source))
    for name, body in reader.mapping((), file.value).items():
        reader.group(name, (name,), body)
    return reader.groups.entries()


class _Reader:
    """Walks the file's value and notes what it says, with lines."""

    def __init__(self, file: YamlFile, groups: Groups) -> None:
        self.file = file
        self.groups = groups

    def mapping(self, where: Where, value: Any) -> dict[str, Any]:
        """Return `value`, which has to be a mapping, or empty (nothing)."""
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.file.error(where, "is not a mapping of names to values")
        return value

    def group(self, name: str, where: Where, body: Any) -> None:
        """Note a group and everything in it."""
        self.groups.group(name, self.file.line(where))
        parts = self.mapping(where, body)
        for key in parts:
            if key not in _KEYS:
                raise self.file.error(
                    (*where, key), f"'{key}' is not a key of a group{nearest(key, _KEYS)}"
                )
        for pattern, settings in self.mapping((*where, "hosts"), parts.get("hosts")).items():
            self._host(name, pattern, (*where, "hosts", pattern), settings)
        for key, value in self.mapping((*where, "vars"), parts.get("vars")).items():
            self.groups.group_var(name, key, value, self.file.line((*where, "vars", key)))
        inner: Where = (*where, "children")
        for child, below in self.mapping(inner, parts.get("children")).items():
            self.groups.child(name, child, self.file.line((*inner, child)))
            self.group(child, (*inner, child), below)

    def _host(self, group: str, pattern: str, where: Where, settings: Any) -> None:
        line = self.file.line(where)
        for host in self.groups.hosts(group, pattern, line):
            for key, value in self.mapping(where, settings).items():
                self.groups.host_var(host, key, value, self.file.line((*where, key)))
