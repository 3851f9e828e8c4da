"""known_hosts: which keys a host may show, by the rules of sshd(8) "SSH_KNOWN_HOSTS FILE FORMAT".

Plain, wildcard, negated and hashed names, several keys a host, and ``@revoked``;
``@cert-authority`` lines are passed over, as certificates are not taken here.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import hmac
import re


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


def known_keys(text: str, name: str) -> tuple[KnownKey, ...]:
    """Return the keys that the known_hosts `text` holds for `name` (see `host_name`).

    Lines that can't be read are passed over, as ssh does: they make no key known.
    """
    found = []
    for line in text.splitlines():
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        marker = words.pop(0) if words[0].startswith("@") else ""
        if len(words) < 3 or marker not in ("", "@revoked") or not matches(words[0], name):
            continue
        try:
            blob = base64.b64decode(words[2], validate=True)
        except (binascii.Error, ValueError):
            continue
        found.append(KnownKey(words[1], blob, revoked=bool(marker)))
    return tuple(found)


def matches(patterns: str, name: str) -> bool:
    """Tell whether a line's first field covers `name`: one matches, and none that is negated."""
    covered = False
    for pattern in patterns.split(","):
        if pattern.startswith("!"):
            if _match(pattern[1:], name):
                return False
        elif _match(pattern, name):
            covered = True
    return covered


def _match(pattern: str, name: str) -> bool:
    if pattern.startswith("|1|"):
        return _match_hashed(pattern, name)
    expression = re.escape(pattern.lower()).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(expression, name.lower()) is not None


def _match_hashed(pattern: str, name: str) -> bool:
    """Compare ``|1|salt|hash`` with HMAC-SHA1(salt, name), both in base64."""
    try:
        salt, wanted = (base64.b64decode(part, validate=True) for part in pattern[3:].split("|"))
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode(), hashlib.sha1).digest(), wanted)
