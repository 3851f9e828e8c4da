"""One SSH server process that is a thousand hosts: an address of 127/8 each, on loopback.

Run as a program: `fleet_server.py FOLDER HOSTS` makes keys and known_hosts in FOLDER, prints
{"addresses": […], "port": …, "far_port": …} as a line of JSON and ends when its standard input
does. What a host is asked costs it nothing: it exits 0 at once, and answers the fact script with
20 KB that were made before. Behind `far_port` every way takes 20 ms, 40 ms a round trip.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import sys
from pathlib import Path
from typing import Any

import asyncssh
import uvloop

ONE_WAY_S = 0.020
FACT_BYTES = 20_000
_TOKEN = re.compile(rb"^token=(kvgate[0-9a-f]{32})$", re.MULTILINE)
_ASK = re.compile(rb"^  ask (\d+) ", re.MULTILINE)
Process = asyncssh.SSHServerProcess[bytes]


def answer(script: bytes, host: str) -> bytes:
    """Return what the fact script would tell on a host that answers each command with as much."""
    token = _TOKEN.search(script)
    if token is None:
        return b"no fact script\n"
    word, asked = token[1], _ASK.findall(script)
    each = f"of {host}\n".encode()
    each += b"x" * max(0, FACT_BYTES // max(1, len(asked)) - len(each) - 1) + b"\n"
    frames = [b"%s %s 0 0 5.10 5.20 0 %d 0\n%s" % (word, n, len(each), each) for n in asked]
    return b"%s begin 5.00\n%s%s end %d\n" % (word, b"".join(frames), word, len(asked))


async def act(process: Process) -> None:
    """Answer the fact script, which comes by stdin; anything else exits 0."""
    last = (process.command or "").rsplit(" kvgate-leash ", 1)[-1]
    size = int(last.split(" ", 1)[0]) if last[:1].isdigit() else 0
    if size:
        script = await process.stdin.readexactly(size)
        host = process.get_extra_info("sockname")[0]
        process.stdout.write(answer(script, host))
    process.exit(0)


class Far(asyncio.Protocol):
    """One end of a connection that takes its time: what comes is passed on `ONE_WAY_S` later."""

    def __init__(self, port: int | None = None) -> None:
        self.near: asyncio.Transport | None = None
        self.other: Far | None = None
        self.port = port
        self.waiting: list[bytes] = []
        self.loop = asyncio.get_running_loop()

    def connection_made(self, transport: Any) -> None:
        self.near = transport
        if self.port is not None:
            self.loop.create_task(self._reach(transport.get_extra_info("sockname")[0]))

    async def _reach(self, host: str) -> None:
        await asyncio.sleep(ONE_WAY_S)  # the SYN and its answer
        far = Far()
        far.other = self
        await self.loop.create_connection(lambda: far, host, self.port)
        self.other = far
        for piece in self.waiting:
            self._pass(piece)

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self.waiting.append(data)
        else:
            self.loop.call_later(ONE_WAY_S, self._pass, data)

    def _pass(self, data: bytes) -> None:
        if self.other and self.other.near and not self.other.near.is_closing():
            self.other.near.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        if self.other and self.other.near:
            self.loop.call_later(ONE_WAY_S, self.other.near.close)


def free_port() -> int:
    """Return a port that is free on every address."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


async def main() -> None:
    """Serve until standard input ends."""
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    key, client = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    client.write_private_key(folder / "client_key")
    (folder / "client_key").chmod(0o600)
    client.write_public_key(folder / "client_key.pub")
    addresses = [f"127.{1 + n // 250}.1.{1 + n % 250}" for n in range(count)]
    port, far_port = free_port(), free_port()
    await asyncssh.listen(
        host=addresses,
        port=port,
        server_host_keys=[key],
        authorized_client_keys=str(folder / "client_key.pub"),
        process_factory=act,
        encoding=None,
        gss_host=None,
        login_timeout=0,
        backlog=1024,
    )
    loop = asyncio.get_running_loop()
    await loop.create_server(lambda: Far(port), addresses, far_port, backlog=1024)
    public = key.export_public_key().decode().strip()
    known = [f"[{a}]:{p} {public}\n" for a in addresses for p in (port, far_port)]
    (folder / "known_hosts").write_text("".join(known))
    told = {"addresses": addresses, "port": port, "far_port": far_port}
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    await loop.run_in_executor(None, sys.stdin.read)
    os._exit(0)


if __name__ == "__main__":
    uvloop.run(main())
