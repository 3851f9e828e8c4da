"""Asks a time stamp authority (RFC 3161) over HTTP: the one thing of a sign-off with a network."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.parse
import urllib.request

from kvgate.errors import StoreError, UsageError
from kvgate.store.timestamp import LONGEST_BYTES, check_stamp, query

_TIMEOUT_S = 60.0
_QUERY, _REPLY = "application/timestamp-query", "application/timestamp-reply"


def ask_stamp(url: str, data: bytes) -> bytes:
    """Return the authority's answer (DER) for `data`: a time stamp that was granted.

    Only the SHA-256 of `data` leaves this machine. Raises UsageError for what is no http(s) URL,
    StoreError where the authority can't be reached or grants none.
    """
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise UsageError(f"--tsa '{url}': is no URL of http or https")
    asked = urllib.request.Request(  # noqa: S310  http or https, see above
        url, data=query(data), headers={"Content-Type": _QUERY, "Accept": _REPLY}
    )
    try:
        with urllib.request.urlopen(asked, timeout=_TIMEOUT_S) as reply:  # noqa: S310  as above
            answer: bytes = reply.read(LONGEST_BYTES + 1)
    except (OSError, urllib.error.URLError, http.client.HTTPException, ValueError) as err:
        raise StoreError(
            f"{url}: gave no time stamp: {err}",
            hint="without --tsa the signature is made with the time as claimed",
        ) from err
    stamp = check_stamp(data, answer, None)
    if len(answer) > LONGEST_BYTES or not stamp.good:
        raise StoreError(f"{url}: its answer is no granted time stamp of at most {LONGEST_BYTES} B")
    return answer
