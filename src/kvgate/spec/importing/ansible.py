"""Ansible's model: hosts in groups in groups, and which of their variables wins.

As in Ansible's documentation, "How variables are merged": those of outer groups lose against
those of inner ones, among groups of one depth the alphabetically last wins, a host's own win over
all. Only what leads to a host is taken over; templates are not evaluated.
"""

from __future__ import annotations

import re

from kvgate.spec.importing.entry import Entry, Source, Told
from kvgate.spec.importing.ranges import expand
from kvgate.spec.load import nearest

ALL = "all"
UNGROUPED = "ungrouped"

_TAKEN = {
    "ansible_host": "address",
    "ansible_ssh_host": "address",
    "ansible_port": "port",
    "ansible_ssh_port": "port",
    "ansible_user": "user",
    "ansible_ssh_user": "user",
    "ansible_ssh_private_key_file": "key_file",
    "ansible_private_key_file": "key_file",
}
_SSH_ARGUMENTS = ("ansible_ssh_common_args", "ansible_ssh_extra_args", "ansible_ssh_args")
_JUMP = re.compile(r"(?:-J\s*|-o\s*['\"]?ProxyJump[=\s]\s*)([^\s'\",]+)['\"]?")
_SSH = ("ssh", "smart", "paramiko", "paramiko_ssh", "ansible.builtin.ssh")
_NAME_AND_PORT = re.compile(r"([^:]+):(\d{1,5})", re.ASCII)


class Groups:
    """A whole inventory while it is read; the readers fill it line by line."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._lines: dict[str, int] = {ALL: 1}  # group → where it is first named as such
        self._hosts: dict[str, dict[str, None]] = {}  # group → its own hosts, in order
        self._children: dict[str, dict[str, int]] = {}
        self._group_vars: dict[str, dict[str, Told]] = {}
        self._host_vars: dict[str, dict[str, Told]] = {}
        self._host_lines: dict[str, int] = {}

    def group(self, name: str, line: int) -> None:
        """Note that `name` is a group."""
        self._lines.setdefault(name, line)

    def child(self, group: str, name: str, line: int) -> None:
        """Note that group `name` lies in `group`."""
        self._children.setdefault(group, {}).setdefault(name, line)

    def hosts(self, group: str, pattern: str, line: int) -> tuple[str, ...]:
        """Note the hosts that `pattern` stands for as `group`'s own; return their names."""
        try:
            expanded = expand(pattern)
        except ValueError as err:
            raise self.source.error(line, str(err)) from err
        names = []
        for each in expanded:
            match = _NAME_AND_PORT.fullmatch(each)
            name = match[1] if match else each
            names.append(name)
            self._host_lines.setdefault(name, line)
            self._hosts.setdefault(group, {})[name] = None
            if match:
                self.host_var(name, "ansible_port", match[2], line)
        return tuple(names)

    def host_var(self, host: str, key: str, value: object, line: int) -> None:
        """Note a host's own variable; SpecError where another place says something else."""
        told = self._told(key, value, line)
        before = self._host_vars.setdefault(host, {}).setdefault(key, told)
        if before.value != told.value:
            raise self.source.error(
                line, f"{host}: '{key}' is something else than in line {before.line}"
            )

    def group_var(self, group: str, key: str, value: object, line: int) -> None:
        """Note a variable of a group."""
        self._group_vars.setdefault(group, {})[key] = self._told(key, value, line)

    def _told(self, key: str, value: object, line: int) -> Told:
        if key.startswith("ansible_"):
            self.source.refuse_secret(line, key, value)
        return Told("" if value is None else str(value), line)

    def entries(self) -> tuple[Entry, ...]:
        """Return every host with its groups (outer ones first) and what leads to it."""
        self._refuse_unknown()
        depths = self._depths()
        within: dict[str, set[str]] = {name: {ALL} for name in self._host_lines}
        for group in self._lines.keys() | self._hosts.keys():
            for host in self._below(group):
                within[host].add(group)
        found = []
        for host, line in self._host_lines.items():
            groups = sorted(within[host], key=lambda name: (depths.get(name, 1), name))
            variables: dict[str, Told] = {}
            for group in groups:
                variables |= self._group_vars.get(group, {})
            variables |= self._host_vars.get(host, {})
            found.append(self._entry(host, line, tuple(groups), variables))
        return tuple(found)

    def _refuse_unknown(self) -> None:
        for children in self._children.values():
            for name, line in children.items():
                if name not in self._lines:
                    raise self.source.error(
                        line, f"'{name}' is no group here{nearest(name, self._lines)}"
                    )

    def _below(self, group: str) -> set[str]:
        """Return the hosts in `group` and in the groups in it."""
        found: set[str] = set()
        waiting, seen = [group], {group}
        while waiting:
            name = waiting.pop()
            found |= self._hosts.get(name, {}).keys()
            inner = self._children.get(name, {}).keys() - seen
            seen |= inner
            waiting += inner
        return found

    def _depths(self) -> dict[str, int]:
        """Return how deep each group lies below `all`; raises SpecError for a circle."""
        depths = {ALL: 0} | {name: 1 for name in self._lines if name != ALL}
        for _ in range(len(depths) + 1):
            deeper = {
                name: depths[group] + 1
                for group, children in self._children.items()
                for name in children
                if depths[name] <= depths[group]
            }
            if not deeper:
                return depths
            depths |= deeper
        group = min(deeper)
        raise self.source.error(self._lines[group], f"group '{group}' lies in itself")

    def _entry(
        self, host: str, line: int, groups: tuple[str, ...], variables: dict[str, Told]
    ) -> Entry:
        settings: dict[str, Told] = {}
        for key, told in variables.items():
            if key in _TAKEN and told.value:
                self._refuse_template(host, key, told)
                settings.setdefault(_TAKEN[key], told)
            elif key in _SSH_ARGUMENTS and (jump := _JUMP.search(told.value)):
                settings["jump"] = Told(jump[1], told.line)
            elif key == "ansible_connection":
                settings |= self._connection(host, told)
        understood = (*_TAKEN, "ansible_connection")
        left = tuple(
            key
            for key, told in variables.items()
            if key not in understood
            and not (key in _SSH_ARGUMENTS and _JUMP.fullmatch(told.value.strip()))
        )
        if settings.get("transport") is None:
            settings.setdefault("address", Told(host, line))
        return Entry(host, line, groups, settings, left)

    def _refuse_template(self, host: str, key: str, told: Told) -> None:
        if "{{" in told.value or "{%" in told.value:
            raise self.source.error(
                told.line,
                f"{host}: '{key}' is a template, which only Ansible can evaluate",
                hint="let it: `ansible-inventory --list --yaml --output FILE`, then import FILE",
            )

    def _connection(self, host: str, told: Told) -> dict[str, Told]:
        if told.value == "local":
            return {"transport": told}
        if told.value in _SSH:
            return {}
        raise self.source.error(
            told.line,
            f"{host}: ansible_connection '{told.value}' is neither ssh nor local: kvgate has no "
            "other way to a host",
        )
