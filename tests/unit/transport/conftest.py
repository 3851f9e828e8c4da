"""The ways to a host that the contract tests run against, and how they see what is left there."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kvgate.simulate.certificate import certificate
from kvgate.spec.inventory import Host
from kvgate.transport.leashed import Leashed
from kvgate.transport.local import LocalTransport
from kvgate.transport.ssh import SshTransport
from kvgate.transport.sshd import PrivateSshd


@pytest.fixture(params=["local", pytest.param("ssh", marks=pytest.mark.sshd)])
def way(request: pytest.FixtureRequest) -> Iterator[Leashed]:
    """Return a transport to this machine, each way in turn; closed after the test."""
    if request.param == "local":
        transport: Leashed = LocalTransport("here")
    else:
        transport = SshTransport(request.getfixturevalue("ssh_host"))
    yield transport
    transport.close()


@pytest.fixture
def other(sshd: PrivateSshd) -> Callable[..., Host]:
    """Return a function that gives the private sshd's host with some fields changed."""

    def change(**fields: object) -> Host:
        return Host.model_validate(
            {"roles": ["client"], "name": "here", **sshd.host_entry(), **fields}
        )

    return change


def alive(pid: int) -> bool:
    """Tell whether `pid` runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


@pytest.fixture
def gone() -> Callable[..., bool]:
    """Return a function that waits for processes to end and tells whether they did."""

    def wait(*pids: int, within_s: float = 15) -> bool:
        until = time.monotonic() + within_s
        while any(alive(pid) for pid in pids):
            if time.monotonic() > until:
                return False
            time.sleep(0.02)
        return True

    return wait


@pytest.fixture
def running() -> Callable[[int], bool]:
    """Return a function that tells whether a process runs (a zombie does not)."""
    return alive


# a device of our own, which answers by HTTPS as a test tells it

Behave = Callable[[socket.socket, str], bool]
"""Answers one request (its head, as text) on a stream; tells whether it goes on."""


@dataclasses.dataclass
class Odd:
    """A device of our own on loopback: where it is, what it was sent, how it is trusted."""

    port: int
    folder: Path
    fingerprint: str
    heads: list[str] = dataclasses.field(default_factory=list)
    bodies: list[bytes] = dataclasses.field(default_factory=list)
    connections: int = 0

    def host(self, **fields: Any) -> Host:
        entry = {
            "roles": ["bmc"],
            "of": "node1",
            "adapter": "redfish",
            "transport": "https",
            "address": "127.0.0.1",
            "port": self.port,
            "tls": {"fingerprint": f"sha256:{self.fingerprint}"},
            "connect_timeout": "3 s",
            **fields,
        }
        return Host.model_validate(entry).model_copy(update={"name": "bmc1"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tls")
    certificate(made)
    return made


@contextlib.contextmanager
def serving(
    folder: Path, behave: Behave, *, plain: bool = False, greets: bool = False
) -> Iterator[Odd]:
    made, key = certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made, key)
    shown = ssl.PEM_cert_to_DER_cert(made.read_text())
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        odd = Odd(server.getsockname()[1], folder, hashlib.sha256(shown).hexdigest())

        def one(raw: socket.socket) -> None:
            with contextlib.suppress(OSError, ValueError), raw:
                stream = raw if plain else context.wrap_socket(raw, server_side=True)
                with stream:
                    if greets:
                        behave(stream, "")
                    while not over.is_set() and (head := _head(stream, odd)):
                        odd.heads.append(head)
                        if not behave(stream, head):
                            return

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    raw, _ = server.accept()
                    raw.settimeout(20)
                    odd.connections += 1
                    threading.Thread(target=one, args=(raw,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield odd
        finally:
            over.set()
            server.shutdown(socket.SHUT_RDWR)


def _head(stream: socket.socket, odd: Odd) -> str:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = stream.recv(4096)
        if not piece:
            return ""
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    text = head.decode("ascii")
    length = next((int(x[15:]) for x in text.split("\r\n") if x.startswith("Content-Length:")), 0)
    while len(body) < length:
        body += stream.recv(4096)
    odd.bodies.append(body)
    return text


@pytest.fixture
def web(folder: Path) -> Callable[..., contextlib.AbstractContextManager[Odd]]:
    """Return what serves by HTTPS for a block: ``web(behave) as odd``.

    `plain`: by HTTP; `greets`: says something before it was asked.
    """

    def serve(behave: Behave, **how: bool) -> contextlib.AbstractContextManager[Odd]:
        return serving(folder, behave, **how)

    return serve
