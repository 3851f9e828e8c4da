"""Records a site: from a run's evidence to an inventory whose hosts answer again what they did."""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from kvgate.engine import record_folders as folders
from kvgate.engine.adapters import FOLDER
from kvgate.engine.scope import asked_in
from kvgate.engine.workspace import BOM_INPUT, Setup, Workspace, frozen_setup
from kvgate.errors import UsageError
from kvgate.model.record import Evidence
from kvgate.store import disk
from kvgate.store.reader import RunReader
from kvgate.transport.base import CommandResult
from kvgate.transport.recording import Answered, Recording, to_bytes
from kvgate.untrusted import mask, mask_bytes

RECORDINGS = "hosts"
"""The folder of recordings beside the recorded inventory."""

_KEPT = (
    *("roles", "address", "sudo", "tools", "scratch", "arms", "baseline", "declared"),
    *("adapter", "of", "simulated"),  # of devices
)
_SIGNAL = re.compile(r"ended by signal (\d{1,3})", re.ASCII)
_DEADLINE = re.compile(r"ended by its deadline after .*")
_MASKED = re.compile(r"masked: (\d{1,9}) places?", re.ASCII)
_DROPPED = re.compile(r"(stdout|stderr): (\d{1,18}) bytes over the cap were dropped", re.ASCII)
_BASE = re.compile(rb"^base:.*$", re.MULTILINE)


@dataclasses.dataclass(frozen=True, slots=True)
class RecordedSite:
    """What was written: inventory and plan, how many answers of each host, and remarks."""

    inventory: Path
    plan: Path
    answers: dict[str, int]
    remarks: tuple[str, ...]


