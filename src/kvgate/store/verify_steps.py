"""`verify` as numbered steps: each says what it proves and what came of it; then one conclusion."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kvgate.errors import DamagedRunError, StoreError
from kvgate.store.canonical import parse
from kvgate.store.layout import (
    EVIDENCE,
    INPUTS,
    JOURNAL,
    MANIFEST,
    MEASUREMENTS,
    SERIES,
    TELEMETRY,
    is_sums_name,
    listing,
    plain,
    read_bytes,
)
from kvgate.store.registered import Registered, registered
from kvgate.store.signature import NoKeygenError
from kvgate.store.statement import Statement
from kvgate.store.story import Story
from kvgate.store.timestamp import NoOpensslError
from kvgate.store.verification import Layer, Problem
from kvgate.store.verify import inspect
from kvgate.store.verify_head import check_head
from kvgate.store.verify_protocol import check_protocol
from kvgate.store.verify_signed import Checked, Sealed, check_results, no_acceptance

Result = Literal["ok", "FAILED", "not done", "none"]
"""``none``: there was nothing of the kind to check."""

if TYPE_CHECKING:
    About = tuple[str, str]

_CONTENT: tuple[About, ...] = (
    ("seal", "the layers are whole, none is missing, each covers the one before it"),
    ("inputs", "manifest, plan, inventory, gates and keys are those that the run began with"),
    ("journal", "no record was altered, moved, cut out or added"),
    ("measurements", "every line, block and file of telemetry is what the journal binds"),
    ("evidence", "every piece that the journal binds is there, as it was captured"),
    ("additions", "findings, report, signatures and all else are as sealed; nothing was added"),
)
PROTOCOL = ("protocol", "what was approved before the run is what was judged by")
HEAD = ("journal head", "the journal's chain was there at those moments, for a registered key")
SIGNATURES = ("signatures", "who signed which layers, and what was decided")
REQUIRE_HEAD = "head"
"""With it among the required roles, what nobody countersigned in the journal is a problem."""

_SIGNED = (PROTOCOL, HEAD, SIGNATURES)
VERDICTS = ("verdicts", "the judge, run again on what is stored, finds the stored verdicts")


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One step: its number and name, what it proves, how it ended, and what there is to tell."""

    number: int
    name: str
    proves: str
    result: Result
    told: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield it as it is printed; nothing in it steers a terminal."""
        yield f"{self.number:2}. {self.name}: {self.result}: {self.proves}"
        for text in (*self.told, *map(str, self.problems)):
            yield f"    {plain(text)}"


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """The steps, the run's name, whose signatures count, and what bars an acceptance."""

    run: str
    steps: tuple[Step, ...]
    signed: tuple[Statement, ...]
    barred: tuple[str, ...]
    lacking: tuple[str, ...] = ()  # what about the journal's head nobody vouched for

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Return the problems of all steps."""
        return tuple(problem for step in self.steps for problem in step.problems)

    def lines(self) -> Iterator[str]:
        """Yield everything as it is printed: the steps, then the conclusion."""
        for step in self.steps:
            yield from step.lines()
        yield self.conclusion()

    @property
    def exit_code(self) -> int:
        """Return 0: all proven; 1: something is not as it was; 2: a signature step wasn't done."""
        if self.problems:
            return 1
        undone = {step.name for step in self.steps if step.result == "not done"}
        return 2 if undone - {VERDICTS[0]} else 0

    def conclusion(self) -> str:
        """Return the one line that it all comes to."""
        problems = self.problems
        if problems:
            more = f" ({len(problems) - 1} more problems above)" if len(problems) > 1 else ""
            return plain(f"NOT verified: {self.run}: {problems[0]}{more}")
        undone = [step.name for step in self.steps if step.result == "not done"]
        by = "; ".join(f"{each.role} {each.name}: {each.of['decision']}" for each in self.signed)
        bar = "; can't be an acceptance" if self.barred else ""
        bar += "; the journal's head is not countersigned throughout" if self.lacking else ""
        left = f"; not done here: {', '.join(undone)}" if undone else ""
        verified = "verified in part" if self.exit_code else "verified"
        return plain(
            f"{verified}: {self.run}: every byte is as it was sealed; signed by "
            f"{by or 'nobody'}{bar}{left}"
        )


