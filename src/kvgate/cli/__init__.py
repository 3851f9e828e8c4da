"""The command line: parse, call the engine, show, exit. The only prints and exit codes.

Nothing heavy is imported before the verb is known: ``kvgate --help`` starts in some 50 ms.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return kvgate's exit code (design.md section 7)."""
    from kvgate.cli.parser import build_parser

    words = list(sys.argv[1:] if argv is None else argv)
    arguments = build_parser().parse_args(words)
    return _guarded(arguments, words)


def _guarded(arguments: object, words: list[str]) -> int:
    """Run the verb; an error of ours explains itself, any other is the harness's."""
    from kvgate.errors import KvgateError

    try:
        code: int = arguments.verb(arguments, ["kvgate", *words])  # type: ignore[attr-defined]  # set by the parser
    except KvgateError as err:
        print(f"kvgate: {err}", file=sys.stderr)
        return err.exit_code
    except KeyboardInterrupt:
        print("kvgate: interrupted", file=sys.stderr)
        return 3
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output went away
        return 3
    except Exception as err:  # noqa: BLE001  the outermost border: nothing escapes unexplained
        import traceback

        from kvgate.untrusted import mask, plain

        told = f"{traceback.format_exc()}kvgate: broke: {type(err).__name__}: {err}"
        print(mask(plain(told)), file=sys.stderr)
        print(
            "  hint: this is a fault of kvgate; please report it with the lines above",
            file=sys.stderr,
        )
        return 3
    return code
