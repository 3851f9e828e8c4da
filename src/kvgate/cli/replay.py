"""The verb replay: KV traffic of a real geometry on a folder here, or on hosts of the inventory."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kvgate.errors import UsageError

if TYPE_CHECKING:
    from kvgate.kv.geometry import Geometry
    from kvgate.model.record import Evidence, EvidenceRef
    from kvgate.witness import Witness
    from kvgate.workloads.replay import Reads, Spec

MOST_AT_ONCE = 4096


def replay_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Replay and show; 0: all restored right and cold, 1: damaged, 2: not proven or not run."""
    from kvgate.cli import replay_show
    from kvgate.workloads import replay

    if bool(arguments.path) == bool(arguments.host):
        raise UsageError("replay takes --path DIR, or --host NAME,… of an inventory")
    spec = spec_of(arguments)
    spec.refuse()

    def tell(text: str) -> None:
        if sys.stderr.isatty():
            print(f"  {text}", file=sys.stderr)

    stored = spec.sessions * spec.session_bytes / 1e9
    tell(f"stores {stored:.1f} GB on each host, and reads it at {len(spec.levels)} levels")
    with _witnesses(arguments) as witnesses:
        if arguments.two_by_two is not None:
            return _two_by_two(arguments, witnesses, spec)
        told = replay.run(witnesses, spec, on_progress=tell)
    found = [each.found for each in told]
    if arguments.json:
        print(json.dumps(replay_show.document(spec, told), indent=1, allow_nan=False))
    else:
        print("\n".join(replay_show.lines(spec, told)))
    return replay_show.code(found)


def _two_by_two(arguments: argparse.Namespace, witnesses: list[Witness], spec: Spec) -> int:
    from kvgate.cli import replay_show
    from kvgate.workloads.replay_rounds import rounds

    if len(witnesses) != 1:
        raise UsageError("--two-by-two is of one host")
    if arguments.two_by_two < 5:
        raise UsageError("--two-by-two: an interval takes 5 rounds or more")
    found = rounds(witnesses[0], spec, arguments.two_by_two)
    shown = replay_show.two_document(found) if arguments.json else replay_show.two_lines(found)
    print(json.dumps(shown, indent=1) if arguments.json else "\n".join(shown))
    return 2 if found.not_cold else 0


@contextmanager
def _witnesses(arguments: argparse.Namespace) -> Iterator[list[Witness]]:
    """Yield who asks the folder here, or each host."""
    from kvgate.witness import Witness

    if arguments.path:
        with _here(Path(arguments.path)) as here:
            yield [here]
        return
    from kvgate.cli.places import site_of
    from kvgate.cli.probe import host_named

    site = site_of(arguments)
    hosts = [host_named(name, site.inventory) for name in arguments.host.split(",")]
    with site.connections() as connections:
        found = [Witness(host, connections.to(host), _keep, site.adapter(host)) for host in hosts]
        yield [_on_arm(each, arguments.arm) for each in found] if arguments.arm else found


@contextmanager
def _here(path: Path) -> Iterator[Witness]:
    from kvgate.spec.inventory import Host, Role
    from kvgate.transport.local import LocalTransport
    from kvgate.witness import Witness

    if not path.is_dir():
        raise UsageError(f"--path: {path} is no folder")
    host = Host(
        name="here",
        roles=[Role.SERVING],
        transport="local",
        scratch=str(path.resolve()),
        tools={"python3": sys.executable},
    )
    way = LocalTransport("here")
    try:
        yield Witness(host, way, _keep)
    finally:
        way.close()


def _on_arm(witness: Witness, arm: str) -> Witness:
    from kvgate.workloads.fio_arms import on, place_of

    place = place_of(witness.host, arm)
    if place.scratch is None:
        raise UsageError(f"arm '{arm}' of {witness.host.name} has no folder")
    return on(witness, place.scratch)


def _keep(piece: Evidence) -> EvidenceRef:
    return hashlib.sha256(piece.stdout).hexdigest()


