"""Verbs on a stored run: judge, report, seal, noise."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kvgate.cli.parser import FORMATS
from kvgate.cli.places import run_of
from kvgate.errors import UsageError


def judge_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Judge a stored run again; other gates give findings of their own, beside the first.

    What is shown counts people's answers since (kvgate attest); the findings file stays the run's.
    """
    from rich.console import Console

    from kvgate.cli.show import show_result
    from kvgate.engine.judging import judge_stored
    from kvgate.store.attested import answers
    from kvgate.store.findings import write_findings

    run = run_of(arguments, arguments.run)
    gates = Path(arguments.gates) if arguments.gates else None
    result = judge_stored(run, gates=gates)
    name = f"findings-{result.criteria_digest[:12]}.json" if gates else "findings.json"
    written = write_findings(run, result, name=name)
    if not gates and answers(run):
        result = judge_stored(run, attestations=True)
    show_result(Console(highlight=False), result)
    print(f"findings: {written}")
    if gates:
        print(f"report by these gates: kvgate report {run} --gates {gates}")
    return result.verdict.exit_code


def report_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Write a run's report in the formats asked for; by other gates beside the first."""
    from kvgate.cli.places import templates_of
    from kvgate.engine.judging import judge_stored
    from kvgate.engine.workspace import frozen_setup
    from kvgate.report.write import write_reports
    from kvgate.store.layout import is_sealed
    from kvgate.store.reader import RunReader
    from kvgate.untrusted import plain

    formats = tuple(part.strip() for part in arguments.format.split(",") if part.strip())
    wrong = [part for part in formats if part not in FORMATS]
    if wrong or not formats:
        raise UsageError(
            f"--format: '{', '.join(wrong)}' is no format; known: {', '.join(FORMATS)}"
        )
    run = run_of(arguments, arguments.run)
    gates = Path(arguments.gates) if arguments.gates else None
    result = judge_stored(run, gates=gates, attestations=gates is None)
    setup = frozen_setup(RunReader(run), gates) if gates else None
    made = write_reports(
        run, result, templates=templates_of(arguments), formats=formats, setup=setup
    )
    for path in made:
        print(path)
    if is_sealed(run):
        told = (
            f"the run is sealed: `kvgate seal {run.name}` seals this report too (verify names it)"
        )
        print(plain(told), file=sys.stderr)
    return 0


def seal_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Seal a run, or what was added since its last seal."""
    from kvgate.store.seal import seal

    print(f"sealed: {seal(run_of(arguments, arguments.run))}")
    return 0


def noise_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Print a run's A/A noise and the margin to propose for each measure; 2: it has none."""
    from kvgate.engine.noise import noise
    from kvgate.engine.workspace import frozen_setup
    from kvgate.judge.comparison import percent_told
    from kvgate.spec.gate import MOST_MARGIN
    from kvgate.store.reader import RunReader
    from kvgate.untrusted import plain

    reader = RunReader(run_of(arguments, arguments.run))
    found = noise(reader, frozen_setup(reader, None))
    for row in found:
        what = f"{row.measure}, {row.arm} against itself"
        print(plain(f"{what}, {row.where or 'everywhere'}, on {row.host}: ") + row.told())
    if not found:
        print(
            "this run has no A/A rounds: nothing is known of its noise\n"
            "  hint: set 'again' of workloads.kv or fio_arms to an arm to be run twice a round",
            file=sys.stderr,
        )
        return 2
    noisy = [row for row in found if not isinstance(row.found, str) and row.noisy]
    if noisy:
        worst = max(row.found.noise for row in noisy if not isinstance(row.found, str))
        print(
            f"the noise is up to {percent_told(worst)}, above {MOST_MARGIN}: margins stay there; "
            "claims nearer to a limit than the noise will end inconclusive"
        )
    return 0 if all(row.margin is not None for row in found) else 2
