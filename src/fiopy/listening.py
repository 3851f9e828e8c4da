"""Whether a TCP port is listened on, as the kernel of the runner's machine tells it."""

from __future__ import annotations

import re

from fiopy.errors import FioError
from fiopy.runner import Runner

_LISTEN = "0A"  # include/net/tcp_states.h: TCP_LISTEN
_ROW = re.compile(r"\s*\d+: ([0-9A-F]{8}):([0-9A-F]{4}) [0-9A-F]{8}:[0-9A-F]{4} ([0-9A-F]{2}) ")


def on(runner: Runner, address: str, port: int) -> bool:
    """Tell whether anything listens on that IPv4 address and port (or on all addresses).

    From /proc/net/tcp: asking does not connect, which a fio server would take for a client.
    """
    answer = runner.run(["cat", "/proc/net/tcp"], timeout_s=20)
    if answer.exit_status != 0:
        raise FioError(f"/proc/net/tcp can't be read: exit status {answer.exit_status}")
    listened = {
        (match[1], int(match[2], 16))
        for line in answer.stdout.decode("ascii", "replace").splitlines()
        if (match := _ROW.match(line)) and match[3] == _LISTEN
    }
    return bool({(_as_kernel(address), port), ("00000000", port)} & listened)


def _as_kernel(address: str) -> str:
    """Return an address as a little-endian machine's kernel prints it: 127.0.0.1 → 0100007F."""
    return "".join(f"{int(part):02X}" for part in reversed(address.split(".")))