def spec_of(arguments: argparse.Namespace) -> Spec:
    """Return what the options ask for; raises UsageError, GeometryError."""
    from kvgate.cli.places import own_models
    from kvgate.kv import models
    from kvgate.workloads.replay import Spec

    model = _model(arguments.model, models.known(own_models(arguments)))
    shard = model.shard(_whole("--tp", arguments.tp, 4096), arguments.dtype)
    tokens = _whole("--tokens", arguments.tokens, 10**8)
    each = _whole("--chunk-tokens", arguments.chunk_tokens, 10**6)
    chunks = -(-tokens // each)
    ranks = _whole("--ranks", arguments.ranks or arguments.tp, arguments.tp)
    if not 0 <= arguments.shared <= 100:
        raise UsageError("--shared: from 0 to 100")
    if not 0 <= arguments.seed < 2**63:
        raise UsageError("--seed: a whole number from 0 to 2^63 - 1")
    return Spec(
        seed=arguments.seed,
        sessions=_whole("--sessions", arguments.sessions, 10**6),
        chunks=chunks,
        chunk_bytes=shard.chunk_bytes(each),
        ranks=ranks,
        shared=chunks * arguments.shared // 100,
        compressed_pct=arguments.compressible,
        block_bytes=_size("--block", arguments.block),
        extents=arguments.extents,
        direct=not arguments.buffered,
        checked=not arguments.no_check,
        drop_caches=arguments.drop_caches,
        levels=_levels(arguments, each),
        fill=tuple(_numbers("--fill", arguments.fill, 99)) if arguments.fill else (),
        full=arguments.full,
        capacity=_size("--capacity", arguments.capacity),
        plant=arguments.plant,
    )


def _model(name: str, known: dict[str, Geometry]) -> Geometry:
    """Return the model of this name, or the only one whose name begins so."""
    from kvgate.kv import models

    beginning = [each for each in known if each.startswith(name)]
    return known[beginning[0]] if len(beginning) == 1 else models.named(name, known)


def _levels(arguments: argparse.Namespace, chunk_tokens: int) -> tuple[Reads, ...]:
    from kvgate.workloads.replay import Reads

    ways = [_readers(word) for word in arguments.reads.split(",")]
    if arguments.trace:
        due = _arrivals(arguments, chunk_tokens)
        return tuple(Reads(concurrency=1, readers=way, arrivals=due) for way in ways)
    if not 0 <= arguments.mixed < 100:
        raise UsageError("--mixed: from 0 to 99")
    return tuple(
        Reads(concurrency=concurrency, readers=way, store_pct=arguments.mixed)
        for concurrency in _numbers("--concurrency", arguments.concurrency, MOST_AT_ONCE)
        for way in ways
    )


def _arrivals(arguments: argparse.Namespace, chunk_tokens: int) -> tuple[tuple[float, int], ...]:
    """Return when a trace's requests come, and how many chunks of a rank each finds stored."""
    from kvgate.kv import trace

    if not arguments.speed > 0:
        raise UsageError("--speed: a number above 0")
    most = -(-arguments.tokens // chunk_tokens)
    seen: set[int] = set()
    found: list[tuple[float, int]] = []
    first: float | None = None
    for request in trace.requests([Path(arguments.trace)]):
        first = request.time_s if first is None else first
        hit = 0
        for block in request.ids.tolist():
            if block not in seen:
                break
            hit += 1
        seen.update(request.ids.tolist())
        chunks = min(most, hit * request.block_tokens // chunk_tokens)
        if chunks:
            found.append(((request.time_s - first) / arguments.speed, chunks))
    if not found:
        raise UsageError(f"--trace: no request of {arguments.trace} finds anything stored")
    return tuple(found)


def _readers(word: str) -> int:
    kind, _, number = word.strip().partition(":")
    if kind == "serial" and not number:
        return 1
    if kind != "parallel":
        raise UsageError(f"--reads: '{word}' is neither serial nor parallel:N")
    return _numbers("--reads", number or "8", 256)[0]


def _numbers(option: str, text: str, most: int) -> list[int]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and len(word) < 8 and 1 <= int(word) <= most for word in words):
        raise UsageError(f"{option}: '{text}': whole numbers from 1 to {most}, by commas")
    return [int(word) for word in words]


def _whole(option: str, number: int, most: int) -> int:
    if not 1 <= number <= most:
        raise UsageError(f"{option}: from 1 to {most:,}")
    return number


def _size(option: str, text: str | None) -> int:
    from kvgate.cli.places import quantity_of

    if text is None:
        return 0
    size = quantity_of(option, text)
    if size.dimension != "bytes" or not 0 < size.base < 10**16:
        raise UsageError(f"{option}: '{text}' is no size", hint="write e.g. '1 MiB' or '20 GB'")
    return int(size.base)
