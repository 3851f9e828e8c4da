"""Verbs that hand a run over: sign, export."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from kvgate.cli.places import run_of, setup_of
from kvgate.errors import UsageError
from kvgate.untrusted import plain

if TYPE_CHECKING:
    from kvgate.engine.sign import Signer


def sign_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Sign a run's results; --protocol: the criteria before it; --head: its journal meanwhile."""
    if arguments.protocol:
        return _protocol(arguments)
    if not arguments.run or arguments.plan or arguments.inventory:
        raise UsageError("name the run to sign, or sign a plan's criteria with --protocol --plan")
    return _head(arguments) if arguments.head else _results(arguments)


def _protocol(arguments: argparse.Namespace) -> int:
    from kvgate.engine.check import refuse_unsound
    from kvgate.engine.sign import sign_protocol

    if arguments.run or arguments.decision or arguments.condition or arguments.head:
        raise UsageError(
            "--protocol signs the criteria of --plan and --inventory: no RUN, no --decision"
        )
    signer = _signer(arguments)
    workspace, setup = setup_of(arguments)
    refuse_unsound(workspace, setup)
    made = sign_protocol(workspace, setup, signer)
    print(plain(f"approved by the {signer.role}, {made.statement.signer}: {made.path}"))
    print(
        f"criteria: SHA-256 {made.statement.of['criteria_digest']}\n"
        "runs of this plan and inventory carry it from now on; what is changed after it is marked"
    )
    return 0


def _head(arguments: argparse.Namespace) -> int:
    from kvgate.engine.sign import sign_head

    if arguments.decision or arguments.condition:
        raise UsageError("--head decides nothing: no --decision, no --condition")
    signer = _signer(arguments)
    made = sign_head(run_of(arguments, arguments.run), signer)
    of = made.statement.of
    print(plain(f"countersigned by the {signer.role}, {made.statement.signer}: {made.path}"))
    print(
        f"journal: {of['seq']} records, head {of['head']}, at {made.statement.claimed_at}\n"
        "keep a copy of both files (.json, .sig): whoever can write the run's folder can remove "
        "them, but then can't explain yours"
    )
    return 0


def _results(arguments: argparse.Namespace) -> int:
    from kvgate.engine.sign import sign_results

    signer, run = _signer(arguments), run_of(arguments, arguments.run)
    made = sign_results(
        run, signer, decision=arguments.decision, conditions=tuple(arguments.condition)
    )
    of = made.statement.of
    print(plain(f"signed by the {signer.role}, {made.statement.signer}: {of['decision']}"))
    print(f"at {made.statement.claimed_at} by this machine's clock: it proves who, not when")
    print(f"sealed: {made.layer}\ncheck it: kvgate verify {run.name}")
    return 0


def export_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Write a sealed run as one archive; with --key sign the archive's own digest too."""
    from kvgate.engine.scope_out import parent
    from kvgate.engine.sign import sign_archive
    from kvgate.store.export import export
    from kvgate.store.reader import RunReader
    from kvgate.store.sums import hash_file

    if bool(arguments.key) != bool(arguments.role):
        raise UsageError("--key and --role go together: they sign the archive")
    run = run_of(arguments, arguments.run)
    out = Path(arguments.out or f"{run.name}.tar.zst")
    files = export(run, out)
    print(f"{out}: {files} files, {out.stat().st_size} bytes, SHA-256 {hash_file(out)}")
    if arguments.key:
        made = sign_archive(run, out, _signer(arguments))
        print(plain(f"signed by the {arguments.role}, {made.statement.signer}: {made.path}"))
        print("hand over all three: archive, .json and .sig")
    if of := parent(RunReader(run)):
        print(plain(f"it retests {of}: export that too; both are verified side by side"))
    return 0


def _signer(arguments: argparse.Namespace) -> Signer:
    from kvgate.engine.sign import Signer

    key = Path(arguments.key).expanduser()
    return Signer(arguments.role, key, arguments.principal, getattr(arguments, "tsa", ""))
