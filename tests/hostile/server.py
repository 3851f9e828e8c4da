"""An SSH server that misbehaves on demand: a port for each way to do so, on loopback.

Run as a program: `server.py FOLDER` makes its keys in FOLDER, prints {"behaviour": port, …} as one
line of JSON and ends when its standard input does. It is a process of its own, so that what it
costs is not counted against kvgate.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncssh

HOUR = 3600
HEALTHY = [f"127.0.1.{number}" for number in range(1, 16)]
"""Addresses at which a host `behaves` too, at the same port."""
SECRETS = (
    b"db: password=correct-horse-battery\n"
    b"Authorization: Bearer abcdef0123456789.token\n"
    b"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\nc2VjcmV0LWJvZHk=\n"
    b"-----END OPENSSH PRIVATE KEY-----\n"
)
ESCAPES = b"\x1b]0;owned\x07\x1b[2J\x1b[31mred\x9b31m\xe2\x80\xaegnp.exe\r\n"
Process = asyncssh.SSHServerProcess[bytes]
Act = Callable[[Process], Awaitable[None]]


async def hang(process: Process) -> None:
    """Take the command and say nothing, whatever happens to stdin."""
    await asyncio.sleep(HOUR)


async def half_close(process: Process) -> None:
    """End the output and never tell how the command ended."""
    process.stdout.write_eof()
    await asyncio.sleep(HOUR)


async def no_status(process: Process) -> None:
    """Close the channel without an exit status."""
    process.stdout.write(b"some output\n")
    process.channel.close()


async def disconnect(process: Process) -> None:
    """Break the connection in the middle of a command."""
    process.stdout.write(b"half of an ans")
    await asyncio.sleep(0.1)
    process.channel.get_connection().abort()


async def garbage(process: Process) -> None:
    """Answer with random bytes, and terminal escapes in both streams."""
    noise = random.Random(7).randbytes(20_000)  # noqa: S311
    process.stdout.write(noise + ESCAPES)
    process.stderr.write(ESCAPES + noise[:3000])
    process.exit(1)


async def escapes(process: Process) -> None:
    """Answer with terminal escapes as the whole complaint."""
    process.stderr.write(ESCAPES)
    process.exit(1)


async def secrets(process: Process) -> None:
    """Answer with secrets of every form, and with the one the environment names."""
    whole = SECRETS + os.environ.get("HOSTILE_SAYS", "").encode() + b"\n"
    process.stdout.write(whole)
    process.stderr.write(whole)
    process.exit(0 if b"kvgate-ok" in (process.command or "").encode() else 1)


async def endless(process: Process) -> None:
    """Write without end."""
    await stream(process, 1 << 62)


async def floods(process: Process) -> None:
    """Write without end and without regard for the window that the client opened."""
    process.stderr.write(b"kvgate-leash pid 4242\n")
    channel = process.channel._orig_chan  # type: ignore[attr-defined]
    while not process.is_closing():
        channel._send_window = 1 << 30
        process.stdout.write(b"kvgate floods! \n" * 4096)
        while channel._conn._transport.get_write_buffer_size() > 2**22:
            await asyncio.sleep(0.01)  # the kernel's buffer is full: nobody reads
        await asyncio.sleep(0)


async def gigabyte(process: Process) -> None:
    """Write 1 GB (10⁹ bytes), then end well."""
    await stream(process, 10**9)
    process.exit(0)


async def fifth(process: Process) -> None:
    """Write 200 MB, then end well."""
    await stream(process, 2 * 10**8)
    process.exit(0)


async def stream(process: Process, size: int) -> None:
    piece = b"kvgate streams \n" * 4096
    while size > 0 and not process.is_closing():
        process.stdout.write(piece[:size])
        size -= len(piece)
        await process.stdout.drain()


async def run_really(process: Process, *, path: str = "", noise: int = 0) -> None:
    """Run the command here, after `noise` bytes of stderr, with `path` first in PATH."""
    if noise:
        process.stderr.write(b"n" * (noise - 1) + b"\n")
        await process.stderr.drain()
    environment = {**os.environ, "PATH": f"{path}{os.environ['PATH']}"}
    child = await asyncio.create_subprocess_shell(
        f"exec setsid -w {process.command.removeprefix('exec ')}",  # type: ignore[union-attr]
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    await process.redirect(child.stdin, child.stdout, child.stderr)
    status = await child.wait()
    await process.stdout.drain()
    await process.stderr.drain()
    process.exit(status)


def another_day(folder: Path) -> Act:
    """Return what runs commands with a `date` that is a day ahead."""
    tools = folder / "tools"
    tools.mkdir()
    script = (
        "#!/bin/sh\nnow=$(/bin/date +%s.%N)\n"
        'case "$*" in\n'
        '  *+%s.%N*) echo "$((${now%.*} + 86400)).${now#*.}" ;;\n'
        '  *) exec /bin/date "$@" ;;\nesac\n'
    )
    (tools / "date").write_text(script)
    (tools / "date").chmod(0o755)
    return lambda process: run_really(process, path=f"{tools}:")


def full_disk(folder: Path) -> Act:
    """Return what runs commands on a host where nothing more can be written to any disk."""
    tools = folder / "full"
    tools.mkdir()
    full = "No space left on device"
    failed = f'echo "{{0}}: {full}" >&2; exit 1'
    scripts = {
        "mkdir": failed.format("mkdir: cannot create directory"),
        "cat": "if [ -f /proc/self/fd/1 ]; then\n"
        f"  /bin/cat >/dev/null; {failed.format('cat: write error')}\n"
        'fi\nexec /bin/cat "$@"',
    }
    for name, script in scripts.items():
        (tools / name).write_text(f"#!/bin/sh\n{script}\n")
        (tools / name).chmod(0o755)
    return lambda process: run_really(process, path=f"{tools}:")


class Server(asyncssh.SSHServer):
    """Lets anyone in with the right key; subclasses stop on the way."""


class AuthHangs(asyncssh.SSHServer):
    async def begin_auth(self, username: str) -> bool:
        await asyncio.sleep(HOUR)
        return True


class NoSession(asyncssh.SSHServer):
    def session_requested(self) -> bool:
        return False


class OpenHangs(asyncssh.SSHServer):
    """Never answers a request to open a channel."""

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        conn._process_channel_open = lambda *_: None  # type: ignore[attr-defined]
        conn._packet_handlers = {**conn._packet_handlers, 90: lambda *_: None}  # type: ignore[attr-defined]


class Session(asyncssh.SSHServerSession[bytes]):
    def exec_requested(self, command: str) -> bool:
        return True


class ExecHangs(asyncssh.SSHServer):
    """Opens a session and never answers the request for a command."""

    def session_requested(self) -> Any:
        channel = self.connection.create_server_channel(encoding=None)
        channel._process_exec_request = lambda _packet: None  # type: ignore[method-assign,assignment]
        return channel, Session()

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self.connection = conn


class ExecRefused(ExecHangs):
    """Opens a session and refuses every command."""

    def session_requested(self) -> Any:
        channel = self.connection.create_server_channel(encoding=None)
        channel._process_exec_request = lambda _packet: False  # type: ignore[method-assign]
        return channel, Session()


class NoWindow(ExecHangs):
    """Opens a session whose window never opens: nothing can be sent to the command's stdin."""

    def session_requested(self) -> Any:
        channel = self.connection.create_server_channel(encoding=None, window=0)
        channel._send_window = 0
        return channel, Session()


