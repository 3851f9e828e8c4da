"""The key exchange of a brief link: curve25519, SHA-256 and AES-GCM, or none.

RFC 4253 (7), RFC 8731 (curve25519-sha256), RFC 5647 (AES-GCM). Whatever else a host wants is left
to paramiko (`NoCommonGroundError`). Where the host knows OpenSSH's "strict KEX" (CVE-2023-48795),
nothing but the exchange's own packets is taken during the first one.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
from collections.abc import Callable, Sequence

import paramiko
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from kvgate.transport.fields import Reader, mpint, names, string
from kvgate.transport.wire import VERSION, Seal, Wire

KEXINIT = 20
NEWKEYS = 21
_ECDH_INIT = 30
_ECDH_REPLY = 31
_DISCONNECT = 1
_KEX = ("curve25519-sha256", "curve25519-sha256@libssh.org")
_STRICT = "kex-strict-c-v00@openssh.com"
_STRICT_HOST = "kex-strict-s-v00@openssh.com"
_SAYS_NOTHING = (2, 3, 4)  # IGNORE, UNIMPLEMENTED, DEBUG
_KEY_BYTES = {"aes128-gcm@openssh.com": 16, "aes256-gcm@openssh.com": 32}
_HOST_KEYS = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
)
_MACS = ("hmac-sha2-256",)  # AES-GCM needs none, yet something must stand there

Check = Callable[[paramiko.PKey], None]
"""Raises where the key that a host has proven to hold is not the one we know of it."""


class NoCommonGroundError(Exception):
    """The host wants other algorithms than a brief link has."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Agreed:
    """What both sides want."""

    host_key: str
    shut: str
    opened: str
    guessed_wrong: bool
    strict: bool


def offer(first: Sequence[str]) -> bytes:
    """Return our KEXINIT, the host-key types in `first` before all others."""
    return bytes((KEXINIT,)) + os.urandom(16) + _offered(tuple(first))


@functools.lru_cache(maxsize=64)
def _offered(first: tuple[str, ...]) -> bytes:
    ciphers = names(tuple(_KEY_BYTES))
    none = names(("none",))
    nothing = names(())
    return b"".join(
        (
            names((*_KEX, _STRICT)),
            names(_host_keys(first)),
            *(ciphers, ciphers),
            *(names(_MACS), names(_MACS)),
            *(none, none),
            *(nothing, nothing),
            bytes(5),  # no guess follows; reserved
        )
    )


def _host_keys(first: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(_HOST_KEYS, key=lambda kind: kind not in first))


class Exchange:
    """What stays the same over the key exchanges of one connection."""

    def __init__(self, wire: Wire, first: Sequence[str], check: Check) -> None:
        self._wire = wire
        self._first = tuple(first)
        self._check = check
        self._versions = b""
        self._strict = False
        self.session = b""
        """The session's identifier: what the first exchange hashed to."""

    def begin(self, until: float) -> None:
        """Greet and agree on the first keys; the last packet of ours is put, not flushed.

        Raises NoCommonGroundError, what `Wire` raises, and what the check of the key raises.
        """
        ours = offer(self._first)
        self._wire.put(ours)
        version = self._wire.greet(until)
        self._versions = string(VERSION) + string(version)
        self._agree(ours, self._expect(KEXINIT, until), until)

    def again(self, theirs: bytes, until: float) -> None:
        """Agree on new keys, as the host's KEXINIT `theirs` asks for."""
        ours = offer(self._first)
        self._wire.put(ours)
        self._agree(ours, theirs, until)
        self._wire.flush(until)

    def _agree(self, ours: bytes, theirs: bytes, until: float) -> None:
        agreed = _common(theirs, self._first)
        self._strict = agreed.strict and not self.session
        private = X25519PrivateKey.generate()
        public = private.public_key().public_bytes_raw()
        self._wire.put(bytes((_ECDH_INIT,)) + string(public))
        self._wire.flush(until)
        if agreed.guessed_wrong:
            self._wire.packet(until)
        reply = Reader(self._expect(_ECDH_REPLY, until)[1:])
        key, point, signature = reply.string(), reply.string(), reply.string()
        secret = mpint(private.exchange(X25519PublicKey.from_public_bytes(point)))
        said = (self._versions, string(ours), string(theirs), string(key), string(public))
        digest = hashlib.sha256(b"".join((*said, string(point), secret))).digest()
        self._prove(agreed.host_key, key, digest, signature)
        self.session = self.session or digest
        self._wire.put(bytes((NEWKEYS,)))
        self._wire.seal(self._seal(secret + digest, b"C", b"A", agreed.shut))
        self._expect(NEWKEYS, until)
        self._wire.unseal(self._seal(secret + digest, b"D", b"B", agreed.opened))

    def _prove(self, kind: str, blob: bytes, digest: bytes, signature: bytes) -> None:
        """Raise unless the host holds the key it shows, and the key is the one we know."""
        named = Reader(blob).text()
        wanted = "ssh-rsa" if kind.startswith("rsa-") else kind
        if named != wanted or Reader(signature).text() != kind:
            raise paramiko.SSHException(f"it agreed to show a key {wanted} and shows another")
        key = paramiko.PKey.from_type_string(named, blob)
        if not key.verify_ssh_sig(digest, paramiko.Message(signature)):
            raise paramiko.SSHException("it does not hold the host key that it shows")
        self._check(key)

    def _seal(self, hashed: bytes, key: bytes, nonce: bytes, cipher: str) -> Seal:
        """Return a seal of the key and the nonce that are named by letters (RFC 4253, 7.2)."""
        made = (hashlib.sha256(hashed + letter + self.session).digest() for letter in (key, nonce))
        whole_key, whole_nonce = made
        return Seal(whole_key[: _KEY_BYTES[cipher]], whole_nonce[:12])

    def _expect(self, kind: int, until: float) -> bytes:
        packet = self._wire.packet(until)
        while packet[0] in _SAYS_NOTHING and not self._strict:
            packet = self._wire.packet(until)
        if packet[0] == _DISCONNECT:
            raise goodbye(packet)
        if packet[0] != kind:
            raise paramiko.SSHException(f"it sends message {packet[0]} in place of {kind}")
        return packet


def goodbye(packet: bytes) -> paramiko.SSHException:
    """Return what the host says in a DISCONNECT as an error."""
    fields = Reader(packet[1:])
    fields.uint32()
    return paramiko.SSHException(f"it ended the connection: {fields.text()}")


def _common(theirs: bytes, first: Sequence[str]) -> _Agreed:
    """Return what the host's KEXINIT and ours have in common; raises NoCommonGroundError."""
    fields = Reader(theirs[1:])
    fields.take(16)
    kex, host_keys, shut, opened, _, _, zip_out, zip_in, _, _ = (fields.names() for _ in range(10))
    follows = bool(fields.byte())
    host_key = _first_common(_host_keys(first), host_keys)
    chosen = _first_common(_KEX, kex)
    _first_common(("none",), zip_out)
    _first_common(("none",), zip_in)
    ciphers = tuple(_KEY_BYTES)
    return _Agreed(
        host_key=host_key,
        shut=_first_common(ciphers, shut),
        opened=_first_common(ciphers, opened),
        strict=_STRICT_HOST in kex,
        guessed_wrong=follows and (kex[0] != chosen or host_keys[0] != host_key),
    )


def _first_common(ours: Sequence[str], theirs: Sequence[str]) -> str:
    for name in ours:
        if name in theirs:
            return name
    raise NoCommonGroundError(f"none of {', '.join(ours)} is among {', '.join(theirs)}")
