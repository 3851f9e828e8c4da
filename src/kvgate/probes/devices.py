"""Arrays, switches and BMCs: each topic is one probe, asked and read by the device's adapter.

What an adapter has no question for is a problem of that measure, so that a criterion which asks
it is inconclusive. A question that fails costs its own measures; a device out of reach, all.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kvgate.errors import CommandError, HarnessError, ParseError
from kvgate.model.part import PartKind
from kvgate.model.record import Reading
from kvgate.parse import extract, telling
from kvgate.parse.text import json_value
from kvgate.probes import parts
from kvgate.probes.base import Probe, answer, reading, untold
from kvgate.probes.parts_read import Part
from kvgate.spec import adapter as adapter_spec
from kvgate.spec import device
from kvgate.spec.adapter import Adapter, Link, Question, is_place
from kvgate.spec.inventory import Host
from kvgate.witness import Answer, Testimony, Witness

MOST_DOCUMENTS = 256
"""Documents that one question may lead to: a chassis has some dozens of sensors and drives."""

ABSENT = "absent"
"""The state of a declared controller, pool or port that the device does not tell of."""

_LINK = "@odata.id"
_NEXT = "Members@odata.nextLink"
_MEMBERS = "Members[*]"
_NOT_FOUND = 404


def adapter_of(witness: Witness) -> Adapter:
    """Return the adapter of the device under questioning; raises HarnessError without one."""
    if witness.adapter is None:
        raise HarnessError(f"{witness.host.name}: is asked without its adapter")
    return witness.adapter


def ask_topic(witness: Witness, measures: frozenset[str]) -> Answer:
    """Return all readings of `measures`, by the adapter's questions that tell any of them."""
    adapter = adapter_of(witness)
    asked: list[Testimony] = []
    found: list[Reading] = []
    fruitless: set[str] = set()
    for question in adapter.questions_for(measures):
        if question.unless is not None and question.unless not in fruitless:
            continue
        readings, rows = _ask(witness, adapter, question, asked)
        found += readings
        if not rows:
            fruitless.add(question.question)
    told = [each for each in _best(found) if each.name in measures]
    told += _absent(witness.host, adapter, told)
    return answer([*told, *_unknown(witness.host, adapter, measures, told)], *asked)


def _ask(
    witness: Witness, adapter: Adapter, question: Question, asked: list[Testimony]
) -> tuple[list[Reading], bool]:
    """Return a question's readings, and whether it is settled by it; `asked` grows."""
    tool = f"{adapter.adapter}: {question.question}"
    items = witness.host.items("port") if question.for_each else ("",)
    found: list[Reading] = []
    settled = False
    for item in items:
        try:
            rows = _rows(witness, question, item, tool, asked)
        except (CommandError, ParseError) as err:
            found += _untold(witness.host, question, err.message, item)
            settled = True  # it is there, and could not be read: no reason to ask another way
            continue
        if rows is not None:
            found += telling.told(question, rows, tool, item=item)
            settled = settled or bool(rows)
        elif not any(each.unless == question.question for each in adapter.questions):
            way = " > ".join([question.path or "", *(step.at for step in question.steps)])
            why = f"{tool}: there is no document at {way}"
            found += _untold(witness.host, question, why, item)
    return found, settled


def _untold(host: Host, question: Question, because: str, item: str) -> Iterator[Reading]:
    """Yield a problem for all that `question` should have told: of `item`, or of all declared."""
    known = device.measures(host.role.value)
    for name in question.measures:
        kind = known[name].item
        items = (item,) if item or not kind else host.items(kind)
        yield from untold([name], because, items)


def _rows(
    witness: Witness, question: Question, item: str, tool: str, asked: list[Testimony]
) -> Sequence[extract.Row] | None:
    """Return what a question's answer tells of; None where the way to its documents ends."""
    if question.command is not None:
        words = [word.replace("{port}", item) for word in question.command]
    else:
        path = (question.path or "").replace("{port}", item)
        words = ["GET", path]
    if question.path is None or question.form.document is None:
        told = _put(witness, words, question)
        asked.append(told)
        return extract.rows(question.form, told.stdout, tool)
    documents = _Walk(witness, question, tool, asked).to_the_end(path)
    if not documents:
        return None
    return [row for each in documents for row in extract.of_document(question.form, each, tool)]


