"""Endpoints that answer what no good one does: raw bytes from a socket, each a clear finding."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import json
import resource
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.unit.load.streams import served as served_by

from kvgate.errors import UsageError
from kvgate.load import http1
from kvgate.load.client import Endpoint
from kvgate.load.loop import closed_loop
from kvgate.load.preflight import served
from kvgate.load.rows import Failure, Request, Row

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
Part = bytes | float
Script = Callable[[int], Iterator[Part]]
"""Of the n-th request: bytes to send, or seconds to wait; the connection stays, or b"" closes."""


def event(fields: object) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def token(text: str, **more: object) -> bytes:
    return event({"choices": [{"text": text}], **more})


def usage(tokens: int, **more: object) -> bytes:
    fields = {"prompt_tokens": 3, "completion_tokens": tokens}
    return event({"choices": [], "usage": fields, **more})


DONE = b"data: [DONE]\n\n"
GOOD = token("a") + token("b") + usage(2) + DONE


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def whole(body: bytes) -> bytes:
    return CHUNKED + chunk(body) + b"0\r\n\r\n"


@contextlib.contextmanager
def answering(script: Script, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve `script` on loopback for the block; yields the base URL."""
    asked = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        with contextlib.closing(writer), contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(head.lower().split(b"content-length:")[1].split()[0]))
                asked += 1
                for part in script(asked):
                    if isinstance(part, float):
                        await asyncio.sleep(part)
                    elif part:
                        writer.write(part)
                        await writer.drain()
                    else:
                        return

    with served_by(serve, tls) as port:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"


def load(url: str, *, count: int = 1, timeout_s: float = 5, ca: str | None = None) -> list[Row]:
    """Return the rows of `count` requests of 2 tokens, one after another."""
    requests = [Request(session=f"s{n}", prompt=(1, 2, 3), output_tokens=2) for n in range(count)]
    endpoint = Endpoint(base_url=url, model="m", timeout_s=timeout_s, ca_file=ca)
    return list(closed_loop(endpoint, requests, concurrency=1).rows)


def once(*parts: Part) -> Script:
    return lambda _: iter(parts)