def record(workspace: Workspace, run: Path, out: Path) -> RecordedSite:
    """Write what the hosts of `run` answered, and its inventory and plan, into folder `out`.

    1. Take every answered command from the run's evidence, in order; where a gate was begun again
       after an interruption, the answers of the last process that asked a command in its block
       (or in the gate, outside of blocks). Folders that each of these processes made for one
       purpose have the name of the last one: a replay makes it once.
    2. Mask secrets: what the evidence was masked for already, and what is known by now.
    3. Write a recording a host, the inventory with the site's declarations and without the ways
       to its hosts, its baseline, and the plan.
    Raises UsageError where `out` holds anything, DamagedRunError for altered evidence.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out}: is there already", hint="name a new folder with --out")
    reader = RunReader(run)
    setup = frozen_setup(reader)
    recordings = _recordings(reader, setup)  # 1, 2
    disk.make_folder(out / RECORDINGS)
    for made in recordings:
        disk.replace(out / RECORDINGS / f"{made.host}.jsonl", to_bytes(made))  # 3
    if setup.baseline:
        disk.replace(out / "baseline.yaml", setup.baseline.files[0].content)
    if setup.bom:
        disk.replace(out / BOM_INPUT, setup.bom.files[0].content)
    for name, adapter in setup.adapters.items():
        disk.make_folder(out / FOLDER)
        disk.replace(out / FOLDER / f"{name}.yaml", adapter.files[0].content)
    plan = _write_plan(workspace, setup, out)
    inventory = out / "inventory.yaml"
    disk.replace(inventory, _inventory(setup, run.name))
    return RecordedSite(
        inventory,
        plan,
        {made.host: len(made.answers) for made in recordings},
        tuple(_remarks(workspace, setup, recordings)),
    )


def _recordings(reader: RunReader, setup: Setup) -> list[Recording]:
    """Return the recording of every host of the inventory, also of one that never answered."""
    asked: dict[str, list[tuple[str, Evidence]]] = {}
    for piece in reader.all_evidence():
        asked.setdefault(piece.host, []).append((asked_in(piece.notes), piece))
    begins = _begins(reader)
    silent = _silent(reader)
    found = []
    for host in setup.inventory.value.hosts:
        pieces = folders.as_one(asked.get(host, []))
        answers = tuple(_answered(scope, piece) for scope, piece in _last_time(pieces, begins))
        gates = {_gate(answer.scope) for answer in answers}
        found.append(
            Recording(
                host=host,
                source=str(reader.manifest["run"]),
                answers=answers,
                unreachable={g: why for g, why in silent.get(host, {}).items() if g not in gates},
            )
        )
    return found


def _gate(scope: str) -> str:
    return scope.partition("/")[0]


def _begins(reader: RunReader) -> dict[str, list[datetime.datetime]]:
    """Return gate → when it was begun, and begun again."""
    found: dict[str, list[datetime.datetime]] = {}
    for event in reader.events("gate_begin"):
        found.setdefault(str(event.fields["gate"]), []).append(event.utc)
    return found


def _last_time(
    asked: Sequence[tuple[str, Evidence]], begins: dict[str, list[datetime.datetime]]
) -> Iterator[tuple[str, Evidence]]:
    """Yield of each command in a scope only what the last process was told that asked it there."""

    def time(scope: str, piece: Evidence) -> int:
        return sum(begun <= piece.started_at for begun in begins.get(_gate(scope), ()))

    last: dict[tuple[str, tuple[str, ...]], int] = {}
    for scope, piece in asked:
        which = scope, piece.command
        last[which] = max(last.get(which, 0), time(scope, piece))
    for scope, piece in asked:
        if time(scope, piece) == last[scope, piece.command]:
            yield scope, piece


def _silent(reader: RunReader) -> dict[str, dict[str, str]]:
    """Return host → gate → why it could not be asked for its serial numbers, without its name."""
    found: dict[str, dict[str, str]] = {}
    for event in reader.events("identity"):
        host, problem = str(event.fields["host"]), str(event.fields.get("problem") or "")
        gates = found.setdefault(host, {})
        gates.pop(str(event.fields["gate"]), None)
        if problem:
            gates[str(event.fields["gate"])] = problem.removeprefix(f"{host}: ")
    return found


def _answered(scope: str, piece: Evidence) -> Answered:
    """Return a piece of evidence as the answer it was, without secrets."""
    stdout, in_stdout = mask_bytes(piece.stdout)
    stderr, in_stderr = mask_bytes(piece.stderr)
    argv = tuple(mask(word) for word in piece.command)
    places = in_stdout + in_stderr + sum(a != b for a, b in zip(argv, piece.command, strict=True))
    places += sum(int(m[1]) for note in piece.notes if (m := _MASKED.fullmatch(note)))
    ended = [match for note in piece.notes if (match := _SIGNAL.fullmatch(note))]
    dropped = {m[1]: int(m[2]) for note in piece.notes if (m := _DROPPED.fullmatch(note))}
    result = CommandResult(
        host=piece.host,
        argv=argv,
        exit_status=piece.exit_status,
        stdout=stdout,
        stderr=stderr,
        started_at=piece.started_at,
        elapsed_s=(piece.ended_at - piece.started_at).total_seconds(),
        timed_out=any(_DEADLINE.fullmatch(note) for note in piece.notes),
        stdout_dropped=dropped.get("stdout", 0),
        stderr_dropped=dropped.get("stderr", 0),
        signal=int(ended[0][1]) if ended else None,
        masked=places,
    )
    return Answered(result=result, scope=scope)


def _inventory(setup: Setup, run: str) -> bytes:
    """Return the inventory without the ways to its hosts: each is its recording.

    The address stays: it is in the command of every engine that was started there.
    """
    file = setup.inventory.files[0]
    hosts = {}
    for name, entry in file.value["hosts"].items():
        kept = {key: entry[key] for key in _KEPT if key in entry}
        way = {"transport": "recorded", "recording": f"{RECORDINGS}/{name}.jsonl"}
        hosts[name] = {"roles": kept.pop("roles"), **way, **kept}
    site: dict[str, Any] = {**file.value, "hosts": hosts}
    if setup.baseline:
        site["baseline"] = "baseline.yaml"
    if setup.bom:
        site["bom"] = BOM_INPUT
    text = yaml.safe_dump(site, sort_keys=False, allow_unicode=True, width=100)
    head = (
        f"# What the hosts answered in run {run}, written by `kvgate record`; replays anywhere.\n"
    )
    return mask(head + text).encode("utf-8")


def _write_plan(workspace: Workspace, setup: Setup, out: Path) -> Path:
    """Write the plan, and its base beside it where that can be named from the workspace."""
    plan, *base = setup.plan.files
    content = plan.content
    if base and out.resolve().is_relative_to(workspace.root):
        disk.replace(out / "plan-base.yaml", base[0].content)
        named = f"base: {workspace.name(out / 'plan-base.yaml')}"
        content = _BASE.sub(lambda _: named.encode("utf-8"), content, count=1)
    disk.replace(out / "plan.yaml", content)
    return out / "plan.yaml"


def _remarks(workspace: Workspace, setup: Setup, recordings: Sequence[Recording]) -> Iterator[str]:
    """Yield what someone who replays it should know."""
    for made in recordings:
        hidden = sum(1 for answer in made.answers if answer.result.masked)
        if hidden:
            yield f"{made.host}: {hidden} answers held secrets, which are masked"
        if not made.answers:
            why = next(iter(made.unreachable.values()), "nothing was asked of it")
            yield f"{made.host}: no answer is recorded: {why}"
    if any(answer.scope == "" for made in recordings for answer in made.answers):
        yield "some answers don't tell in which gate they were asked: an older run, or a soak"
    for gate in setup.gates.values():
        file = gate.files[0]
        here = workspace.root / "gates" / Path(file.name).name
        if not here.is_file() or here.read_bytes() != file.content:
            yield f"gates/{here.name} of this workspace is not the one that the run was judged by"
