"""The verb assess: what a workload reuses, from its trace."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kvgate.errors import UsageError

if TYPE_CHECKING:
    from kvgate.kv.assess import Question


def assess_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Show what the traces reuse, what each tier would serve, and what is recommended."""
    from kvgate.cli.predict import show
    from kvgate.kv import compiled
    from kvgate.kv.assess import assess
    from kvgate.kv.trace import Options, batches
    from kvgate.report.assessed import document, sheet

    question = question_of(arguments)
    if not compiled.available():
        print(f"kvgate: {compiled.SLOW}", file=sys.stderr)
    tokenizer = Path(arguments.tokenizer) if arguments.tokenizer else None
    options = Options(block_tokens=arguments.block, tokenizer=tokenizer)
    if arguments.block is not None and not 1 <= arguments.block <= 10**6:
        raise UsageError(f"--block: {arguments.block}: from 1 to 1,000,000 tokens")
    if arguments.dask:
        from kvgate.workloads import assess_dask

        found = assess_dask.assess(arguments.traces, options, question, arguments.dask)
    else:
        found = assess(batches([Path(each) for each in arguments.traces], options), question)
    names = [Path(each).name for each in arguments.traces]
    show(arguments, sheet(found, names), document(found, names))
    return 0


def question_of(arguments: argparse.Namespace) -> Question:
    """Return what is asked of a trace; raises UsageError."""
    from kvgate.cli.places import own_models
    from kvgate.kv.assess import Question
    from kvgate.kv.models import known, named

    geometry = named(arguments.model, known(own_models(arguments))) if arguments.model else None
    sizes = {name: _size(name, getattr(arguments, name)) for name in ("hbm", "dram", "tier")}
    if geometry is None and any(size is not None for size in sizes.values()):
        raise UsageError("--hbm, --dram and --tier need --model: the bytes of a token")
    path = _quantity("--path", arguments.path, "bytes/s")
    return Question(
        geometry=geometry,
        dtype=arguments.dtype,
        exclusive=arguments.exclusive,
        path=None if path is None else float(path),
        rate=arguments.rate,
        size=arguments.sample,
        **sizes,
    )


def _size(name: str, text: str | None) -> int | None:
    return _quantity(f"--{name}", text, "bytes")


def _quantity(option: str, text: str | None, dimension: str) -> int | None:
    """Return what `text` says in its base unit, None for none; raises UsageError."""
    from kvgate.cli.places import quantity_of

    if text is None:
        return None
    hint = "write e.g. '1.5 TB'" if dimension == "bytes" else "write e.g. '12.5 GB/s'"
    found = quantity_of(option, text, hint)
    if found.dimension != dimension or not 0 <= found.base < 10**18:
        raise UsageError(f"{option}: '{text}' is no {dimension}", hint=hint)
    return int(found.base)
