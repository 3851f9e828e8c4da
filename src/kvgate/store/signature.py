"""SSH signatures: made and checked by ssh-keygen, in namespace ``kvgate``.

A signature proves who, not when. Whether a key was good is judged at the time the signer claims.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from kvgate.errors import StoreError

NAMESPACE = "kvgate"
LONGEST_BYTES = 64 * 1024
"""No signature file is longer; hardware tokens and RSA keys stay far below."""


class NoKeygenError(StoreError):
    """ssh-keygen is not installed here: no signature can be made or checked."""


Reason = Literal["good", "not_authorised", "not_yet", "no_longer", "not_of_these_bytes", "no_form"]

_BEGIN, _END = "-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----"
_TIMEOUT_S = 60.0
_PEOPLE_S = 600.0  # to type a passphrase, or to touch a token
_OPTION = re.compile(r'valid-(after|before)="(\d{8}(?:\d{4}(?:\d\d)?)?)(Z?)"')


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What a signature proved: `reason` ``good``, else why not; `text` says it in a sentence."""

    reason: Reason
    text: str
    fingerprint: str = ""  # of the key that made it: "SHA256:…", as `ssh-keygen -l` prints it

    @property
    def good(self) -> bool:
        """Tell whether the bytes were signed by that principal's key, good at the claimed time."""
        return self.reason == "good"


def sign(data: bytes, *, key: Path, namespace: str = NAMESPACE, unattended: bool = False) -> str:
    """Return an SSH signature over `data`, in ASCII armour.

    `key` is a private key file, or a public one whose private half an SSH agent or a hardware
    token holds. ssh-keygen asks for passphrase or touch on the terminal; `unattended` it asks
    nobody, and a key that needs somebody makes no signature. Raises StoreError.
    """
    if not key.is_file():
        raise StoreError(f"{key}: there is no such key file", hint="e.g. ~/.ssh/id_ed25519")
    command = ["ssh-keygen", "-Y", "sign", "-n", namespace, "-f", str(key)]
    seen = sys.stderr is not None and sys.stderr.isatty()  # "touch your token" is for the signer
    if unattended:
        done = _run(command, data, alone=True)
    else:
        done = _run(command, data, timeout_s=_PEOPLE_S, shown=seen)
    armour = done.stdout.decode("ascii", "replace")
    if done.returncode or not armour.startswith(_BEGIN):
        told = (done.stderr or b"").decode("utf-8", "replace").strip().replace("\n", "; ")
        why, hint = _unsigned(told)
        raise StoreError(f"{key}: ssh-keygen made no signature: {why}", hint=hint)
    return armour


def _unsigned(told: str) -> tuple[str, str]:
    """Return why ssh-keygen, which said `told`, made no signature, and what helps."""
    if "incorrect passphrase" in told:
        return (
            "the key has a passphrase, which was not given or is another",
            "on a terminal it is asked for; without one, ssh-add the key and name its .pub",
        )
    if "load public key" in told:
        return (
            "it is no SSH key that ssh-keygen knows, or is encrypted and has no .pub beside it",
            "ssh-keygen -y -f KEY > KEY.pub",
        )
    hint = "a public key file works where its agent runs (ssh-add -l)"
    return told or "it said why above", hint


def check(
    data: bytes,
    signature: str,
    *,
    allowed_signers: bytes,
    principal: str,
    at: datetime.datetime,
    namespace: str = NAMESPACE,
) -> Outcome:
    """Return whether `principal` signed `data` by a key that `allowed_signers` had at `at`.

    1. The signature has the form of one; whose key made it is read from it.
    2. `ssh-keygen -Y verify` decides, with the key's validity at `at`, the claimed time.
    3. Where it refuses: whether the bytes are others, the key not authorised, not yet or no longer.
    Offline. Raises NoKeygenError where ssh-keygen is missing.
    """
    try:
        blob = signing_key(signature)  # 1
    except ValueError as err:
        return Outcome("no_form", f"it is no SSH signature: {err}")
    moment, print_of = _utc(at), fingerprint(blob)
    with tempfile.TemporaryDirectory(prefix="kvgate-signature-") as folder:
        signed, allowed = Path(folder) / "signature", Path(folder) / "allowed_signers"
        signed.write_text(signature, "ascii")
        allowed.write_bytes(allowed_signers)
        common = ["-n", namespace, "-s", str(signed)]
        who = ["-f", str(allowed), "-I", principal, "-O", f"verify-time={moment:%Y%m%d%H%M%S}"]
        done = _run(["ssh-keygen", "-Y", "verify", *common, *who], data)  # 2
        if not done.returncode:
            text = f"good; its key was valid at the claimed time {moment:%FT%TZ}"
            return Outcome("good", text, print_of)
        alone = _run(["ssh-keygen", "-Y", "check-novalidate", *common], data)  # 3
    if alone.returncode:
        text = f"key {print_of} did not sign these bytes: they, or the signature, were replaced"
        return Outcome("not_of_these_bytes", text, print_of)
    told = done.stderr.decode("utf-8", "replace").strip().replace("\n", "; ")
    return _refused(allowed_signers, principal, blob, moment, told)


