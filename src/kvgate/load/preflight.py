"""Asks an endpoint what it serves before any load, and how many tokens it makes of words."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import socket
import ssl
from typing import Any

from kvgate.errors import UsageError
from kvgate.load.endpoint import Address, Endpoint
from kvgate.load.loop import closed_loop
from kvgate.load.prompts import WORDS, Ids, TextRate, as_text, rate_of, stream_of, tokens
from kvgate.load.rows import Request

BODY_CAP_BYTES = 2**20
ASK_WITHIN_S = 10.0
FEW_WORDS, MANY_WORDS = 16, 512
TOKENS_A_WORD = 8
"""What a word of five bytes comes to at most, with room: byte-level engines make five of it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Served:
    """A model that is served, and how many tokens a request may have (None: not told)."""

    model: str
    most_tokens: int | None


def served(endpoint: Endpoint) -> Served:
    """Return the model that is meant: ``endpoint.model``, or the only one where that is "".

    Raises UsageError, with the next step, where nothing listens, something else answers, or the
    model is not served.
    """
    cards = _models(endpoint)
    names = [str(card["id"]) for card in cards]
    if not endpoint.model and len(names) != 1:
        raise UsageError(
            f"{endpoint.base_url} serves {', '.join(names[:8])}", hint="choose one with --model"
        )
    name = endpoint.model or names[0]
    if name not in names:
        raise UsageError(
            f"{endpoint.base_url} does not serve '{name}'; it serves {', '.join(names[:8])}",
            hint="choose one of these with --model, or load it into the engine",
        )
    card = cards[names.index(name)]
    most = card.get("max_model_len")
    return Served(name, most if type(most) is int and most > 0 else None)


def _models(endpoint: Endpoint) -> list[dict[str, Any]]:
    """Return what /v1/models lists, at least one; raises UsageError."""
    where = f"{endpoint.base_url}: GET /v1/models"
    status, kind, body = _got(endpoint, where)
    if status != 200:
        hint = {401: "give a key by --key-env", 403: "the key may not use it"}.get(
            status, "is this the address of an OpenAI endpoint, without /v1/…?"
        )
        said = body[:200].decode("utf-8", "replace")
        raise UsageError(f"{where} answers {status} {kind}: {said}", hint=hint)
    try:
        cards = json.loads(body)["data"]
        known = [card for card in cards if isinstance(card["id"], str) and card["id"]]
    except (ValueError, KeyError, TypeError, RecursionError) as err:
        raise UsageError(
            f"{where} answers {kind or 'something without a type'}, no list of models",
            hint="is this the address of an OpenAI endpoint, without /v1/…?",
        ) from err
    if not known:
        raise UsageError(f"{where} lists no model", hint="load one into the engine first")
    return known


def _got(endpoint: Endpoint, where: str) -> tuple[int, str, bytes]:
    """Return status, content type and body of /v1/models; raises UsageError."""
    address, context = endpoint.address(), endpoint.tls()
    connection: http.client.HTTPConnection
    if context is None:
        connection = http.client.HTTPConnection(address.host, address.port, timeout=ASK_WITHIN_S)
    else:
        connection = http.client.HTTPSConnection(
            address.host, address.port, timeout=ASK_WITHIN_S, context=context
        )
    headers = {"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}
    with contextlib.closing(connection):
        try:
            connection.request("GET", f"{address.path}/v1/models", headers=headers)
            response = connection.getresponse()
            body = response.read(BODY_CAP_BYTES)
            return response.status, response.headers.get_content_type(), body
        except (OSError, http.client.HTTPException, ValueError) as err:
            raise _unreached(address, where, err) from err


def _unreached(address: Address, where: str, err: Exception) -> UsageError:
    """Return why there is no answer, with the next step."""
    told = f"{where}: {type(err).__name__}: {err}"
    hint = f"does the engine listen on port {address.port} there? try curl on it"
    match err:
        case ssl.SSLCertVerificationError():
            told = f"{where}: its certificate can't be trusted: {err.verify_message}"
            hint = "give the authority that signed it by --ca FILE"
        case ssl.SSLError():
            told = f"{where}: {err.reason or err}: it does not speak TLS as it should"
            hint = "does it serve plain http:// there?"
        case socket.gaierror():
            told = f"{where}: no address is known of '{address.host}': {err.strerror}"
            hint = "is the name spelt as DNS or /etc/hosts has it? an IP address does as well"
        case TimeoutError():
            told = f"{where}: no answer within {ASK_WITHIN_S:g} s"
            hint = "is the engine still loading its model?"
    return UsageError(told, hint=hint)


def text_rate(endpoint: Endpoint, served: Served, seed: int) -> TextRate:
    """Return how many tokens the endpoint makes of words, asked by two prompts of one token out.

    Raises UsageError where it does not tell the prompts' tokens, or tells what can't be.
    """
    told = []
    many = MANY_WORDS
    if served.most_tokens is not None:
        many = max(2 * FEW_WORDS, min(many, served.most_tokens // TOKENS_A_WORD))
    for words in (FEW_WORDS, many):
        prompt = as_text(tokens(seed, stream_of("rate", words), words, Ids(0, 256 * len(WORDS))))
        request = Request(session=f"rate-{words}", prompt=prompt, output_tokens=1)
        (row,) = closed_loop(endpoint, [request], concurrency=1).rows
        if row.prompt_tokens is None:
            why = row.error or "its usage has no prompt_tokens"
            raise UsageError(
                f"{endpoint.base_url}: it can't be told how long prompts of text are: {why}",
                hint="use completions with token ids (without --text and --chat)",
            )
        told.append((words, row.prompt_tokens))
    try:
        return rate_of(told[0], told[1])
    except ValueError as err:
        raise UsageError(
            f"{endpoint.base_url}: {err}: no tokenizer does that",
            hint="does its usage count the prompt?",
        ) from err
