"""Reads Ansible's INI inventories: [group], [group:vars] and [group:children]."""

from __future__ import annotations

import re
import shlex

from kvgate.spec.importing.ansible import UNGROUPED, Groups
from kvgate.spec.importing.entry import Entry, Source

_SECTION = re.compile(r"\[([^\[\]:\s]+)(?::([a-z]+))?\]\s*(?:[#;].*)?")
_KINDS = ("hosts", "vars", "children")


def read(source: Source) -> tuple[Entry, ...]:
    """Return the hosts of an INI inventory; raises SpecError with file and line."""
    groups = Groups(source)
    group, kind = UNGROUPED, "hosts"
    groups.group(group, 1)
    for line, text in enumerate(source.text().splitlines(), 1):
        stripped = text.strip()
        if not stripped or stripped[0] in "#;":
            continue
        if match := _SECTION.fullmatch(stripped):
            group, kind = match[1], match[2] or "hosts"
            if kind not in _KINDS:
                raise source.error(line, f"[{group}:{kind}]: a section is of {', '.join(_KINDS)}")
            groups.group(group, line)
        elif kind == "hosts":
            _host(source, groups, group, stripped, line)
        elif kind == "vars":
            _variable(source, groups, group, stripped, line)
        else:
            groups.child(group, _word(source, stripped, line), line)
    return groups.entries()


def _words(source: Source, text: str, line: int) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError as err:
        raise source.error(line, f"its quotes are not in pairs: {err}") from err


def _word(source: Source, text: str, line: int) -> str:
    words = _words(source, text, line)
    if len(words) != 1:
        raise source.error(line, "one group's name stands in a line of [group:children]")
    return words[0]


def _host(source: Source, groups: Groups, group: str, text: str, line: int) -> None:
    """Note ``name key=value key='other value'``."""
    pattern, *rest = _words(source, text, line)
    if "=" in pattern:
        raise source.error(line, f"'{pattern}': a line begins with a host's name")
    for host in groups.hosts(group, pattern, line):
        for word in rest:
            key, equals, value = word.partition("=")
            if not equals or not key:
                raise source.error(line, f"'{key}' is not key=value")
            groups.host_var(host, key, value, line)


def _variable(source: Source, groups: Groups, group: str, text: str, line: int) -> None:
    """Note ``key = value``; quotes around the whole value are taken off."""
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not key:
        raise source.error(line, f"'{key}' is not key=value")
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        value = value[1:-1]
    groups.group_var(group, key, value, line)