@pytest.mark.parametrize(
    ("parts", "failure", "says"),
    [
        pytest.param((b"<html>login</html>\r\n\r\n",), Failure.PROTOCOL, "no HTTP", id="no-http"),
        pytest.param(
            (whole(token("a") + event({"error": {"message": "KV cache lost"}}) + DONE),),
            Failure.ENGINE,
            "KV cache lost",
            id="error-in-mid-stream",
        ),
        pytest.param(
            (whole(token("a", id="r1") + token("b", id="r1") + usage(2, id="r2") + DONE),),
            Failure.PROTOCOL,
            "usage of another answer: its id is 'r2', not 'r1'",
            id="usage-of-another",
        ),
        pytest.param(
            (whole(token("a", id="r1") + token("b", id="r9") + usage(2, id="r1") + DONE),),
            Failure.PROTOCOL,
            "an event of another answer",
            id="token-of-another",
        ),
        pytest.param(
            (whole(token("a") + token("b") + DONE),), Failure.COUNT, "no usage", id="no-usage"
        ),
        pytest.param((b"",), Failure.CONNECTION, "before it had answered", id="closes-at-once"),
        pytest.param(
            (CHUNKED[:30], b""), Failure.CONNECTION, "in the answer's headers", id="closes-in-head"
        ),
        pytest.param(
            (CHUNKED + chunk(token("a")), b""), Failure.TRUNCATED, "last chunk", id="closes-early"
        ),
        pytest.param(
            (HEAD + b"Content-Length: 500\r\n\r\n" + token("a"), b""),
            Failure.TRUNCATED,
            "of 500 bytes",
            id="shorter-than-said",
        ),
        pytest.param(
            (HEAD + b"X-Much: " + b"m" * http1.HEAD_CAP_BYTES,),
            Failure.PROTOCOL,
            "headers are over 64 KiB",
            id="a-header-bomb",
        ),
        pytest.param(
            (b"HTTP/1.1 103 Early Hints\r\n\r\n" * 20,),
            Failure.PROTOCOL,
            "interim responses",
            id="hints-without-end",
        ),
        pytest.param(
            (CHUNKED + b"zz\r\n" + token("a"),),
            Failure.PROTOCOL,
            "a chunk's size that is no number",
            id="a-size-that-is-none",
        ),
        pytest.param(
            (CHUNKED + b"-5\r\n" + token("a"),), Failure.PROTOCOL, "no number", id="a-size-below-0"
        ),
        pytest.param(
            (CHUNKED + b"5\r\n" + token("a") + b"\r\n",),
            Failure.PROTOCOL,
            "a chunk longer than its size says",
            id="longer-than-its-size",
        ),
        pytest.param(
            (CHUNKED + b"1" * 5000,), Failure.PROTOCOL, "over 4096 bytes", id="a-size-of-digits"
        ),
        pytest.param(
            (HEAD + b"Content-Length: 10\r\nContent-Length: 12\r\n\r\n",),
            Failure.PROTOCOL,
            "two lengths",
            id="two-lengths",
        ),
        pytest.param(
            (HEAD + b"Transfer-Encoding: gzip\r\n\r\n",),
            Failure.PROTOCOL,
            "transfer coding",
            id="compressed",
        ),
        pytest.param(
            (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 9\r\n\r\n<html>hi>",),
            Failure.HTTP,
            "200 text/html: <html>hi>",
            id="html",
        ),
        pytest.param(
            (b"HTTP/1.1 404 No\r\nContent-Length: 57\r\n\r\n"
             b'{"error": {"message": "The model `m` does not exist."}}  ',),
            Failure.HTTP,
            "404 without a type: The model `m` does not exist.",
            id="a-model-not-served",
        ),
        pytest.param(
            (b"HTTP/1.1 307 Go\r\nLocation: http://10.0.0.1/\r\nContent-Length: 0\r\n\r\n",),
            Failure.HTTP,
            "a redirect to 'http://10.0.0.1/', which is not followed",
            id="a-redirect",
        ),
        pytest.param((CHUNKED, 3.0), Failure.TIMEOUT, "within 0.4 s", id="hangs-after-the-head"),
    ],
)  # fmt: skip
def test_a_clear_finding(parts: tuple[Part, ...], failure: Failure, says: str) -> None:
    with answering(once(*parts)) as url:
        (row,) = load(url, timeout_s=0.4 if failure is Failure.TIMEOUT else 5)
    assert row.failure is failure, row.error
    assert says in row.error
    assert row.output_digest is None


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param((whole(GOOD.replace(b"data: ", b"data:")),), id="data-without-a-space"),
        pytest.param((whole(GOOD.replace(b"\n", b"\r\n")),), id="lines-of-windows"),
        pytest.param((whole(b": keep-alive\n\n" + GOOD),), id="comments"),
        pytest.param((HEAD + b"\r\n" + GOOD, b""), id="http-1.0-like-until-it-closes"),
        pytest.param((b"HTTP/1.1 100 Continue\r\n\r\n" + whole(GOOD),), id="told-to-go-on"),
        pytest.param(
            (CHUNKED + b"".join(chunk(GOOD[n : n + 1]) for n in range(len(GOOD))) + b"0\r\n\r\n",),
            id="a-byte-a-chunk",
        ),
        pytest.param(
            tuple(whole(GOOD)[n : n + 7] for n in range(0, len(whole(GOOD)), 7)),
            id="seven-bytes-a-packet",
        ),
    ],
)
def test_it_is_an_answer_all_the_same(parts: tuple[Part, ...]) -> None:
    with answering(once(*parts)) as url:
        (row,) = load(url)
    assert row.failure is None, row.error
    assert row.output_tokens == 2
    assert len(row.token_times_s) == 2


