"""Makes an inventory from what a site has already: an Ansible inventory, or a table of hosts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvgate.errors import UsageError
from kvgate.spec.importing import ansible_ini, ansible_yaml, table
from kvgate.spec.importing.entry import Entry, Source
from kvgate.spec.importing.write import Imported, roles_of, write

__all__ = ["FORMS", "Imported", "import_inventory"]

FORMS: dict[str, Callable[[Source], tuple[Entry, ...]]] = {
    "ansible-yaml": ansible_yaml.read,
    "ansible-ini": ansible_ini.read,
    "csv": table.read,
}
"""Form → its reader."""


def import_inventory(
    content: bytes, source: str, *, form: str, roles: Sequence[str], name: str
) -> Imported:
    """Return the inventory that `content` (of the file that errors call `source`) describes.

    `roles` are texts ``GROUP=ROLE``; without any, groups named like a role have it. Hosts without
    a role are left out, and a remark says so. Raises SpecError with file and line for everything
    that is not understood, for secrets, and for what `kvgate check` would refuse; UsageError for
    a wrong `form`, `roles` or `name`.
    """
    if form not in FORMS:
        raise UsageError(f"'{form}' is no format to import", hint=f"one of: {', '.join(FORMS)}")
    read = Source(source, content)
    return write(read, FORMS[form](read), roles_of(roles), name)
