"""RFC 3161 time stamps of signatures: kept as they came, checked offline by openssl."""

from __future__ import annotations

import dataclasses
import datetime
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kvgate.errors import StoreError

LONGEST_BYTES = 64 * 1024
"""No answer of a time stamp authority is longer, certificates included."""

_TIMEOUT_S = 60.0
_TIME = re.compile(
    r"^Time stamp: (\w{3} [ \d]\d \d\d:\d\d:\d\d)(?:\.\d+)? (\d{4}) GMT$", re.MULTILINE
)


class NoOpensslError(StoreError):
    """openssl is not installed here: no time stamp can be asked for or checked."""


@dataclasses.dataclass(frozen=True, slots=True)
class Stamp:
    """What a time stamp says: its time, and whether the authority given vouches for it."""

    at: str  # RFC 3339, UTC; "" where it could not be read
    good: bool
    text: str


def query(data: bytes) -> bytes:
    """Return the request (DER) for a time stamp on `data`: SHA-256, with the certificates."""
    with tempfile.TemporaryDirectory(prefix="kvgate-stamp-") as folder:
        path = Path(folder) / "data"
        path.write_bytes(data)
        done = _openssl(["-query", "-data", str(path), "-sha256", "-cert"])
    if done.returncode:
        raise StoreError(f"openssl made no request for a time stamp: {_told(done)}")
    return done.stdout


def check_stamp(data: bytes, answer: bytes, authority: Path | None) -> Stamp:
    """Return what the time stamp `answer` says of `data`.

    `authority` is a PEM file of the certificates that are trusted; without one the time is only
    read. Certificates are judged at the stamped time. Raises NoOpensslError.
    """
    with tempfile.TemporaryDirectory(prefix="kvgate-stamp-") as folder:
        signed, stamp = Path(folder) / "data", Path(folder) / "stamp"
        signed.write_bytes(data)
        stamp.write_bytes(answer)
        read = _openssl(["-reply", "-in", str(stamp), "-text"])
        found = _TIME.search(read.stdout.decode("utf-8", "replace"))
        if read.returncode or found is None:
            return Stamp("", False, "it is no time stamp that was granted")
        said = f"{' '.join(found.groups())} +0000"
        moment = datetime.datetime.strptime(said, "%b %d %H:%M:%S %Y %z")
        at = f"{moment:%FT%TZ}"
        if authority is None:
            text = f"time stamp {at}, not checked: give its authority with --tsa-ca"
            return Stamp(at, True, text)
        words = ["-data", str(signed), "-in", str(stamp), "-CAfile", str(authority)]
        done = _openssl(["-verify", *words, "-attime", f"{moment.timestamp():.0f}"])
    if done.returncode:
        return Stamp(at, False, f"its time stamp {at} does not hold: {_told(done)}")
    return Stamp(
        at, True, f"the signature was there at {at}, by the time stamp of {authority.name}"
    )


def _told(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else f"it exited {done.returncode}"


def _openssl(words: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            ["openssl", "ts", *words], capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except FileNotFoundError as err:
        raise NoOpensslError(
            "openssl is not installed here: time stamps are made and checked by it",
            hint="install it; signatures are good without time stamps too",
        ) from err
    except subprocess.TimeoutExpired as err:
        raise StoreError(f"openssl did not end within {_TIMEOUT_S:.0f} s") from err
