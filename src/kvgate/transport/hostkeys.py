"""known_hosts: which keys a host may show, by the rules of sshd(8) "SSH_KNOWN_HOSTS FILE FORMAT".

Plain, wildcard, negated and hashed names, several keys a host, and ``@revoked``;
``@cert-authority`` lines are passed over, as certificates are not taken here.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import dataclasses
import hashlib
import hmac
import os
import re
import threading
from collections.abc import Sequence
from pathlib import Path


@dataclasses.dataclass(frozen=True, slots=True)
class KnownKey:
    """A key that known_hosts holds for a host: its type, its bytes, and whether it is revoked."""

    keytype: str
    blob: bytes
    revoked: bool = False


def host_name(address: str, port: int) -> str:
    """Return the name a host stands under: the address, or ``[address]:port`` off port 22."""
    return address if port == 22 else f"[{address}]:{port}"


def fingerprint(blob: bytes) -> str:
    """Return the key's fingerprint as OpenSSH prints it (``SHA256:…``, unpadded base64)."""
    digest = hashlib.sha256(blob).digest()
    return "SHA256:" + base64.b64encode(digest).decode("ascii").rstrip("=")


def entry(name: str, keytype: str, blob: bytes) -> str:
    """Return the line that makes the key known."""
    return f"{name} {keytype} {base64.b64encode(blob).decode('ascii')}"


class KnownHosts:
    """The keys of a known_hosts file, ready to be asked for many hosts.

    Lines that can't be read are passed over, as ssh does: they make no key known.
    """

    def __init__(self, text: str) -> None:
        self._keys: list[KnownKey] = []
        self._plain: dict[str, list[int]] = {}  # name in lower case → lines that name just it
        self._others: list[tuple[int, tuple[_Pattern, ...]]] = []
        for line in text.splitlines():
            self._read(line)

    def _read(self, line: str) -> None:
        words = line.split()
        if not words or words[0].startswith("#"):
            return
        marker = words.pop(0) if words[0].startswith("@") else ""
        if len(words) < 3 or marker not in ("", "@revoked"):
            return
        try:
            blob = base64.b64decode(words[2], validate=True)
        except (binascii.Error, ValueError):
            return
        number = len(self._keys)
        self._keys.append(KnownKey(words[1], blob, revoked=bool(marker)))
        names = words[0].split(",")
        if any(_SPECIAL.intersection(name) for name in names):
            self._others.append((number, tuple(_Pattern(name) for name in names)))
            return
        for name in dict.fromkeys(name.lower() for name in names):
            self._plain.setdefault(name, []).append(number)

    def of(self, name: str) -> tuple[KnownKey, ...]:
        """Return the keys that `name` may show (see `host_name`), in the order of the lines."""
        found = list(self._plain.get(name.lower(), ()))
        found += [number for number, patterns in self._others if _covered(patterns, name)]
        return tuple(self._keys[number] for number in sorted(found))


_read: dict[str, tuple[tuple[int, ...], KnownHosts]] = {}
_reading = threading.Lock()


def known_hosts(path: str) -> KnownHosts:
    """Return what the file at `path` holds, read again when it has changed; raises OSError."""
    with _reading:
        found = os.stat(path)  # noqa: PTH116  a Path costs ten times as much, and hosts are many
        state = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        if path not in _read or _read[path][0] != state:
            _read[path] = state, KnownHosts(Path(path).read_text("utf-8", "replace"))
        return _read[path][1]


def _covered(patterns: Sequence[_Pattern], name: str) -> bool:
    """Tell whether a line's first field covers `name`: one matches, and none that is negated."""
    covered = False
    for pattern in patterns:
        if pattern.matches(name):
            if pattern.negated:
                return False
            covered = True
    return covered


_SPECIAL = frozenset("*?!|")


class _Pattern:
    """One name of a line's first field: plain, with wildcards, hashed, or negated."""

    def __init__(self, pattern: str) -> None:
        self.negated = pattern.startswith("!")
        text = pattern[1:] if self.negated else pattern
        self._salt = self._hash = b""
        self._expression = None
        if not text.startswith("|1|"):
            whole = re.escape(text.lower()).replace(r"\*", ".*").replace(r"\?", ".")
            self._expression = re.compile(whole)
            return
        with contextlib.suppress(binascii.Error, ValueError):  # |1|salt|hash
            self._salt, self._hash = (
                base64.b64decode(part, validate=True) for part in text[3:].split("|")
            )

    def matches(self, name: str) -> bool:
        """Tell whether `name` is meant; a hash is HMAC-SHA1(salt, name)."""
        if self._expression is not None:
            return self._expression.fullmatch(name.lower()) is not None
        if not self._hash:
            return False
        return hmac.compare_digest(hmac.digest(self._salt, name.encode(), "sha1"), self._hash)
