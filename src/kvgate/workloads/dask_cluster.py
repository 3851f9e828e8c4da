"""Dask clusters: one that runs, or one started over SSH or Slurm by Dask's own deployers.

They are for analysis nodes, which carry kvgate; never for hosts under test.
"""

from __future__ import annotations

import contextlib
import importlib
import ipaddress
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kvgate.errors import UsageError

_WAIT_S = 120.0
_HOST = re.compile(
    r"(?:([\w.-]+)@)?(?:([\w.-]+)|\[([0-9A-Fa-f:.]+)\])(?::(\d{1,5}))?(?:\s+(/\S+))?", re.ASCII
)
GONE_S = 60.0
"""Seconds without any worker after which nobody waits for one any more."""

LOOK_S = 2.0
"""Seconds between looks for workers while a result is waited for."""


@contextlib.contextmanager
def connected(where: str) -> Iterator[Any]:
    """Yield a Dask client of the cluster `where`; what was started for it ends with it.

    ``tcp://host:port``: a scheduler that runs. ``ssh:FILE``: a worker for each line of a file,
    ``[user@]host[:port] [PYTHON]``; the first host also runs the scheduler.
    ``slurm:N[,key=value…]``: N jobs with these options of dask-jobqueue's SLURMCluster. Raises
    UsageError where it can't be had.
    """
    distributed = _module("distributed", "dask")
    with contextlib.ExitStack() as stack:
        try:
            target = _target(where, distributed, stack)
            client = stack.enter_context(distributed.Client(target, timeout=_WAIT_S))
            client.wait_for_workers(1, timeout=_WAIT_S)
        except (OSError, TimeoutError, ValueError, RuntimeError, ImportError) as err:
            raise UsageError(
                f"--dask {where}: {type(err).__name__}: {str(err)[:300]}",
                hint="is the scheduler there, and can it have workers?",
            ) from err
        yield client


class Watch:
    """Looks whether a cluster still has workers."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._seen = time.monotonic()

    def look(self) -> None:
        """Raise UsageError where there has been no worker, or no scheduler, for GONE_S."""
        if self._client.status == "running" and self._client.nthreads():
            self._seen = time.monotonic()
        elif time.monotonic() - self._seen > GONE_S:
            raise UsageError(
                f"--dask: no worker has been there for {GONE_S:.0f} s; there is no result",
                hint="start workers and try again; a scan with --state goes on where it was",
            )


def _target(where: str, distributed: Any, stack: contextlib.ExitStack) -> Any:
    kind, _, rest = where.partition(":")
    if kind == "ssh":
        return stack.enter_context(distributed.SSHCluster(**_over_ssh(rest)))
    if kind == "slurm":
        count, options = _slurm(rest)
        jobqueue = _module("dask_jobqueue", "dask-slurm")
        cluster = stack.enter_context(jobqueue.SLURMCluster(**options))
        cluster.scale(count)
        return cluster
    if kind not in ("tcp", "tls", "ucx"):
        raise UsageError(
            f"--dask '{where}' is no cluster",
            hint="write tcp://host:8786, ssh:hosts.txt, or slurm:4,queue=short,memory=8GB",
        )
    return where


def _over_ssh(name: str) -> dict[str, Any]:
    """Return what Dask's SSHCluster takes for the hosts of a file, the first as scheduler too."""
    try:
        lines = Path(name).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as err:
        raise UsageError(f"--dask ssh:{name}: {err}") from err
    told = [(at, line.strip()) for at, line in enumerate(lines, 1)]
    hosts = [_host(f"{name}: line {at}", line) for at, line in told if line and line[0] != "#"]
    if not hosts:
        raise UsageError(f"--dask ssh:{name}: the file names no host")
    hosts.insert(0, hosts[0])
    first = hosts[0][0]
    listens = {"host": first} if _is_address(first) else {}  # a name may be another one there
    return {
        "hosts": [host for host, _, _ in hosts],
        "connect_options": [options for _, options, _ in hosts],
        "remote_python": [python for _, _, python in hosts],
        "worker_options": {"nthreads": 1},
        "scheduler_options": {"dashboard": False, **listens},
    }


def _host(where: str, line: str) -> tuple[str, dict[str, Any], str]:
    """Return the host, asyncssh's options and the Python of a line; raises UsageError."""
    found = _HOST.fullmatch(line)
    if found is None:
        raise UsageError(
            f"--dask ssh:{where}: '{line[:80]}' is no host",
            hint="write [user@]host[:port], and where Python isn't the same as here, its path",
        )
    user, plain, bracketed, port, python = found.groups()
    options: dict[str, Any] = {} if user is None else {"username": user}
    if port is not None:
        options["port"] = int(port)
    return bracketed or plain, options, python or sys.executable


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _slurm(text: str) -> tuple[int, dict[str, Any]]:
    """Return the number of jobs and the options of a cluster under Slurm."""
    count, *pairs = text.split(",")
    options: dict[str, Any] = {"cores": 1, "processes": 1, "memory": "4GB"}
    for pair in pairs:
        name, found, value = pair.partition("=")
        if not found or not name.isidentifier():
            raise UsageError(f"--dask slurm:{text}: '{pair}' is no key=value")
        options[name] = int(value) if value.isdecimal() else value
    if not count.isdecimal() or not 1 <= int(count) <= 10_000:
        raise UsageError(f"--dask slurm:{text}: '{count}' is no number of jobs from 1 to 10,000")
    return int(count), options


def _module(name: str, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as err:
        raise UsageError(
            f"--dask needs {name}, which is not installed",
            hint=f"install kvgate[{extra}] here and on the analysis nodes",
        ) from err