async def slow_banner(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send a byte of the banner now and then, for ever."""
    for byte in b"SSH-2.0-OpenSSH_9.2" * HOUR:
        writer.write(bytes([byte]))
        await asyncio.sleep(0.3)


async def no_ssh(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send random bytes and close."""
    writer.write(b"\x1b[31m\n" + random.Random(3).randbytes(5000) + b"\n")  # noqa: S311
    await writer.drain()
    writer.close()


async def endless_banner(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send a line that has no end, as fast as it goes."""
    while not writer.is_closing():
        writer.write(b"S" * 65536)
        await writer.drain()


async def huge_packet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Announce a packet of 4 GB in the handshake, and send it as fast as it goes."""
    writer.write(b"SSH-2.0-OpenSSH_9.2\r\n\xff\xff\xff\xf4\x04")
    while not writer.is_closing():
        writer.write(b"\0" * 65536)
        await writer.drain()


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Accept, and never say anything."""
    await asyncio.sleep(HOUR)


def acts(folder: Path) -> dict[str, Act]:
    """Return what is done to a command, by the behaviour's name."""
    return {
        "hung": hang,
        "half_closed": half_close,
        "no_status": no_status,
        "disconnects": disconnect,
        "garbage": garbage,
        "escapes": escapes,
        "secrets": secrets,
        "endless": endless,
        "floods": floods,
        "gigabyte": gigabyte,
        "fifth": fifth,
        "noisy": lambda process: run_really(process, noise=2 * 2**20),
        "day_off": another_day(folder),
        "full_disk": full_disk(folder),
        "behaves": run_really,
        "changed_key": hang,
    }


SERVERS: dict[str, type[asyncssh.SSHServer]] = {
    "auth_hangs": AuthHangs,
    "no_session": NoSession,
    "open_hangs": OpenHangs,
    "exec_hangs": ExecHangs,
    "exec_refused": ExecRefused,
    "no_window": NoWindow,
}
STREAMS = {
    "slow_banner": slow_banner,
    "no_ssh": no_ssh,
    "endless_banner": endless_banner,
    "huge_packet": huge_packet,
    "silent": silent,
}


async def serve(folder: Path) -> dict[str, int]:
    """Start everything and return the ports."""
    keys = {name: asyncssh.generate_private_key("ssh-ed25519") for name in ("host", "other")}
    client = asyncssh.generate_private_key("ssh-ed25519")
    client.write_private_key(folder / "client_key")
    (folder / "client_key").chmod(0o600)
    client.write_public_key(folder / "client_key.pub")
    options: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": 0,
        "authorized_client_keys": str(folder / "client_key.pub"),
        "encoding": None,
        "process_factory": None,
        "login_timeout": 0,
    }
    ports, known = {}, []
    public = keys["host"].export_public_key().decode().strip()

    async def listen(name: str, server: type[asyncssh.SSHServer], act: Act | None) -> None:
        key = keys["other" if name == "changed_key" else "host"]
        more = {"process_factory": act, "server_factory": server, "server_host_keys": [key]}
        acceptor = await asyncssh.listen(**options | more)
        ports[name] = acceptor.get_port()
        known.append(f"[127.0.0.1]:{ports[name]} {public}\n")
        if name == "behaves":  # a whole row of such hosts, by address
            more |= {"host": HEALTHY, "port": ports[name]}
            _kept.append(await asyncssh.listen(**options | more))
            known.extend(f"[{address}]:{ports[name]} {public}\n" for address in HEALTHY)

    for name, act in acts(folder).items():
        await listen(name, Server, act)
    for name, server in SERVERS.items():
        await listen(name, server, None)
    for name, answer in STREAMS.items():
        acceptor = await asyncio.start_server(_quietly(answer), "127.0.0.1", 0)
        ports[name] = acceptor.sockets[0].getsockname()[1]
        _kept.append(acceptor)
    (folder / "known_hosts").write_text("".join(known))
    return ports


_kept: list[object] = []


def _quietly(answer: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await answer(reader, writer)

    return act


async def main() -> None:
    """Serve until standard input ends."""
    ports = await serve(Path(sys.argv[1]))
    sys.stdout.write(json.dumps(ports) + "\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main())
