"""The verb verify: numbered steps on a run or an archive, offline, and one line of conclusion."""

from __future__ import annotations

import argparse
from pathlib import Path

from kvgate.errors import KvgateError, UsageError
from kvgate.model.finding import RunResult
from kvgate.store.verification import Problem
from kvgate.store.verify_steps import VERDICTS, Step
from kvgate.untrusted import plain

LINEAGE = ("lineage", "the runs it retests are those it cites, and give the stored disposition")


def verify_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """Name what is altered, missing or added, and who signed; 0: all proven, 1: it is not."""
    from kvgate.cli.places import run_of
    from kvgate.store.verify_archive import opened
    from kvgate.store.verify_steps import add_step

    if arguments.script:
        return _script(Path(arguments.script))
    if arguments.run is None:
        raise UsageError("name the run or the archive to be verified")
    named = Path(arguments.run)
    path = named if named.is_file() else run_of(arguments, arguments.run)
    signers = Path(arguments.allowed_signers) if arguments.allowed_signers else None
    authority = Path(arguments.tsa_ca) if arguments.tsa_ca else None
    with opened(path, signers, arguments.require, authority) as (run, outcome):
        whole = add_step(outcome, verdicts_step(run))
        if retests(run):
            whole = add_step(whole, lineage_step(run))
    for line in whole.lines():
        print(plain(line))
    return whole.exit_code


def _script(path: Path) -> int:
    """Write the single-file verifier of this kvgate, to be compared with that inside a run."""
    import importlib.metadata

    from kvgate.cli.places import write_new
    from kvgate.store.single import digest, single_file

    version = importlib.metadata.version("kvgate")
    write_new(str(path), single_file(version))
    print(f"{path}: the verifier of kvgate {version}, SHA-256 {digest(version)}")
    return 0


def verdicts_step(run: Path) -> Step:
    """Judge `run` again, and compare what was stored: verdicts, and the parties it was run for.

    Seals of additions can be made anew by anybody; what the run itself proves can't.
    """
    try:
        disposed = [] if retests(run) else _disposed(run)
        wrong = [*_forged(run), *_other_parties(run), *disposed]
    except KvgateError as err:
        wrong = [Problem("findings.json", "altered", f"it can't be judged again: {err.message}")]
    return Step(0, *VERDICTS, "FAILED" if wrong else "ok", problems=tuple(wrong))


def retests(run: Path) -> bool:
    """Tell whether `run` cites another that it retests."""
    from kvgate.engine.scope_out import parent
    from kvgate.store.reader import RunReader

    try:
        return bool(parent(RunReader(run)))
    except KvgateError:
        return False  # what is wrong with its manifest is told by the steps on its bytes


def lineage_step(run: Path) -> Step:
    """Check the runs that `run` retests, and what was decided about all of them together.

    Not done where they don't lie beside it: an archive holds one run.
    """
    from kvgate.engine.lineage import ParentAbsentError, chain
    from kvgate.store.verify import verify

    try:
        above = chain(run)[:-1]
        wrong = [
            Problem(f"{each.path.name}/{found.path}", found.kind, found.detail)
            for each in above
            for found in verify(each.path).problems
        ]
        wrong += _disposed(run)
    except ParentAbsentError as err:
        told = f"{err.message}: unpack both into one folder, and verify this one there"
        return Step(0, *LINEAGE, "not done", (told,))
    except KvgateError as err:
        wrong = [Problem("manifest.json", "unproven", err.message)]
    told = f"it retests {', '.join(each.path.name for each in above)}" if not wrong else ""
    return Step(0, *LINEAGE, "FAILED" if wrong else "ok", (told,) if told else (), tuple(wrong))


def _forged(run: Path) -> list[Problem]:
    """Return how the stored verdicts differ from those the judge finds in the run."""
    from kvgate.engine.judging import judge_stored
    from kvgate.store.findings import read_findings

    def verdicts(result: RunResult) -> dict[str, str]:
        parts = {gate.gate: f"{gate.verdict}, {gate.disposition}" for gate in result.gates}
        found = {f.criterion: str(f.verdict) for gate in result.gates for f in gate.findings}
        return {"run": str(result.verdict), **parts, **found}

    stored, judged = verdicts(read_findings(run)), verdicts(judge_stored(run))
    wrong = [key for key in sorted(stored.keys() | judged) if stored.get(key) != judged.get(key)]
    return [
        Problem(
            "findings.json",
            "altered",
            f"{key} is {stored.get(key, 'absent')} there, "
            f"the judge finds {judged.get(key, 'none')}",
        )
        for key in wrong
    ]


def _disposed(run: Path) -> list[Problem]:
    """Return what was frozen as disposition and isn't what the findings and waivers give."""
    from kvgate.engine.disposing import altered

    parts = [text.partition(": ") for text in altered(run)]
    return [Problem(name, "altered", what) for name, _, what in parts]


def _other_parties(run: Path) -> list[Problem]:
    """Return what was frozen for signatures and does not follow from the run's own plan."""
    from kvgate.engine.control import told_inputs
    from kvgate.engine.workspace import frozen_setup
    from kvgate.store.reader import RunReader

    reader = RunReader(run)
    told = told_inputs(frozen_setup(reader))
    return [
        Problem(f"inputs/{name}", "altered", "it is not what the run's plan and gates say")
        for name, content in told.items()
        if name not in reader.manifest["inputs"] or reader.input(name) != content
    ]