def _refused(
    allowed: bytes, principal: str, blob: bytes, at: datetime.datetime, told: str
) -> Outcome:
    """Return why a sound signature by the key `blob` doesn't count for `principal` at `at`."""
    print_of, claimed = fingerprint(blob), f"{at:%FT%TZ}"
    windows = [
        (after, before)
        for who, key, after, before in entries(allowed)
        if key == blob and principal in who
    ]
    if not windows:
        owners = [", ".join(who) for who, key, _, _ in entries(allowed) if key == blob]
        of = f"it is that of {owners[0]}" if owners else "nobody is known by it"
        text = f"key {print_of} is not authorised for '{principal}': {of}"
        return Outcome("not_authorised", text, print_of)
    after, before = windows[-1]
    if after and at < after:
        text = f"key {print_of} was not yet valid at the claimed time {claimed}"
        return Outcome("not_yet", f"{text}: from {after:%FT%TZ} on", print_of)
    if before and at > before:
        text = f"key {print_of} was no longer valid at the claimed time {claimed}"
        return Outcome("no_longer", f"{text}: until {before:%FT%TZ}", print_of)
    text = f"key {print_of} is not authorised for '{principal}': ssh-keygen says: {told}"
    return Outcome("not_authorised", text, print_of)


def entries(
    allowed: bytes,
) -> Iterator[tuple[tuple[str, ...], bytes, datetime.datetime | None, datetime.datetime | None]]:
    """Yield (principals, key blob, valid after, valid before) of an ``allowed_signers`` file.

    For explanations: lines of another form than kvgate's are left out (ssh-keygen decides).
    """
    for line in allowed.decode("utf-8", "replace").splitlines():
        words = line.split()
        kinds = [i for i, word in enumerate(words) if word.startswith(("ssh-", "ecdsa-", "sk-"))]
        if line.startswith("#") or not kinds or kinds[0] + 1 >= len(words):
            continue
        try:
            blob = base64.b64decode(words[kinds[0] + 1], validate=True)
            limits = {m[1]: _stamp(m[2]) for m in _OPTION.finditer(" ".join(words[1 : kinds[0]]))}
        except ValueError:
            continue
        yield tuple(words[0].split(",")), blob, limits.get("after"), limits.get("before")


def signing_key(signature: str) -> bytes:
    """Return the public key blob that made `signature`; raises ValueError for another form.

    The form: PROTOCOL.sshsig of OpenSSH, "SSHSIG", version 1, the key as a string.
    """
    lines = signature.split("\n")
    if len(signature) > LONGEST_BYTES or lines[0] != _BEGIN or lines[-2:] != [_END, ""]:
        raise ValueError("it is not in SSH SIGNATURE armour")
    try:
        raw = base64.b64decode("".join(lines[1:-2]), validate=True)
    except ValueError as err:  # not ASCII, too
        raise ValueError(f"it is not Base64: {err}") from err
    length = int.from_bytes(raw[10:14], "big")
    if raw[:10] != b"SSHSIG\0\0\0\x01" or not 0 < length <= len(raw) - 14:
        raise ValueError("it does not begin with SSHSIG, version 1")
    return raw[14 : 14 + length]


def fingerprint(blob: bytes) -> str:
    """Return a key's fingerprint as `ssh-keygen -l` prints it: ``SHA256:…``."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def public_blob(key: Path) -> bytes | None:
    """Return the public key blob of key file `key` or of KEY.pub beside it; None: neither tells."""
    for path in (Path(f"{key}.pub"), key):
        try:
            words = path.read_text("ascii", "replace").split()
            if len(words) > 1 and words[0].startswith(("ssh-", "ecdsa-", "sk-")):
                return base64.b64decode(words[1], validate=True)
        except (OSError, ValueError):
            continue
    return None


def _utc(at: datetime.datetime) -> datetime.datetime:
    if at.tzinfo is None:
        raise StoreError(f"{at}: a claimed time without a zone can't be judged; use UTC")
    return at.astimezone(datetime.UTC)


def _stamp(digits: str) -> datetime.datetime:
    form = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}[len(digits)]
    return datetime.datetime.strptime(digits, form).replace(tzinfo=datetime.UTC)


def _run(
    command: Sequence[str],
    data: bytes,
    *,
    timeout_s: float = _TIMEOUT_S,
    shown: bool = False,
    alone: bool = False,
) -> subprocess.CompletedProcess[bytes]:
    """Run ssh-keygen with UTC as its zone; `shown`: what it says goes to the terminal.

    `alone`: in a session without a terminal or a display, so that it can ask nobody anything.
    """
    asks = {"SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "DISPLAY", "WAYLAND_DISPLAY"} if alone else set()
    env = {key: value for key, value in os.environ.items() if key not in asks}
    try:
        return subprocess.run(
            command,
            input=data,
            stdout=subprocess.PIPE,
            stderr=None if shown else subprocess.PIPE,
            timeout=timeout_s,
            check=False,
            env={**env, "TZ": "UTC", "LC_ALL": "C"},
            start_new_session=alone,
        )
    except FileNotFoundError as err:
        raise NoKeygenError(
            "ssh-keygen is not installed here: signatures are made and checked by it",
            hint="install OpenSSH's client (openssh-client, openssh-clients), 8.7 or later",
        ) from err
    except subprocess.TimeoutExpired as err:
        raise StoreError(f"ssh-keygen did not end within {timeout_s:.0f} s") from err