def test_a_character_in_two_packets_is_one() -> None:
    text = token("中").replace(b"\\u4e2d", "中".encode())
    at = text.index("中".encode()) + 1
    parts = (CHUNKED + chunk(text[:at]), 0.05, chunk(text[at:] + token("b") + usage(2) + DONE))
    with answering(once(*parts, b"0\r\n\r\n")) as url:
        (row,) = load(url)
    assert row.failure is None, row.error
    assert row.ttft_s is not None
    assert row.ttft_s >= 0.05  # told when it was whole


def test_events_of_one_packet_came_at_one_time_and_drips_when_they_came() -> None:
    with answering(once(whole(GOOD))) as url:
        (row,) = load(url)
    assert row.token_times_s[0] == row.token_times_s[1]
    parts = (CHUNKED + chunk(token("a")), 0.1, chunk(token("b") + usage(2) + DONE) + b"0\r\n\r\n")
    with answering(once(*parts)) as url:
        (row,) = load(url)
    assert row.token_times_s[1] - row.token_times_s[0] >= 0.09


def test_a_body_without_end_is_cut_off_and_takes_no_memory() -> None:
    """The endpoint would send 10 GB; what an answer of two tokens may hold is 4 MiB and a bit."""
    piece = chunk(b"data: " + json.dumps({"choices": [{"text": "x" * 60_000}]}).encode() + b"\n\n")
    sent = 0

    def script(_: int) -> Iterator[Part]:
        nonlocal sent
        yield CHUNKED
        while sent < 10**10:
            sent += len(piece)
            yield piece

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with answering(script) as url:
        (row,) = load(url, timeout_s=30)
    assert row.failure is Failure.PROTOCOL
    assert "far longer than what was asked for" in row.error
    assert sent < 10**8
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB


def test_a_head_that_drips_ends_by_the_time_that_it_has() -> None:
    def script(_: int) -> Iterator[Part]:
        yield HEAD
        for number in range(1000):
            yield b"X-%d: y\r\n" % number
            yield 0.05

    began = time.monotonic()
    with answering(script) as url:
        (row,) = load(url, timeout_s=0.4)
    assert row.failure is Failure.TIMEOUT
    assert time.monotonic() - began < 5


def test_a_connection_that_was_closed_between_requests_is_not_used_again() -> None:
    def script(number: int) -> Iterator[Part]:
        yield whole(GOOD)
        if number % 2:
            yield b""  # without `Connection: close`, as a proxy does that restarts

    with answering(script) as url:
        rows = load(url, count=6)
    failed = [row for row in rows if row.failure is not None]
    assert all(row.failure is Failure.CONNECTION for row in failed)  # counted where it came late
    assert len(rows) == 6
    assert len(failed) <= 3
    assert all(row.output_tokens == 2 for row in rows if row.failure is None)


def certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Return a certificate of nobody's, for 127.0.0.1, and what serves by it."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "nobody")])
    ours = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(ours, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public, private = folder / "cert.pem", folder / "key.pem"
    public.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(public, private)
    return public, context


def test_an_unknown_certificate_is_told_and_a_known_one_serves(tmp_path: Path) -> None:
    public, context = certificate(tmp_path)
    with answering(once(whole(GOOD)), tls=context) as url:
        (row,) = load(url)
        assert row.failure is Failure.TLS
        assert "its certificate can't be trusted: self-signed certificate" in row.error
        with pytest.raises(UsageError, match="certificate"):
            served(Endpoint(base_url=url, model="", timeout_s=5))
        (row,) = load(url, ca=str(public))
        assert row.failure is None, row.error
        (row,) = load(url.replace("https", "http"))
        assert row.failure in (Failure.CONNECTION, Failure.PROTOCOL, Failure.TRUNCATED)
