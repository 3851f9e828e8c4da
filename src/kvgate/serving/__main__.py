"""The command line of the embedded engine: ``python -m kvgate.serving --help``."""

from __future__ import annotations

import argparse
import asyncio
import os
import pathlib
import sys

from kvgate.errors import KvgateError

BLAS_THREADS = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m kvgate.serving",
        description="Serve a tiny random-weight decoder over OpenAI's completions protocol.",
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: any free one, told when ready")
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--seed", type=int, required=True, help="of the weights")
    tier = parser.add_mutually_exclusive_group(required=True)
    tier.add_argument("--kv-path", type=pathlib.Path, help="folder of the KV tier")
    tier.add_argument("--no-tier", action="store_true", help="recompute everything")
    parser.add_argument(
        "--threads",
        type=int,
        default=min(4, len(os.sched_getaffinity(0))),
        help="how many sequences are computed at once",
    )
    return parser


def main() -> int:
    """Serve until told to stop; returns the exit code."""
    given = _parser().parse_args()
    # Before NumPy is imported: with more threads BLAS splits a GEMM by what else is running.
    os.environ.update(dict.fromkeys(BLAS_THREADS, "1"))
    from kvgate.serving.engine import Options, serve

    options = Options(
        host=given.host,
        port=given.port,
        model=given.model,
        seed=given.seed,
        kv_path=given.kv_path,
        threads=given.threads,
    )
    try:
        asyncio.run(serve(options))
    except KvgateError as err:
        sys.stderr.write(f"{err}\n")
        return err.exit_code
    except OSError as err:
        sys.stderr.write(f"{given.host}:{given.port}: {err}\n")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
