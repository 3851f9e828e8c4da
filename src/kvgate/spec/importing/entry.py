"""What the readers of other tools' inventories have in common: hosts with settings and lines."""

from __future__ import annotations

import dataclasses
import re

from kvgate.errors import SpecError

_SECRET_NAME = re.compile(r"pass(?:word|wd|phrase)?$|secret|token|private_key$", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"\$ANSIBLE_VAULT|-----BEGIN [A-Z ]*PRIVATE KEY")


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """The file that is imported: what errors call it, and its bytes."""

    name: str
    content: bytes

    def error(self, line: int, what: str, *, hint: str = "") -> SpecError:
        """Return the error for a line of the file."""
        return SpecError(f"{self.name}:{line}: {what}", hint=hint)

    def text(self) -> str:
        """Return the content as text; raises SpecError unless it is UTF-8."""
        try:
            return self.content.decode("utf-8-sig")
        except UnicodeDecodeError as err:
            line = self.content[: err.start].count(b"\n") + 1
            raise self.error(line, "is not UTF-8", hint="save it as UTF-8") from err

    def refuse_secret(self, line: int, key: str, value: object) -> None:
        """Raise SpecError where a setting is a secret; its value is never repeated."""
        if _SECRET_NAME.search(key) or (isinstance(value, str) and _SECRET_VALUE.search(value)):
            raise self.error(
                line,
                f"'{key}' is a secret, and secrets never come into an inventory",
                hint="take it out of (a copy of) the file; kvgate logs in by key or agent: name "
                "the key's file here, and give its passphrase as "
                "`key_passphrase: {env: VARIABLE}` in the inventory that is made",
            )


@dataclasses.dataclass(frozen=True, slots=True)
class Told:
    """One value and the line it stands on."""

    value: str
    line: int


@dataclasses.dataclass(slots=True)
class Entry:
    """One host: its name, where it stands, the groups it is in, and what is set for it.

    `settings` has keys of kvgate's inventory (``address``, ``port``, ``user``, ``key_file`` …);
    `left` names what was set and not taken over.
    """

    name: str
    line: int
    groups: tuple[str, ...]
    settings: dict[str, Told]
    left: tuple[str, ...] = ()
