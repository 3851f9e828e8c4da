"""What hosts say, made harmless: control characters are shown, and secrets are masked.

Secrets are masked where an answer is captured (`transport.leashed`, `witness`), in every error's
message and in the children's logs, so that no file of a run can hold one. Two kinds are known:
values that this process has read from the places an inventory names (`keep_secret`), and texts
that have the form of a secret (private keys, tokens, ``password=…``). All searching takes time
linear in the text, whatever a host sends.
"""

from __future__ import annotations

import json
import re
import threading
import urllib.parse
from collections.abc import Iterator

MASK = "[masked]"
SHORTEST = 4
"""Values of fewer characters are no secrets worth the name and are not searched for."""

_MASK = MASK.encode()
_CHUNK = 2**20
_KEY_REACH = 16 * 1024  # bytes between the first and last line of a private key, at most


def plain(text: str, *, lines: bool = True) -> str:
    """Return `text` without what could steer a terminal: control and bidi characters are shown.

    Without `lines` line feeds are shown too, so that it stays one line.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or (lines and c == "\n") else c.encode("unicode_escape").decode()
        for c in text
    )


class _Known:
    """The values that are secret, in every spelling that is searched for, longest first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: frozenset[bytes] = frozenset()
        self._digest = (-1, "")
        self.whole: frozenset[str] = frozenset()
        self.longest_first: tuple[bytes, ...] = ()

    def add(self, whole: str) -> None:
        """Search for `whole` from now on, in all its spellings."""
        if whole in self.whole:  # the key of a thousand hosts
            return
        with self._lock:
            more = self._values.union(_spellings(whole))
            if more != self._values:
                self._values = more
                self.longest_first = tuple(sorted(more, key=lambda value: (-len(value), value)))
            self.whole |= {whole}

    def named(self) -> tuple[int, str]:
        """Return how many they are and their digest, made anew when there are more."""
        with self._lock:
            if self._digest[0] != len(self.longest_first):
                import hashlib  # where there are several processes only

                lines = b"\n".join(self.longest_first)
                self._digest = len(self.longest_first), hashlib.sha256(lines).hexdigest()
            return self._digest


_known = _Known()


def keep_secret(value: str) -> None:
    """Mask `value` (of several lines: each of them, but for a key's BEGIN and END) from now on."""
    _known.add(value)


def known_secrets() -> int:
    """Return how many values are searched for by now; never fewer later."""
    return len(_known.longest_first)


def known_as() -> tuple[int, str]:
    """Return `known_secrets` and a digest of them, equal in processes that know the same ones."""
    return _known.named()


def _spellings(value: str) -> Iterator[bytes]:
    for line in value.splitlines():
        text = line.strip()
        if len(text) < SHORTEST or text.startswith("-----"):
            continue
        for spelling in (text, json.dumps(text)[1:-1], urllib.parse.quote(text, safe="")):
            yield spelling.encode("utf-8", "surrogateescape")