def verify_steps(
    path: Path,
    *,
    signers: Path | None = None,
    required: Sequence[str] = (),
    authority: Path | None = None,
) -> Outcome:
    """Check the run in folder `path`; only reads. Steps 1 to 9; `with_verdicts` adds the tenth.

    1 to 6: `store.verify.verify`, by what each problem is about. 7: the pre-approvals. 8: the
    countersignatures in the journal. 9: the signatures under the results.

    `signers` is an allowed_signers file to trust instead of the run's own keys, `authority` whose
    time stamps are believed; each role of `required` must have signed, and with `REQUIRE_HEAD`
    among them the journal's head throughout. Raises StoreError where it is no run or can't be read.
    """
    state, story = inspect(path)
    steps = [_content_step(number, state.problems) for number in range(1, len(_CONTENT) + 1)]
    layers = [f"{each.name}: {each.files} files, SHA-256 {each.digest}" for each in state.layers]
    steps[0] = dataclasses.replace(steps[0], told=tuple(layers))
    manifest = _manifest(path)
    keys = functools.partial(registered, path, signers, authority)
    checks = _checks(path, keys, required, state.layers, story, manifest)
    steps += [
        _signature_step(number, about, checks[about])
        for number, about in enumerate(_SIGNED, len(steps) + 1)
    ]
    head, last = checks[HEAD], checks[SIGNATURES]
    return Outcome(
        str(manifest.get("run", path.name)),
        tuple(steps),
        last.signed if isinstance(last, Checked) else (),
        no_acceptance(manifest, story),
        head.lacking if isinstance(head, Checked) else (),
    )


def add_step(outcome: Outcome, step: Step) -> Outcome:
    """Return `outcome` with `step` behind its steps, by the next number."""
    last = dataclasses.replace(step, number=len(outcome.steps) + 1)
    return dataclasses.replace(outcome, steps=(*outcome.steps, last))


def _content_step(number: int, problems: Sequence[Problem]) -> Step:
    wrong = tuple(problem for problem in problems if _step_of(problem) == number)
    return Step(number, *_CONTENT[number - 1], "FAILED" if wrong else "ok", problems=wrong)


def _step_of(problem: Problem) -> int:
    """Return the number of the step that `problem` belongs to, by the file it is about."""
    top = problem.path.partition("/")[0]
    if problem.kind == "unsealed" or is_sums_name(top):
        return 1
    files = ((MANIFEST, INPUTS), (JOURNAL,), (MEASUREMENTS, TELEMETRY, SERIES), (EVIDENCE,))
    return next((number for number, names in enumerate(files, 2) if top in names), len(_CONTENT))


def _manifest(path: Path) -> dict[str, Any]:
    """Return the manifest as far as it can be read: steps 1 and 2 tell what is wrong with it."""
    try:
        found = parse(read_bytes(path / MANIFEST))
    except (StoreError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _checks(
    path: Path,
    keys: Callable[[], Registered | None],
    required: Sequence[str],
    layers: tuple[Layer, ...],
    story: Story,
    manifest: Mapping[str, Any],
) -> dict[About, Checked | str]:
    """Return what each step on signatures found, or why it could not be done."""
    done: dict[About, Checked | str] = {}
    try:
        sealed = Sealed(path, listing(path), manifest, layers, story, keys())
        done[PROTOCOL] = protocol = check_protocol(sealed)
        done[SIGNATURES] = results = _with_required(check_results(sealed), required)
        done[HEAD] = _with_head(check_head(sealed, protocol, results), required)
    except DamagedRunError as err:
        wrong = Checked(problems=(Problem("signatures", "altered", err.message),))
        return {about: done.get(about, wrong) for about in _SIGNED}
    except (NoKeygenError, NoOpensslError) as err:
        return {about: done.get(about, f"{err.message}; {err.hint}") for about in _SIGNED}
    return done


def _with_head(found: Checked, required: Sequence[str]) -> Checked:
    """Make a problem of all that nobody vouched for, where `required` names the head."""
    if REQUIRE_HEAD not in required:
        return found
    lacking = found.lacking or (found.told if found.nothing else ())
    wrong = [Problem("journal.jsonl", "unproven", text) for text in lacking]
    told = tuple(text for text in found.told if text not in lacking)
    return dataclasses.replace(found, told=told, problems=(*found.problems, *wrong))


def _with_required(found: Checked, required: Sequence[str]) -> Checked:
    """Add a problem for each of the `required` roles whose signature is not there, or not good."""
    signed = {statement.role for statement in found.signed}
    wrong = [
        Problem("signatures", "missing", f"no good signature of the {role}")
        for role in required
        if role not in signed and role != REQUIRE_HEAD
    ]
    return dataclasses.replace(found, problems=(*found.problems, *wrong))


def _signature_step(number: int, about: About, found: Checked | str) -> Step:
    if isinstance(found, str):
        return Step(number, *about, "not done", (found,))
    result: Result = "FAILED" if found.problems else "none" if found.nothing else "ok"
    return Step(number, *about, result, found.told, found.problems)
