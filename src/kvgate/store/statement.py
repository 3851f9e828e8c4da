"""What people sign: a statement in canonical JSON, stored beside its signature, never in a seal."""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Mapping
from typing import Any

from kvgate.errors import DamagedRunError
from kvgate.store.canonical import laid_out, parse, utc_text, utc_time

FORMAT = "kvgate-statement/1"
SIGNATURES = "signatures"
"""The folder of a run's statements and signatures, sealed by the layers behind what they cover."""

APPROVALS = "inputs/approvals"
"""The folder of a run's pre-approvals: statements of purpose ``protocol``, frozen as inputs."""

RESULTS, PROTOCOL, ARCHIVE, HEAD = "results", "protocol", "archive", "journal_head"

DECISIONS = ("accepted", "accepted_with_conditions", "rejected", "witnessed")
"""What a signer of results decides; ``witnessed``: saw them, accepts and rejects nothing."""

LONGEST_STATEMENT_BYTES = 16 * 2**20
"""No statement is longer: the criteria of a protocol take some 200 bytes each."""

_KEYS = ("purpose", "run", "role", "party", "name", "principal", "claimed_at", "document", "of")
_NAME = re.compile(r"[a-z_]{1,20}-[a-z]{1,20}-[1-9][0-9]{0,3}\.(json|sig|tsr)")
_ARCHIVED = re.compile(r"[a-z]{1,20}\.json")


@dataclasses.dataclass(frozen=True, slots=True)
class Statement:
    """Who says what of which run; `of` is what it is about, by digests.

    ``results``: layers (name → SHA-256), verdict, decision, acceptance (and why not).
    ``protocol``: criteria_digest, files (name → SHA-256), criteria (id → how it is judged).
    ``archive``: file, bytes, sha256. ``journal_head``: seq, head, at.
    """

    purpose: str
    run: str
    role: str
    party: str
    name: str
    principal: str
    claimed_at: str  # RFC 3339, UTC: what the signer's clock said
    document: str
    of: Mapping[str, Any]

    def content(self) -> bytes:
        """Return the bytes that are signed."""
        return laid_out({"format": FORMAT, **dataclasses.asdict(self)})

    @property
    def at(self) -> datetime.datetime:
        """Return the claimed time."""
        return utc_time(self.claimed_at)

    @property
    def signer(self) -> str:
        """Return who signed, for whom: "Li Wei (li@example.com) for ACME"."""
        return f"{self.name} ({self.principal}) for {self.party}"


def now_text() -> str:
    """Return the time that a signer claims: that of this machine's clock."""
    return utc_text(datetime.datetime.now(datetime.UTC))


def read_statement(data: bytes) -> Statement:
    """Return the statement in `data`; raises DamagedRunError unless `content` wrote it."""
    try:
        found = _read(parse(data))
        same = found.content() == data
    except (ValueError, KeyError, TypeError, AttributeError) as err:
        raise DamagedRunError(f"it is no {FORMAT}: {err}") from err
    if not same:
        raise DamagedRunError("it is not as kvgate writes it: keys sorted, one spelling")
    return found


def _read(stored: Any) -> Statement:
    if stored.pop("format") != FORMAT or set(stored) != set(_KEYS):
        raise ValueError("its keys are not those of a statement")
    of = stored.pop("of")
    if not isinstance(of, dict) or not all(isinstance(each, str) for each in stored.values()):
        raise TypeError("a value is no text")
    utc_time(stored["claimed_at"])
    return Statement(of=of, **stored)


def is_statement_name(name: str) -> bool:
    """Tell whether a file in signatures/ may be called `name`: ``results-buyer-1.json``."""
    return _NAME.fullmatch(name) is not None


def is_head_name(name: str) -> bool:
    """Tell whether a file in signatures/ called `name` is about the journal's head."""
    return is_statement_name(name) and name.startswith(f"{HEAD}-")


def is_archive_sig(end: str) -> bool:
    """Tell whether a statement beside an archive may end so: ``buyer.json``."""
    return _ARCHIVED.fullmatch(end) is not None
