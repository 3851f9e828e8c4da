"""Asks hosts a question whose answer has no place in memory, and says what that took.

Run as a program: `streamed.py INVENTORY FOLDER TIMEOUT TIMES` asks the first host of INVENTORY
by so many connections at once; prints {"bytes", "status", "seconds", "peak_bytes", "kept_bytes"}
of all of them, and the status of one. A process of its own, so that its peak is of nothing else.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kvgate.errors import TransportError
from kvgate.spec.inventory import Host
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
    """Ask, keep the answers as evidence, and tell."""
    inventory = load_inventory(Path(sys.argv[1])).value
    host = next(iter(inventory.hosts.values()))
    hosts = [host.model_copy(update={"name": f"n{n}"}) for n in range(int(sys.argv[4]))]
    begun = time.monotonic()
    with (
        RunWriter.create(Path(sys.argv[2]), {"gates": []}, {}) as run,
        Connections(inventory) as connections,
        ThreadPoolExecutor(len(hosts)) as pool,
    ):

        def ask(host: Host) -> tuple[int, int | None]:
            try:
                told = Witness(host, connections.to(host), run.evidence).ask(
                    ["cat", "/dev/zero"], timeout_s=float(sys.argv[3])
                )
            except TransportError:  # one server under many streams may be slow to open another
                return 0, None
            return len(told.result.stdout) + told.result.stdout_dropped, told.result.exit_status

        told = list(pool.map(ask, hosts))
    packs = (Path(sys.argv[2]) / "evidence").iterdir()
    sys.stdout.write(
        json.dumps(
            {
                "bytes": sum(size for size, _ in told),
                "status": told[0][1],
                "kept_bytes": sum(path.stat().st_size for path in packs),
                "seconds": time.monotonic() - begun,
                "peak_bytes": peak_bytes(),
            }
        )
    )


if __name__ == "__main__":
    main()
