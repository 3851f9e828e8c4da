"""Adapters: how a device that is no host is asked, and how its answers are read, as data.

An adapter's questions are read-only by construction: commands are words written here, of safe
characters, in which only declared names stand for ``{port}``; paths are only ever got (the login of
a session is the one exception, and no adapter's text). Answers are read by declared forms, never by
code. Faults (`spec.faults`) are apart from them: they are done only where a plan names them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

import pydantic

from kvgate.model.part import PartKind
from kvgate.model.quantity import UNITS, Quantity
from kvgate.spec import device, words
from kvgate.spec.base import Duration, Slug, Strict, Text, exactly_one_of
from kvgate.spec.faults import FaultWay
from kvgate.spec.pattern import bounded

PLACE = re.compile(r"/(?:[A-Za-z0-9_.~!$&'()*+,;=:@%?-]+(?:/|$))*", re.ASCII)
"""A path on a device: from its root, without empty parts, spaces or fragment."""

_PORT = "{port}"
_FIELD = re.compile(r"\{([^{}]*)\}")


def is_place(path: str) -> bool:
    """Tell whether `path` is one that may be got: see `PLACE`; it never climbs."""
    return len(path) <= 1000 and bool(PLACE.fullmatch(path)) and ".." not in path.split("/")


def _place(value: str) -> str:
    if not is_place(value.replace(_PORT, "p")):
        raise ValueError(f"'{value}' is not a path such as '/redfish/v1/Chassis'")
    return value


Name = Annotated[str, pydantic.StringConstraints(pattern=r"^[a-z0-9][a-z0-9 ._-]{0,63}$")]
Word = Annotated[str, pydantic.AfterValidator(words.safe(_PORT))]
Place = Annotated[str, pydantic.AfterValidator(_place)]


def _unit(value: str) -> str:
    if value not in UNITS:
        raise ValueError(f"'{value}' is not a unit; one of: {', '.join(filter(None, UNITS))}")
    return value


Unit = Annotated[str, pydantic.AfterValidator(_unit)]


def fields_of(source: str) -> tuple[str, ...]:
    """Return the fields that `source` takes: those in braces, or itself where it has none."""
    return tuple(_FIELD.findall(source)) if "{" in source else (source,)


def filled(source: str, value: dict[str, str]) -> str:
    """Return the template `source` with its fields replaced by their values."""
    return _FIELD.sub(lambda match: value[match[1]], source)


class Table(Strict):
    """A table under a row of dashes; ``columns`` must be among its titles, others may be."""

    columns: Annotated[list[Text], pydantic.Field(min_length=1)]


class Lines(Strict):
    """Lines that match ``pattern`` whole (see `spec.pattern`), its named groups as fields."""

    pattern: Annotated[str, pydantic.AfterValidator(lambda value: bounded(value) and value)]


class Keys(Strict):
    """Lines of name, separator, value: one thing with these fields; other lines are left out."""

    separator: Annotated[str, pydantic.StringConstraints(min_length=1, max_length=3)] = ":"


class Document(Strict):
    """A JSON document; ``rows`` is the place in it of the things told, "" the document itself."""

    rows: str = ""


class Form(Strict):
    """The form of an answer: exactly one; ``named`` is a tool's parser of kvgate's own."""

    model_config = exactly_one_of("document", "table", "lines", "keys", "named")

    document: Document | None = None
    table: Table | None = None
    lines: Lines | None = None
    keys: Keys | None = None
    named: Slug | None = None

    @pydantic.model_validator(mode="after")
    def _one(self) -> Form:
        forms = (self.document, self.table, self.lines, self.keys, self.named)
        if sum(form is not None for form in forms) != 1:
            raise ValueError(
                "an answer has exactly one form: document, table, lines, keys or named"
            )
        return self


class Value(Strict):
    """One measure of every row: from which field (or template of fields), and what it is.

    Without ``unit`` it is a text: with ``known`` one of these, translated, else as told. With
    ``unit`` it is a number, "" a count; ``suffixes`` are units that stand after it in its text
    (``{G: Gbit/s}``). ``grouped``: thousands are separated by commas. ``empty`` is what a text
    means whose field is there and holds nothing.
    """

    measure: Text
    field: Text
    known: dict[str, Text] | None = None
    empty: Text | None = None
    unit: Unit | None = None
    suffixes: dict[str, Unit] | None = None
    grouped: bool = False

    @pydantic.model_validator(mode="after")
    def _sound(self) -> Value:
        number = self.unit is not None or self.suffixes is not None
        if (self.known is not None or self.empty is not None) and number:
            raise ValueError("known and empty are for texts, unit and suffixes for numbers")
        if self.empty is not None and "{" in self.field:
            raise ValueError("empty is for one field, not for a template")
        if self.suffixes is not None and self.unit is not None:
            raise ValueError("a number's unit is its own (suffixes) or the same for all (unit)")
        return self

    @property
    def kind(self) -> str:
        """Return `text` or the dimension of what it becomes."""
        if self.suffixes:
            units = {Quantity.of(1, unit).dimension for unit in self.suffixes.values()}
            return units.pop() if len(units) == 1 else "of several dimensions"
        return "text" if self.unit is None else Quantity.of(1, self.unit).dimension


class Summary(Strict):
    """One measure of all rows together.

    ``count``: how many there are (with ``where``, of those whose fields are among these);
    ``faulty``: the items whose ``field`` is none of ``good``, or none; ``distinct``: all different
    texts of ``field``; ``most``: its largest number in ``unit``; ``newest``: its last text in
    order.
    """

    measure: Text
    how: Literal["count", "faulty", "distinct", "most", "newest"]
    field: Text | None = None
    good: list[Text] | None = None
    where: dict[str, list[Text]] = pydantic.Field(default_factory=dict)
    unit: Unit | None = None

    @pydantic.model_validator(mode="after")
    def _sound(self) -> Summary:
        if (self.how == "count") != (self.field is None):
            raise ValueError("every summary but a count is of a field")
        if (self.how == "faulty") != (self.good is not None):
            raise ValueError("good goes with 'faulty'")
        if (self.how == "most") != (self.unit is not None):
            raise ValueError("unit goes with 'most'")
        return self

    @property
    def kind(self) -> str:
        """Return `text` or the dimension of what it becomes."""
        if self.how == "most":
            return Quantity.of(1, self.unit or "").dimension
        return "count" if self.how == "count" else "text"


class Part(Strict):
    """The parts that a question's rows are, for the bill of materials: which field is what.

    ``state`` is a field whose text is none of ``good`` where the part is faulty.
    """

    kind: PartKind
    place: Text | None = None
    serial: Text | None = None
    model: Text | None = None
    part_number: Text | None = None
    firmware: Text | None = None
    state: Text | None = None
    good: list[Text] = pydantic.Field(default_factory=list)

    @pydantic.model_validator(mode="after")
    def _named(self) -> Part:
        if self.serial is None and self.place is None:
            raise ValueError("a part is known by its serial or its place")
        if (self.state is None) != (not self.good):
            raise ValueError("state and good go together")
        return self


class Link(Strict):
    """A step along a device's links: where they stand in a document, and which to take.

    ``named``: only those whose path ends in one of these names.
    """

    at: Text
    named: list[Text] = pydantic.Field(default_factory=list)


class Question(Strict):
    """One question: a command or a path, the form of the answer, and what is told by it.

    ``follow`` names the links to go along from the path's document, step by step; the documents
    at their end are the answer. ``for_each: port`` asks once a declared port, ``{port}`` being
    its name. ``item`` names each row's thing. ``skip`` leaves rows out whose fields are among
    these. ``part``: each row is one. ``unless`` names a question; this one is asked only where
    that one told of nothing.
    """

    question: Name
    command: Annotated[list[Word], pydantic.Field(min_length=1)] | None = None
    path: Place | None = None
    follow: list[Text | Link] = pydantic.Field(default_factory=list)
    for_each: Literal["port"] | None = None
    unless: Name | None = None
    timeout: Duration = Quantity.of(20, "s")
    form: Form
    item: Text | None = None
    skip: dict[str, list[Text]] = pydantic.Field(default_factory=dict)
    values: list[Value] = pydantic.Field(default_factory=list)
    summaries: list[Summary] = pydantic.Field(default_factory=list)
    part: Part | None = None

    @pydantic.model_validator(mode="after")
    def _sound(self) -> Question:
        if (self.command is None) == (self.path is None):
            raise ValueError("a question is exactly one of a command or a path")
        if self.follow and (self.path is None or self.form.document is None):
            raise ValueError("follow goes with a path to a JSON document")
        asked = " ".join(self.command or [self.path or ""])
        if (_PORT in asked) != (self.for_each == "port"):
            raise ValueError("'{port}' and for_each: port go together")
        if not (self.values or self.summaries or self.part):
            raise ValueError("a question tells at least one value, summary or part")
        return self

    @property
    def measures(self) -> tuple[str, ...]:
        """Return the names of all that this question tells."""
        return tuple(each.measure for each in self.told)

    @property
    def steps(self) -> tuple[Link, ...]:
        """Return the links to follow, each as a step."""
        return tuple(Link(at=each) if isinstance(each, str) else each for each in self.follow)

    @property
    def told(self) -> tuple[Value | Summary, ...]:
        """Return all that this question tells."""
        return (*self.values, *self.summaries)


class Adapter(Strict):
    """How devices of one kind are asked: ``way`` ssh (their command line), redfish or rest.

    ``source`` is the public document it was written from. ``example``: no vendor's device answers
    so; it is for the simulator that kvgate ships, and to be copied. ``about`` names the measures
    that `kvgate hosts` shows, ``identity`` the one that tells this device from all others.
    ``faults`` are the ways to make it fail, run only where a plan and the inventory name them.
    """

    adapter: Slug
    title: Text
    role: Literal["array", "switch", "bmc"]
    way: Literal["ssh", "redfish", "rest"]
    source: Text
    written_for: Text
    example: bool = False
    login: Literal["none", "basic", "session"] = "none"
    about: list[Text] = pydantic.Field(default_factory=list)
    identity: Text | None = None
    questions: Annotated[list[Question], pydantic.Field(min_length=1)]
    faults: list[FaultWay] = pydantic.Field(default_factory=list)

    @pydantic.model_validator(mode="after")
    def _sound(self) -> Adapter:
        if self.faults and self.way != "ssh":
            raise ValueError("faults are done by ssh, on the device's own command line")
        if self.way == "ssh" and self.login != "none":
            raise ValueError("login is for redfish and rest; by ssh a key or password logs in")
        if self.login == "session" and self.way != "redfish":
            raise ValueError("a session is Redfish's way to log in")
        known = device.measures(self.role)
        before: list[str] = []
        for question in self.questions:
            self._check(question, known, before)
            before.append(question.question)
        told = {name for question in self.questions for name in question.measures}
        for name in (*self.about, *([self.identity] if self.identity else [])):
            if name not in told:
                raise ValueError(f"'{name}' is told by no question")
        return self

    def _check(
        self, question: Question, known: Mapping[str, device.Known], before: list[str]
    ) -> None:
        """Raise ValueError where `question` does not fit the adapter."""
        name = question.question
        if name in before:
            raise ValueError(f"question '{name}' stands twice")
        if (question.command is not None) != (self.way == "ssh"):
            raise ValueError(f"question '{name}': by {self.way} it is asked otherwise")
        if question.unless is not None and question.unless not in before:
            raise ValueError(f"question '{name}': unless '{question.unless}' is none before it")
        for each in question.told:
            measure = known.get(each.measure)
            if measure is None:
                raise ValueError(
                    f"question '{name}': '{each.measure}' is no measure of role '{self.role}'; "
                    f"known: {', '.join(known)}"
                )
            if each.kind != measure.kind:
                raise ValueError(
                    f"question '{name}': {each.measure} is {measure.kind}, not {each.kind}"
                )
            of_things = bool(measure.item or measure.own_items)
            if of_things != (isinstance(each, Value) and bool(question.item or question.for_each)):
                raise ValueError(
                    f"question '{name}': {each.measure} is told of "
                    + ("each thing: it needs an item" if of_things else "the device itself")
                )

    def questions_for(self, measures: frozenset[str]) -> tuple[Question, ...]:
        """Return the questions that tell any of `measures`, in order."""
        return tuple(each for each in self.questions if measures.intersection(each.measures))

    @property
    def measures(self) -> frozenset[str]:
        """Return all that devices with this adapter can tell."""
        return frozenset(name for each in self.questions for name in each.measures)
