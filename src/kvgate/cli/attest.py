"""The verb attest: walks a run's manual checks on a terminal, or takes them from a sheet."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kvgate.cli.places import run_of
from kvgate.errors import UsageError
from kvgate.untrusted import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvgate.model.attested import Question


def attest_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Take down answers to a run's manual checks; 0: all are answered, 2: some are open."""
    from kvgate.engine import attest, attest_sheet
    from kvgate.store import attested

    run = run_of(arguments, arguments.run)
    asked = attest.asked_of(run)
    if arguments.write_sheet:
        attest_sheet.write(Path(arguments.write_sheet), asked)
        print(
            f"{arguments.write_sheet}: {len(asked)} checks; fill in answer (yes or no), note, "
            f"photos and by, then:\n  kvgate attest {run.name} --sheet {arguments.write_sheet}"
        )
        return 0
    with attested.writing(run):
        before = len(attested.answers(run))
        if arguments.sheet:
            told = attest_sheet.read(Path(arguments.sheet), asked, arguments.by or "")
            attest.record_all(run, told, strip=arguments.strip_metadata)
        else:
            _walk(arguments, run, asked if arguments.again else attest.open_of(run, asked))
        stored = len(attested.answers(run)) - before
        layer = attest.seal_answers(run)
    open_ = attest.open_of(run, asked)
    print(f"{stored} answers stored; {len(asked) - len(open_)} of {len(asked)} checks are answered")
    if layer:
        print(f"sealed: {layer}")
    print(f"  next: kvgate {'attest' if open_ else 'status'} {run.name}")
    return 2 if open_ else 0


def _walk(arguments: argparse.Namespace, run: Path, asked: Sequence[Question]) -> None:
    """Ask one question after the other; what was answered stays, whatever ends the walk."""
    if not sys.stdin.isatty():
        raise UsageError(
            "attest asks on a terminal, and here is none",
            hint="write a sheet (--write-sheet FILE), fill it in, and give it back with --sheet",
        )
    if not asked:
        return
    by = arguments.by or _line("who looks (your name): ")
    for number, question in enumerate(asked, 1):
        print(plain(f"\n[{number} of {len(asked)}] {question.where}: {question.text}"))
        if not _one(arguments, run, question, by):
            return


def _one(arguments: argparse.Namespace, run: Path, question: Question, by: str) -> bool:
    """Ask one question until its answer is stored or left open; False: the walk ends."""
    from kvgate.engine import attest

    while True:
        word = _line("  is it so? yes, no, skip, quit: ").lower()
        if word in ("s", "skip"):
            return True
        if word in ("q", "quit"):
            return False
        if word not in ("y", "yes", "n", "no"):
            continue
        ok = word.startswith("y")
        note = _line("  note: " if ok else "  what is wrong: ", needed=not ok)
        named = _line("  photo files, with ';' between (or none): ", needed=False)
        told = attest.Told(
            question=question,
            ok=ok,
            by=by,
            note=note,
            photos=tuple(Path(p.strip()).expanduser() for p in named.split(";") if p.strip()),
        )
        try:
            attest.record(run, told, strip=arguments.strip_metadata)
        except UsageError as err:
            print(f"  {err}\n  nothing was stored: once more")
            continue
        return True


def _line(prompt: str, *, needed: bool = True) -> str:
    """Return a line that was typed; end of input ends the walk as Ctrl-C does."""
    while True:
        try:
            text = input(prompt).strip()
        except EOFError as err:
            raise KeyboardInterrupt from err
        if text or not needed:
            return text
