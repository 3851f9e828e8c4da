"""Manual checks as the judge takes them: the questions of a run, and answers as measurements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvgate.engine.scope_out import left_out
from kvgate.engine.workspace import Setup
from kvgate.model.attested import Answer, Question
from kvgate.model.finding import Attempt
from kvgate.model.part import BY_HAND
from kvgate.model.record import ALL_HOSTS, Measurement
from kvgate.spec.gate import Criterion
from kvgate.store import attested
from kvgate.store.reader import RunReader

COUNTED = "manual.counted"
"""The measure of parts that people count: asked line by line of the packing list."""


def questions(reader: RunReader, setup: Setup) -> tuple[Question, ...]:
    """Return what people have to look at for the run's gates, in the order of the gates' files.

    Criteria that the plan scopes out, or that have no limit in its profile, ask nothing.
    """
    out, profile = left_out(reader, setup), setup.plan.value.profile
    return tuple(
        question
        for gate in reader.manifest["gates"]
        for criterion in setup.gates[str(gate)].value.criteria
        if criterion.method == "manual" and criterion.id not in out and profile in criterion.limits
        for question in _questions(criterion, setup)
    )


def _questions(criterion: Criterion, setup: Setup) -> Iterator[Question]:
    lines = list(_lines(setup)) if criterion.measure == COUNTED else []
    if lines:
        for where, text in lines:
            yield _question(criterion, where, ALL_HOSTS, f"{criterion.text}: {text}")
        return
    for host in setup.inventory.value.with_role(criterion.hosts):
        yield _question(criterion, host.name, host.name, criterion.text)


def _lines(setup: Setup) -> Iterator[tuple[str, str]]:
    """Yield (line, what was ordered) of what people count on the bill of materials."""
    bom = setup.bom.value if setup.bom else None
    for number, line in enumerate(bom.lines if bom else (), 1):
        if line.kind in BY_HAND:
            known = [line.part_number, line.model, line.description]
            named = ", ".join(dict.fromkeys(part for part in known if part))
            place = f", for {line.where.host}" if line.where.host else ""
            position = f" (position {line.position})" if line.position else ""
            yield f"line {number}", f"{line.quantity} of {named}{place}{position}"


def _question(criterion: Criterion, where: str, host: str, text: str) -> Question:
    return Question(
        key=f"{criterion.id}/{where}", criterion=criterion.id, where=where, host=host, text=text
    )


def counting(answers: Sequence[Answer]) -> dict[str, Answer]:
    """Return question → the answer that counts: the last one given."""
    return {answer.key: answer for answer in answers}


def taken(reader: RunReader, setup: Setup) -> tuple[tuple[Measurement, ...], tuple[Attempt, ...]]:
    """Return the run's attestations as measurements and attempts.

    A criterion all of whose questions were answered is measured, and so is one with an answer
    that says no; until then it stays not run.
    """
    told = counting(attested.answers(reader.path))
    asked: dict[str, list[Question]] = {}
    for question in questions(reader, setup):
        asked.setdefault(question.criterion, []).append(question)
    measurements: list[Measurement] = []
    attempts = []
    for id_, of_it in asked.items():
        known = [(each, told[each.key]) for each in of_it if each.key in told]
        if len(known) < len(of_it) and all(answer.ok for _, answer in known):
            continue
        criterion = _criterion(setup, id_)
        measurements += [_measurement(criterion, *each) for each in known]
        attempts.append(Attempt(criterion=id_, outcome="ran", test="kvgate attest"))
    return tuple(measurements), tuple(attempts)


def _criterion(setup: Setup, id_: str) -> Criterion:
    gate = setup.gates[id_.partition(".")[0]].value
    return next(each for each in gate.criteria if each.id == id_)


def _measurement(criterion: Criterion, question: Question, answer: Answer) -> Measurement:
    together = criterion.scope == "all hosts"
    return Measurement(
        name=criterion.measure,
        value=answer.ok,
        host=ALL_HOSTS if together else question.host,
        phase=criterion.phase,
        taken_at=answer.at,
        labels=dict(criterion.where),
        evidence=(answer.sha256,),
        inputs=f"{question.where}, attested by {answer.by}",
    )
