"""Where a load is sent to: its address, its API, and the bytes of each request."""

from __future__ import annotations

import dataclasses
import functools
import json
import ssl
import urllib.parse
from typing import Any

from kvgate.errors import UsageError
from kvgate.load.rows import Request

_SLICE = 4096
"""Token ids encoded at once: about 0.1 ms, after which others get their turn."""

_SPELLED_MOST = 2**18
"""How many token ids are kept as they are written: more than vocabularies have."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A URL's parts: where to connect to, and the path before ``/v1``."""

    host: str
    port: int
    tls: bool
    path: str

    @property
    def named(self) -> str:
        """Return what the Host header says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where to send to and how; ``extensions`` asks for token ids and kvgate's digest of logits.

    ``chat`` uses /v1/chat/completions. ``ca_file`` (PEM) names who may sign its certificate beside
    the system's authorities; ``key`` goes out as a bearer token and nowhere else.
    """

    base_url: str
    model: str
    timeout_s: float
    extensions: bool = True
    chat: bool = False
    ca_file: str | None = None
    key: str | None = dataclasses.field(default=None, repr=False)

    def address(self) -> Address:
        """Return the parts of `base_url`; raises UsageError where it is no address of HTTP."""
        return _address(self.base_url)

    def tls(self) -> ssl.SSLContext | None:
        """Return how certificates are verified, None for plain HTTP.

        Raises UsageError where ``ca_file`` can't be read.
        """
        if not self.address().tls:
            return None
        context = ssl.create_default_context()
        if self.ca_file is not None:
            try:
                context.load_verify_locations(self.ca_file)
            except (OSError, ssl.SSLError) as err:
                raise UsageError(
                    f"{self.ca_file}: no certificates can be read from it: {err}",
                    hint="give a file of certificates in PEM form",
                ) from err
        return context

    def request(self, request: Request) -> bytes:
        """Return the whole request as it goes out: greedy, streamed, with usage."""
        body = self.body(request)
        return b"%s%d\r\n\r\n%s" % (_head(self), len(body), body)

    def body(self, request: Request) -> bytes:
        """Return the request's JSON."""
        rest = _rest(self, request.output_tokens)
        if self.chat:
            return b'{"messages": %s, %s' % (json.dumps(_messages(request)).encode(), rest)
        if isinstance(request.prompt, str):
            return b'{"prompt": %s, %s' % (json.dumps(request.prompt).encode(), rest)
        return b'{"prompt": [%s], %s' % (_ids(request.prompt), rest)


@functools.lru_cache(maxsize=256)
def _rest(endpoint: Endpoint, output_tokens: int) -> bytes:
    """Return what a request's JSON says beside the prompt, without its first brace."""
    fields: dict[str, Any] = {
        "model": endpoint.model,
        "max_tokens": output_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if endpoint.extensions:
        fields |= {"return_token_ids": True, "kvgate_logits": True, "ignore_eos": True}
    return json.dumps(fields).encode()[1:]


def _ids(prompt: tuple[int, ...]) -> bytes:
    """Return token ids as JSON has them, made in slices between which other threads may run."""
    spelled = _SPELLED.__getitem__
    if len(prompt) <= _SLICE:
        return b",".join(map(spelled, prompt))
    slices = (prompt[at : at + _SLICE] for at in range(0, len(prompt), _SLICE))
    return b",".join(b",".join(map(spelled, each)) for each in slices)


class _Spelled(dict[int, bytes]):
    """Token ids as they are written, kept: a vocabulary's are written again and again."""

    def __missing__(self, token_id: int) -> bytes:
        written = b"%d" % token_id
        if len(self) < _SPELLED_MOST:
            self[token_id] = written
        return written


_SPELLED = _Spelled()


def _messages(request: Request) -> list[dict[str, str]]:
    if not isinstance(request.prompt, str):
        raise UsageError(
            f"{request.session}: a chat takes a text, and its prompt is token ids",
            hint="use a workload of texts, or completions",
        )
    said = (*request.history, request.prompt)
    return [
        {"role": "assistant" if turn % 2 else "user", "content": text}
        for turn, text in enumerate(said)
    ]


@functools.lru_cache(maxsize=16)
def _head(endpoint: Endpoint) -> bytes:
    """Return the request's line and headers up to the body's length."""
    address = endpoint.address()
    what = "chat/completions" if endpoint.chat else "completions"
    lines = [
        f"POST {address.path}/v1/{what} HTTP/1.1",
        f"Host: {address.named}",
        "Content-Type: application/json",
        "Accept: text/event-stream",
        "Accept-Encoding: identity",
    ]
    if endpoint.key is not None:
        if not endpoint.key.isascii() or not endpoint.key.isprintable():
            raise UsageError("the key holds characters that no header can")
        lines.append(f"Authorization: Bearer {endpoint.key}")
    return "\r\n".join([*lines, "Content-Length: "]).encode()


@functools.lru_cache(maxsize=16)
def _address(url: str) -> Address:
    hint = "an endpoint is written http://HOST:PORT or https://HOST, with /v1 or without"
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError as err:
        raise UsageError(f"{url!r} is no address: {err}", hint=hint) from err
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{url!r} is no address of HTTP", hint=hint)
    if parts.username is not None or parts.password is not None:
        raise UsageError("an endpoint's address holds a user or password", hint=hint)
    if parts.query or parts.fragment:
        raise UsageError(f"{url!r} has more than a path", hint=hint)
    path = urllib.parse.quote(parts.path.rstrip("/").removesuffix("/v1"), safe="/%")
    tls = parts.scheme == "https"
    return Address(
        host=parts.hostname, port=port or (443 if tls else 80), tls=tls, path=path.rstrip("/")
    )