_QUOTE = rb"(?:\\?[\"'])?"
_NAMES = (
    rb"pass(?:word|wd|phrase)|secret[_-]?(?:access[_-]?)?key|api[_-]?key|"
    rb"(?:access|auth|api|bearer|refresh|client)[_-]?(?:token|secret)"
)
_NAME = rb"(?i:" + _NAMES + rb")"
_NEW = rb"(?!\[masked\])"
_NO_NAME = rb"(?!" + _NAME + rb"[\"'])"  # as in "password: 'password' is not a key here"
# (what must occur, in lower case, before the pattern is tried; the pattern, its group 1 is kept)
_RULES: tuple[tuple[tuple[bytes, ...], re.Pattern[bytes]], ...] = (
    (
        (b"authorization",),
        re.compile(
            rb"((?i:authorization)" + _QUOTE + rb"[ \t]{0,8}[:=][ \t]{0,8}" + _QUOTE + rb"(?i:"
            rb"(?:bearer|basic|token|digest)[ \t]{1,8})?+)" + _NEW + rb"[^\s\"'\\,;]{4,}"
        ),
    ),
    ((b"bearer",), re.compile(rb"(\b(?i:bearer)[ \t]{1,8})" + _NEW + rb"[\w.~+/=-]{16,}")),
    (
        (b"passw", b"passphrase", b"secret", b"apikey", b"api_key", b"api-key", b"token"),
        re.compile(
            rb"("
            + _NAME
            + _QUOTE
            + rb"[ \t]{0,8}[=:][ \t]{0,8}+"
            + _QUOTE
            + rb"+)"
            + _NEW
            + _NO_NAME
            + rb"(?:"
            rb"(?<=\")[^\"\\\n]{1,256}|(?<=')[^'\n]{1,256}|[^\s\"'\\,;&{\[<(][^\s\"'\\,;&]{3,})"
        ),
    ),
    (
        (b"--pass", b"--token", b"--api", b"--secret"),
        re.compile(
            rb"(--?(?:pass(?:word|wd|phrase)?|token|api-key|secret)[ \t]{1,8})"
            + _NEW
            + rb"[^\s-][^\s]{3,}"
        ),
    ),
    ((b"://",), re.compile(rb"(://[^\s/:@]{1,64}:)" + _NEW + rb"[^\s/@\"']{1,256}(?=@)")),
    (
        (b"akia", b"asia"),
        re.compile(rb"()(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ),
    (
        (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"github_pat_", b"hf_", b"glpat-"),
        re.compile(rb"()(?<![\w-])(?:gh[pousr]_|github_pat_|hf_|glpat-)[\w-]{20,}"),
    ),
    ((b"xox", b"sk-"), re.compile(rb"()(?<![\w-])(?:xox[abprs]|sk)-[\w-]{20,}")),
    ((b"eyj",), re.compile(rb"()(?<![\w.-])eyJ[\w-]{8,}\.eyJ[\w.-]{8,}")),
)
# What a rule's pattern can't match without, in lower case: to look for this takes a tenth of the
# time.
_NEEDED: dict[bytes, re.Pattern[bytes]] = {
    b"passw": re.compile(rb"(?:" + _NAMES + rb")" + _QUOTE + rb"[ \t]{0,8}[=:]"),
    b"ghp_": re.compile(rb"(?:gh[pousr]_|github_pat_|hf_|glpat-)[\w-]{20}"),
}
_BEGIN = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_END = re.compile(rb"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_BODY = re.compile(rb"[A-Za-z0-9+/=\s\\]*+")
_KEYWORDS = (b"private key", *dict.fromkeys(word for words, _ in _RULES for word in words))
_ANY = re.compile(b"|".join(map(re.escape, _KEYWORDS)))
_SHORT = 100  # bytes up to which one search for all is quicker than one for each
_NONE: frozenset[bytes] = frozenset()


def mask_bytes(data: bytes, *, cut: bool = False) -> tuple[bytes, int]:
    """Return `data` with every secret replaced by ``[masked]``, and how many were.

    `cut`: data was cut at its end, so that it may end with the beginning of a secret.
    """
    places = 0
    for value in _known.longest_first:
        found = data.count(value)
        if found:
            places += found
            data = data.replace(value, _MASK)
    occurring = _occurring(data)
    if b"private key" in occurring:
        data, found = _mask_keys(data)
        places += found
    for words, pattern in _RULES if occurring else ():
        if not occurring.isdisjoint(words) and _may_hold(data, words):
            data, found = pattern.subn(rb"\1" + _MASK, data)
            places += found
    return _mask_torn(data, places) if cut else (data, places)


def _may_hold(data: bytes, words: tuple[bytes, ...]) -> bool:
    """Tell whether the rule of `words` can match in `data`; large data is not copied to tell."""
    needed = _NEEDED.get(words[0])
    return needed is None or len(data) > _CHUNK or needed.search(data.lower()) is not None


def mask(text: str) -> str:
    """Return `text` with every secret replaced by ``[masked]``."""
    if len(text) < SHORTEST:
        return text
    masked, places = mask_bytes(text.encode("utf-8", "surrogatepass"))
    return masked.decode("utf-8", "surrogatepass") if places else text


def _occurring(data: bytes) -> frozenset[bytes]:
    """Return the keywords in `data`; by pieces, as a lower-case copy of it all would be large."""
    if len(data) <= _CHUNK:
        low = data.lower()
        if len(low) <= _SHORT and not _ANY.search(low):
            return _NONE
        return frozenset([word for word in _KEYWORDS if word in low])
    overlap = _CHUNK - max(map(len, _KEYWORDS))
    return frozenset().union(
        *(_occurring(data[start : start + _CHUNK]) for start in range(0, len(data), overlap))
    )


def _mask_keys(data: bytes) -> tuple[bytes, int]:
    """Mask from each BEGIN to its END, or, where none follows, what has the form of a key."""
    begins = list(_BEGIN.finditer(data))
    parts, at = [], 0
    for number, begin in enumerate(begins):
        following = begins[number + 1].start() if number + 1 < len(begins) else len(data)
        end = _END.search(data, begin.end(), min(following, begin.end() + _KEY_REACH))
        body = _BODY.match(data, begin.end())
        stop = end.end() if end else body.end() if body else begin.end()
        parts += [data[at : begin.start()], _MASK]
        at = stop
    return b"".join([*parts, data[at:]]), len(begins)


def _mask_torn(data: bytes, places: int) -> tuple[bytes, int]:
    """Mask the beginning of a known secret where `data` ends with one."""
    for value in _known.longest_first:
        for length in range(min(len(value) - 1, len(data)), SHORTEST - 1, -1):
            if data.endswith(value[:length]):
                return data[:-length] + _MASK, places + 1
    return data, places
