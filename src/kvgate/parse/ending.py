"""How a command ended: an answer of a command that failed is no answer."""

from __future__ import annotations

from collections.abc import Callable, Collection

from kvgate.parse.text import refuse


def ended_well(tool: str, exit_code: int | None, fine: Collection[int] = (0,)) -> None:
    """Raise ParseError where `tool` ended with another exit code than those of `fine`.

    None (not known, as with a saved output) is no objection.
    """
    if exit_code is not None and exit_code not in fine:
        refuse(
            tool,
            f"the command ended with exit code {exit_code}: what it printed is no answer",
            hint="see its stderr in the evidence",
        )


def reads(
    tool: str, parser: Callable[[bytes], object], fine: Collection[int] = (0,)
) -> Callable[[bytes, int | None], object]:
    """Return the parser of `tool` as registry.Reader: the exit code is looked at first."""

    def read(answer: bytes, exit_code: int | None) -> object:
        ended_well(tool, exit_code, fine)
        return parser(answer)

    return read
