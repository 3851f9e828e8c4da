"""Asks one host one question whose answer has no place in memory, and says what that took.

Run as a program: `streamed.py INVENTORY FOLDER TIMEOUT`; prints {"bytes", "seconds", "peak_bytes"}
of the first host of INVENTORY. A process of its own, so that its peak is of nothing else.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from kvgate.spec.load import load_inventory
from kvgate.store.run import RunWriter
from kvgate.transport.connect import Connections
from kvgate.witness import Witness


def peak_bytes() -> int:
    """Return this program's peak memory; getrusage also counts what forked it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise OSError("the kernel tells no VmHWM")


def main() -> None:
    """Ask, keep the answer as evidence, and tell."""
    inventory = load_inventory(Path(sys.argv[1])).value
    host = next(iter(inventory.hosts.values()))
    begun = time.monotonic()
    with (
        RunWriter.create(Path(sys.argv[2]), {"gates": []}, {}) as run,
        Connections(inventory) as connections,
    ):
        told = Witness(host, connections.to(host), run.evidence).ask(
            ["cat", "/dev/zero"], timeout_s=float(sys.argv[3])
        )
    result = told.result
    sys.stdout.write(
        json.dumps(
            {
                "bytes": len(result.stdout) + result.stdout_dropped,
                "status": result.exit_status,
                "seconds": time.monotonic() - begun,
                "peak_bytes": peak_bytes(),
            }
        )
    )


if __name__ == "__main__":
    main()
