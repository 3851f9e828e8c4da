"""The verb serve: its options are the embedded engine's own."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

Verb = Callable[[argparse.Namespace, list[str]], int]
Add = Callable[[Any, str, str, str], argparse.ArgumentParser]


def add_serve(verbs: Any, add: Add, verb: Callable[[str, str], Verb]) -> None:
    """Add serve to `verbs`; `add` makes one, `verb` names what it calls."""
    from kvgate.serving.options import add_options

    parser = add(
        verbs,
        "serve",
        "serve a tiny random-weight model with a KV tier over OpenAI's protocols; no GPU",
        "kvgate serve --kv-path /mnt/device/kv --port 8000\n"
        "         kvgate serve --kv-path kv --hot '256 MiB' --pool '20 GB' --compress zstd",
    )
    add_options(parser)
    parser.set_defaults(verb=verb("serve", "serve_verb"), port=8000)
