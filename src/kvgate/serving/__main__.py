"""The command line of the embedded engine alone: ``python -m kvgate.serving --help``."""

from __future__ import annotations

import argparse
import sys

from kvgate.errors import KvgateError
from kvgate.serving.launch import options_of, run
from kvgate.serving.options import add_options


def main() -> int:
    """Serve until told to stop; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m kvgate.serving",
        description="Serve a tiny random-weight decoder over OpenAI's protocols.",
    )
    add_options(parser)
    try:
        run(options_of(parser.parse_args()))
    except KvgateError as err:
        sys.stderr.write(f"{err}\n")
        return err.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
