"""The manifest: who, when, with what; the format version and the digest of every frozen input."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from kvgate.errors import DamagedRunError, StoreError
from kvgate.store import disk
from kvgate.store.canonical import laid_out, parse, sha256
from kvgate.store.layout import (
    FORMAT,
    INPUTS,
    MANIFEST,
    read_bytes,
    safe_name,
    shown,
    unknown_format,
)


class Who(TypedDict):
    """Who made the run, where the controller ran."""

    user: str
    host: str


class Git(TypedDict, total=False):
    """The commit of the workspace; empty where it is in no repository."""

    head: str
    dirty: bool


class Retest(TypedDict):
    """What a retest repeats: criteria of an earlier run, which it never changes."""

    of: str  # the run
    root: str  # the first run of the lineage
    seal: str  # SHA-256 of that run's first seal layer
    criteria: list[str]  # all that is judged again
    asked: list[str]  # those that people named, which the plan's limit counts
    changed: list[str]  # parts that were replaced or updated, as people named them
    reason: str


class Manifest(TypedDict):
    """What ``manifest.json`` holds: what was going to be done. Later kvgates may add keys."""

    format: str
    run: str
    created: str  # RFC 3339, UTC
    who: Who
    kvgate: str
    python: str
    platform: str
    git: Git
    command: list[str]
    plan: str
    title: str
    profile: str
    seed: int
    inventory: str
    inventory_file: str
    plan_file: str
    gates: list[str]
    criteria_digest: str
    inputs: dict[str, str]  # name in inputs/ → SHA-256
    recorded: NotRequired[bool]  # some hosts were recordings: it can't be accepted
    composed: NotRequired[bool]  # these recordings were composed: no such site ever answered
    timing: NotRequired[bool]
    retest: NotRequired[Retest]
    yes_destroy: NotRequired[list[str]]  # serials of devices that people let be written over


def write(run: Path, manifest: Mapping[str, object], inputs: Mapping[str, bytes]) -> str:
    """Write inputs/ and then manifest.json of a new run; return the manifest's SHA-256."""
    if taken := {"format", "inputs"} & manifest.keys():
        raise StoreError(f"the manifest's {sorted(taken)} are written by the store itself")
    digests = {safe_name(name): sha256(data) for name, data in inputs.items()}
    data = laid_out({**manifest, "format": FORMAT, "inputs": digests})
    disk.make_folder(run / INPUTS)
    for name, content in inputs.items():
        disk.make_folder((run / INPUTS / name).parent)
        disk.replace(run / INPUTS / name, content)
    disk.replace(run / MANIFEST, data)
    return sha256(data)


def read(run: Path) -> tuple[dict[str, Any], str]:
    """Return the manifest and its SHA-256; raises StoreError unless it is of a format we know."""
    if not (run / MANIFEST).exists():
        raise StoreError(
            f"{run}: is not a run folder: it has no {MANIFEST}",
            hint="a run whose creation was interrupted holds nothing: remove it and start again",
        )
    data = read_bytes(run / MANIFEST)
    try:
        manifest = parse(data)
        version, inputs = manifest["format"], manifest["inputs"]
    except (ValueError, KeyError, TypeError) as err:
        raise DamagedRunError(f"{run / MANIFEST}: is not a manifest: {err!r}") from err
    if version != FORMAT:
        raise unknown_format(str(run), version, FORMAT)
    if not isinstance(inputs, dict):
        raise DamagedRunError(f"{run / MANIFEST}: 'inputs' is no table of digests")
    return manifest, sha256(data)


def read_input(run: Path, manifest: Mapping[str, Any], name: str) -> bytes:
    """Return the frozen input `name`; raises DamagedRunError if it is not what was frozen."""
    if name not in manifest["inputs"]:
        raise StoreError(
            f"{run}: has no input {shown(name)}",
            hint=f"its inputs: {', '.join(sorted(manifest['inputs']))}",
        )
    data = read_bytes(run / INPUTS / safe_name(name))
    if (actual := sha256(data)) != manifest["inputs"][name]:
        raise DamagedRunError(
            f"{run / INPUTS / name}: was altered: SHA-256 is {actual}, the "
            f"manifest says {manifest['inputs'][name]}"
        )
    return data
