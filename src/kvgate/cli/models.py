"""The verb on KV geometry: models, listed, one in detail, or read from a config.json."""

from __future__ import annotations

import argparse
from pathlib import Path

from kvgate.errors import UsageError
from kvgate.kv.geometry import Geometry, GeometryError

RANKS = (1, 2, 4, 8, 16)
DTYPES = ("bf16", "fp8")


def models_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """List the known models, tell one in detail, or read one from a config.json and keep it."""
    from kvgate.cli.places import own_models, write_new
    from kvgate.kv.models import as_yaml, known, named
    from kvgate.untrusted import plain

    if arguments.config:
        model = _read(arguments)
    else:
        models = known(own_models(arguments))
        if not arguments.model:
            _list(models)
            return 0
        model = named(arguments.model, models)
    for line in (*_head(model), *_ranks(model, arguments.chunk), *_tokens(model, arguments.tokens)):
        print(plain(line))
    if arguments.out:
        write_new(arguments.out, as_yaml(model).encode())
        print(f"kept: {arguments.out}")
    return 0


def _read(arguments: argparse.Namespace) -> Geometry:
    from kvgate.kv.hfconfig import geometry_of

    path = Path(arguments.config)
    try:
        with path.open("rb") as file:
            content = file.read(2**20 + 1)
    except OSError as err:
        raise UsageError(f"{path}: {err.strerror or err}") from err
    name = arguments.model or path.resolve().parent.name
    return geometry_of(content, name=name, source=arguments.source or f"{path.name} of {name}")


def _list(models: dict[str, Geometry]) -> None:
    wide = max(len(name) for name in models)
    print(f"{'model':<{wide}}  layers  bf16 B/token  fp8 B/token  attention")
    for name, model in models.items():
        bf16, fp8 = (f"{model.token_bytes(dtype):,}" for dtype in DTYPES)
        print(f"{name:<{wide}}  {model.layers:>6}  {bf16:>12}  {fp8:>11}  {model.attention}")
    print("in detail: kvgate models MODEL; of another: kvgate models NAME --config config.json")


def _head(model: Geometry) -> list[str]:
    lines = [f"{model.name}: {model.layers} layers, {model.attention}", f"source: {model.source}"]
    lines += [f"note: {note}" for note in model.notes]
    for dtype in DTYPES:
        far = model.far_token_bytes(dtype)
        window = (
            f"; {far:,} B once beyond the window of {model.window} tokens that "
            f"{model.window_layers} layers keep"
            if model.window_layers
            else ""
        )
        lines.append(f"{dtype}: {model.token_bytes(dtype):,} B a token{window}")
    return lines


def _ranks(model: Geometry, chunk: int) -> list[str]:
    """Return a line for each number of ranks and type: bytes a token and rank, and of a chunk."""
    if chunk < 1:
        raise UsageError(f"--chunk: {chunk} tokens: there is at least one")
    lines = [f"a rank (tensor parallel), chunks of {chunk} tokens:"]
    for ranks in RANKS:
        for dtype in DTYPES:
            try:
                shard = model.shard(ranks, dtype)
            except GeometryError as err:
                lines.append(f"  TP{ranks}: {err.message}")
                break
            copies = f"; each byte on {shard.copies} ranks" if shard.copies > 1 else ""
            lines.append(
                f"  TP{ranks} {dtype}: {shard.token_bytes:,} B a token, chunk "
                f"{_sized(shard.chunk_bytes(chunk))}; all ranks write "
                f"{shard.written_token_bytes:,} B a token{copies}"
            )
    return lines


def _tokens(model: Geometry, tokens: int | None) -> list[str]:
    if tokens is None:
        return []
    if tokens < 1:
        raise UsageError(f"--tokens: {tokens}: there is at least one")
    return [
        f"{tokens:,} tokens, {dtype}: {_sized(model.context_bytes(tokens, dtype))}"
        for dtype in DTYPES
    ]


def _sized(number: int) -> str:
    """Return bytes exactly, and in both GB (10⁹) and GiB (2³⁰)."""
    return f"{number:,} B ({number / 10**9:.4g} GB, {number / 2**30:.4g} GiB)"
