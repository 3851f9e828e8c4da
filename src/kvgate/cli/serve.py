"""The verb serve: the embedded engine, until it is told to stop."""

from __future__ import annotations

import argparse
import sys


def serve_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Serve until SIGINT or SIGTERM; 64: an option that can't be meant, 3: no such address."""
    from kvgate.serving.launch import options_of, run

    options = options_of(arguments)
    address = f"[{options.host}]" if ":" in options.host else options.host

    def told(facts: dict[str, object]) -> None:
        tier = options.kv_path or "no KV tier"
        print(
            f"kvgate: http://{address}:{facts['port']}/v1 serves '{options.model}', {tier}; "
            "Ctrl-C ends it",
            file=sys.stderr,
        )

    run(options, told)
    return 0
