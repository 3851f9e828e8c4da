"""Verbs on a stored run: judge, report, seal, verify."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kvgate.cli.parser import FORMATS
from kvgate.cli.places import run_of
from kvgate.errors import UsageError


def judge_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Judge a stored run again; other gates give findings of their own, beside the first."""
    from rich.console import Console

    from kvgate.cli.show import show_result
    from kvgate.engine.judging import judge_stored
    from kvgate.store.findings import write_findings

    run = run_of(arguments, arguments.run)
    gates = Path(arguments.gates) if arguments.gates else None
    result = judge_stored(run, gates=gates)
    name = f"findings-{result.criteria_digest[:12]}.json" if gates else "findings.json"
    written = write_findings(run, result, name=name)
    show_result(Console(highlight=False), result)
    print(f"findings: {written}")
    return result.verdict.exit_code


def report_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Write a run's report in the formats asked for, from its findings."""
    from kvgate.cli.places import templates_of
    from kvgate.engine.judging import judge_stored
    from kvgate.report.write import write_reports

    formats = tuple(part.strip() for part in arguments.format.split(",") if part.strip())
    wrong = [part for part in formats if part not in FORMATS]
    if wrong or not formats:
        raise UsageError(
            f"--format: '{', '.join(wrong)}' is no format; known: {', '.join(FORMATS)}"
        )
    run = run_of(arguments, arguments.run)
    templates = templates_of(arguments)
    for path in write_reports(run, judge_stored(run), templates=templates, formats=formats):
        print(path)
    return 0


def seal_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Seal a run, or what was added since its last seal."""
    from kvgate.store.seal import seal

    print(f"sealed: {seal(run_of(arguments, arguments.run))}")
    return 0


def verify_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Name every altered, missing or added piece; 0: all is as sealed, 1: it is not."""
    from kvgate.store.seal import verify
    from kvgate.untrusted import plain

    found = verify(run_of(arguments, arguments.run))
    for layer in found.layers:
        print(plain(f"layer {layer}"))
    for problem in found.problems:
        print(plain(f"{problem.kind}: {problem.path}: {problem.detail}"), file=sys.stderr)
    print(
        "verified: every byte is as it was sealed"
        if found.ok
        else f"NOT verified: {len(found.problems)} problems"
    )
    return 0 if found.ok else 1