def _put(witness: Witness, words: Sequence[str], question: Question) -> Testimony:
    return witness.ask(words, timeout_s=question.timeout.to("s"))


class _Walk:
    """A walk along a device's links from one document to those at the end of a question's way."""

    def __init__(
        self, witness: Witness, question: Question, tool: str, asked: list[Testimony]
    ) -> None:
        self._witness = witness
        self._question = question
        self._tool = tool
        self._asked = asked
        self._got: dict[str, Any] = {}

    def to_the_end(self, path: str) -> list[Any]:
        """Return the documents at the end of the way; none where the first is not there."""
        first = self._get(path)
        found = [] if first is None else [first]
        for step in self._question.steps:
            found = [
                document
                for each in found
                for link in self._links(each, step)
                if (document := self._get(link)) is not None
            ]
        form = self._question.form.document
        if form is not None and form.rows.startswith(_MEMBERS):
            found = [page for each in found for page in self._pages(each)]
        return found

    def _links(self, document: Any, step: Link) -> Iterator[str]:
        """Yield the links at `step`, of a collection those of its further pages too."""
        for page in self._pages(document) if step.at == _MEMBERS else [document]:
            for each in extract.select(page, step.at, self._tool):
                place = self._place(each.get(_LINK) if isinstance(each, dict) else None)
                named = not step.named or place.rstrip("/").rpartition("/")[2] in step.named
                if named and place not in self._got:  # what is listed twice is one thing
                    yield place

    def _pages(self, document: Any) -> Iterator[Any]:
        """Yield a collection's document and its further pages."""
        pages: set[str] = set()
        while True:
            yield document
            if not isinstance(document, dict) or _NEXT not in document:
                return
            page = self._place(document[_NEXT])
            if page in pages:
                raise ParseError(f"{self._tool}: {page}: its pages lead back to it, without end")
            pages.add(page)
            document = self._get(page)
            if document is None:
                raise ParseError(f"{self._tool}: {page}: the next page is not there")

    def _place(self, link: object) -> str:
        """Return the path that a link leads to; refuses one that leads anywhere else."""
        text = link.partition("#")[0] if isinstance(link, str) else ""
        if not is_place(text):
            raise ParseError(
                f"{self._tool}: the device links to {str(link)[:200]!r}, which is no path on it",
                hint="nothing is sent there",
            )
        return text

    def _get(self, path: str) -> Any:
        """Return a document, None where there is none (HTTP 404)."""
        if len(self._got) >= MOST_DOCUMENTS:
            raise ParseError(f"{self._tool}: leads to more than {MOST_DOCUMENTS} documents")
        told = _put(self._witness, ["GET", path], self._question)
        self._asked.append(told)
        if told.result.exit_status == _NOT_FOUND:
            self._got[path] = None
        else:
            self._got[path] = json_value(told.stdout, f"{self._tool}: {path}")
        return self._got[path]


def _best(found: Iterable[Reading]) -> list[Reading]:
    """Return the readings; of one thing told by several questions, those with a value."""
    with_value = {(each.name, each.item) for each in found if each.value is not None}
    return [
        each for each in found if each.value is not None or (each.name, each.item) not in with_value
    ]


def _absent(host: Host, adapter: Adapter, told: Sequence[Reading]) -> list[Reading]:
    """Return that a declared thing is absent, where the device told of others of its kind."""
    known = device.measures(adapter.role)
    there: dict[str, set[str]] = {}
    for each in told:
        there.setdefault(each.name, set()).add(each.item)
    found = []
    for name, items in there.items():
        kind = known[name].item
        if not kind or not any(each.value is not None for each in told if each.name == name):
            continue
        for item in host.items(kind):
            if item not in items:
                value = ABSENT if name.endswith(".state") else None
                found.append(reading(name, value, f"the device tells of no {item}", item=item))
    return found


