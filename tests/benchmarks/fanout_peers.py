"""What others take for ``true`` on a fleet: `fanout_peers.py asyncssh|parallel-ssh SPEC`.

SPEC is a JSON text: addresses, port, key, known (a known_hosts file). Prints the seconds, from
when all is imported and read. Tuned: no agent, no configuration, one key exchange, one cipher.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

AT_ONCE = 100


def by_asyncssh(spec: dict[str, Any]) -> float:
    """Return the seconds of a tuned asyncssh client on uvloop."""
    import asyncssh
    import uvloop

    key = asyncssh.read_private_key(spec["key"])
    # Every host has the same key here: one pattern, so that the list of names costs it nothing.
    public = Path(spec["known"]).read_text().split("\n", 1)[0].split(" ", 1)[1]
    options = asyncssh.SSHClientConnectionOptions(
        username="root",
        client_keys=[key],
        known_hosts=asyncssh.import_known_hosts(f"* {public}\n"),
        agent_path=None,
        config=None,
        kex_algs=["curve25519-sha256"],
        encryption_algs=["aes128-gcm@openssh.com"],
        compression_algs=["none"],
        gss_host=None,
    )

    async def ask(address: str, places: asyncio.Semaphore) -> None:
        async with places, asyncssh.connect(address, spec["port"], options=options) as link:
            done = await link.run("true")
            if done.exit_status != 0:
                raise RuntimeError(f"{address}: {done}")

    async def all_hosts() -> float:
        places = asyncio.Semaphore(AT_ONCE)
        begun = time.perf_counter()
        await asyncio.gather(*(ask(address, places) for address in spec["addresses"]))
        return time.perf_counter() - begun

    return uvloop.run(all_hosts())


def by_parallel_ssh(spec: dict[str, Any]) -> float:
    """Return the seconds of parallel-ssh."""
    from pssh.clients import ParallelSSHClient

    begun = time.perf_counter()
    client = ParallelSSHClient(
        spec["addresses"],
        port=spec["port"],
        user="root",
        pkey=spec["key"],
        allow_agent=False,
        identity_auth=False,
        pool_size=AT_ONCE,
    )
    outputs = client.run_command("true")
    client.join(outputs)
    if any(each.exit_code != 0 for each in outputs):
        raise RuntimeError("a host did not run true")
    return time.perf_counter() - begun


def main() -> None:
    """Print the seconds that the peer named took."""
    peers = {"asyncssh": by_asyncssh, "parallel-ssh": by_parallel_ssh}
    print(peers[sys.argv[1]](json.loads(sys.argv[2])))


if __name__ == "__main__":
    main()
