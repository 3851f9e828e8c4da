"""The verb scan: how much of what is stored is redundant, here, on hosts, or by Dask."""

from __future__ import annotations

import argparse
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from kvgate.errors import KvgateError, UsageError
from kvgate.untrusted import plain

if TYPE_CHECKING:
    from kvgate.model.record import Evidence
    from kvgate.workloads.scan import Scanned, Told
    from kvgate.workloads.scanner.engine import Asked, Progress

_MOST_HOSTS_AT_ONCE = 32
_SPACED = re.compile(r"([0-9.])([A-Za-z])")


def scan_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Scan and show; 0: all is well, 2: something is wrong or left out, 3: a host wasn't asked."""
    from kvgate.cli.predict import show
    from kvgate.report.scanned import sheet

    asked = asked_of(arguments)
    if arguments.host and arguments.dask:
        raise UsageError("scan takes --host or --dask, not both")
    if arguments.out and Path(arguments.out).exists():
        raise UsageError(f"{arguments.out}: is there; nothing was scanned")
    found = _found(arguments, asked)
    documents = {each.where: each.document for each in found}
    show(arguments, sheet(found), documents if arguments.host else documents["here"])
    for each in found:
        if each.problem is not None:
            print(plain(f"{each.where}: {each.problem}"), file=sys.stderr)
    return _code(found)


def _code(found: list[Scanned]) -> int:
    if any(each.document is None for each in found):
        return 3
    return 2 if any(_has_problems(each) for each in found) else 0


def _has_problems(scanned: Scanned) -> bool:
    """Tell whether a file could not be read, changed, or is not what it says it is."""
    return scanned.document is not None and scanned.document["problems"]["count"] > 0


def _found(arguments: argparse.Namespace, asked: Asked) -> list[Scanned]:
    from kvgate.workloads import scan
    from kvgate.workloads.scan import Scanned

    if arguments.host:
        return _on_hosts(arguments, asked)
    told = teller("")
    if arguments.dask:
        from kvgate.workloads import scan_dask

        return [Scanned("here", scan_dask.scan(asked, arguments.dask, told))]
    return [Scanned("here", scan.scan(asked, told))]


def _on_hosts(arguments: argparse.Namespace, asked: Asked) -> list[Scanned]:
    """Scan on each host at once; one that can't be asked costs the others nothing."""
    import hashlib

    from kvgate.cli.places import site_of
    from kvgate.cli.probe import host_named
    from kvgate.witness import Witness
    from kvgate.workloads.scan import Scanned, scan_on

    def forget(piece: Evidence) -> str:
        return hashlib.sha256(piece.stdout).hexdigest()  # a scan is no run: it proves nothing

    site = site_of(arguments)
    hosts = [host_named(name, site.inventory) for name in arguments.host.split(",")]
    with site.connections() as connections, ThreadPoolExecutor(_MOST_HOSTS_AT_ONCE) as threads:
        witnesses = [Witness(each, connections.to(each), forget, None) for each in hosts]

        def one(witness: Witness) -> Scanned:
            name = witness.host.name
            try:
                return Scanned(name, scan_on(witness, asked, teller(f"{name}: ")))
            except KvgateError as err:
                return Scanned(name, None, err)

        return list(threads.map(one, witnesses))


def asked_of(arguments: argparse.Namespace) -> Asked:
    """Return what the command line asks for; raises UsageError."""
    from kvgate.workloads.scanner.engine import Asked

    words = [word.strip() for word in arguments.blocks.split(",")]
    sizes = [_bytes("--blocks", word) for word in words if word != "cdc"]
    if arguments.jobs < 0 or arguments.jobs > 256:
        raise UsageError("--jobs: from 1 to 256")
    return Asked(
        paths=arguments.paths,
        sizes=tuple(sorted(set(sizes))),
        chunked="cdc" in words,
        memory=_bytes("--memory", arguments.memory),
        jobs=arguments.jobs,
        state=arguments.state or "",
    )


def _bytes(option: str, text: str) -> int:
    from kvgate.cli.places import quantity_of

    found = quantity_of(option, _SPACED.sub(r"\1 \2", text.strip()))
    if found.dimension != "bytes" or found.base != int(found.base):
        raise UsageError(f"{option}: '{text}' is no number of bytes", hint="write e.g. 4KiB, 1 GB")
    return int(found.base)


def teller(head: str) -> Told:
    """Return what says on standard error how far a scan is, where somebody reads along."""

    def told(progress: Progress) -> None:
        if sys.stderr.isatty():
            print(plain(f"  {head}{progress_text(progress)}"), file=sys.stderr)

    return told


def progress_text(progress: Progress) -> str:
    """Return one line: how much of all, at which rate, how long it still takes."""
    if not progress.total:
        return f"{progress.files:,} files listed"
    rate = progress.bytes / progress.elapsed_s if progress.elapsed_s else 0.0
    left = progress.left_s()
    told = f", {left:,.0f} s left" if left is not None else ""
    done = f"{progress.bytes / 1e9:,.2f} of {progress.total / 1e9:,.2f} GB"
    return f"{done}, {rate / 1e9:.2f} GB/s{told}"