def _unknown(
    host: Host, adapter: Adapter, measures: frozenset[str], told: Sequence[Reading]
) -> list[Reading]:
    """Return a problem for every measure that nothing was told of, and that may be asked for."""
    known = device.measures(adapter.role)
    names = {each.name for each in told}
    found = []
    for name in sorted(measures - names):
        if known[name].own_items:
            continue  # told of what the device names: without a name there is nothing to say
        why = (
            f"adapter {adapter.adapter} has no question for {name}"
            if name not in adapter.measures
            else f"{adapter.adapter}: the device tells of nothing that has {name}"
        )
        kind = known[name].item
        found += untold([name], why, host.items(kind) if kind else ("",))
    return found


def _ask_parts(witness: Witness) -> Answer:
    """Return the parts that the adapter's questions tell of, as `probes.parts` has them."""
    adapter = adapter_of(witness)
    asked: list[Testimony] = []
    kinds: dict[PartKind, list[Part]] = {}
    failed: dict[PartKind, str] = {}
    for question in adapter.questions:
        if question.part is None or kinds.get(question.part.kind):
            continue
        kind, tool = question.part.kind, f"{adapter.adapter}: {question.question}"
        try:
            rows = _rows(witness, question, "", tool, asked)
            found = [
                _part(question.part, row, tool) for row in telling.kept(question, rows or (), tool)
            ]
        except (CommandError, ParseError) as err:
            failed[kind] = err.message
            continue
        if rows is not None:
            kinds.setdefault(kind, []).extend(found)
    readings = [each for kind, found in kinds.items() for each in parts.told(kind, found)]
    for kind in failed.keys() - kinds.keys():
        readings += parts.untold([kind], failed[kind])
    return answer(readings, *asked)


def _part(named: adapter_spec.Part, row: extract.Row, tool: str) -> Part:
    """Return the part that a row is."""

    def told(field: str | None) -> str | None:
        return None if field is None else extract.text_of(row, field, tool)

    state = told(named.state)
    place = told(named.place)
    return Part(
        kind=named.kind,
        serial=told(named.serial),
        model=told(named.model),
        part_number=told(named.part_number),
        firmware=told(named.firmware),
        places=(place,) if place else (),
        fault="" if state is None or state in named.good else state,
    )


def _probe(topic: str, measures: Mapping[str, device.Known]) -> Probe:
    asked = frozenset(measures)
    return Probe(
        name=topic,
        measures=tuple(measures),
        ask=functools.partial(_asked, measures=asked),
    )


def _asked(witness: Witness, *, measures: frozenset[str]) -> Answer:
    return ask_topic(witness, measures)


def _probes(role: str) -> tuple[Probe, ...]:
    topics = tuple(_probe(topic, told) for topic, told in device.TOPICS[role].items())
    return (*topics, Probe(name=f"{role} parts", measures=parts.MEASURES, ask=_ask_parts))


ARRAY = _probes("array")
SWITCH = _probes("switch")
BMC = _probes("bmc")
OF_ROLE: Mapping[str, tuple[Probe, ...]] = {"array": ARRAY, "switch": SWITCH, "bmc": BMC}
"""Role → its probes."""


def about(witness: Witness) -> Answer:
    """Return what the adapter's ``about`` names: who the device is, for people."""
    return ask_topic(witness, frozenset(adapter_of(witness).about))


def identity(witness: Witness) -> tuple[str, ...]:
    """Return what tells this device from all others, ``array:SERIAL``.

    Raises TransportError or ParseError where it does not tell.
    """
    adapter = adapter_of(witness)
    if adapter.identity is None:
        raise ParseError(f"{witness.host.name}: adapter {adapter.adapter} names no identity")
    told = ask_topic(witness, frozenset({adapter.identity})).readings
    found = tuple(f"{adapter.role}:{each.value}" for each in told if each.value is not None)
    if not found:
        why = "; ".join(dict.fromkeys(each.problem for each in told))
        raise ParseError(f"{witness.host.name}: does not tell its serial number: {why}")
    return found
