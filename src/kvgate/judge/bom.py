"""Compares what was ordered with what hosts and devices report, part by part. Pure.

What one host could not tell is `not_known`, never as ordered and never missing. A serial number
is looked for everywhere, so that a part that sits elsewhere is `swapped`, with both places.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping, Sequence

from kvgate.model.part import text_key
from kvgate.spec.bom import Bom, Ordered

NAMED = 8
"""Parts that a sentence names before it goes on with "and N more"."""


class Status(enum.StrEnum):
    """What became of an ordered part."""

    AS_ORDERED = "as_ordered"
    MISSING = "missing"
    SWAPPED = "swapped"  # it is there, but at another host, slot or port
    WRONG_MODEL = "wrong_model"  # its serial number is there, on another model
    SERIAL_UNKNOWN = "serial_unknown"  # in its place is a part that nobody ordered
    DOA = "doa"  # it is there, and dead
    NOT_KNOWN = "not_known"  # who should tell of it could not


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One part as a host or device reports it; "" and () where it does not tell.

    ``host`` is the host it is in, also where a BMC told of it. ``places`` are all names that its
    place has there. ``fault`` says what is wrong with it, "" where nothing is known to be.
    """

    host: str
    kind: str
    serial: str = ""  # as `model.part.serial_key` spells it
    model: str = ""
    part_number: str = ""
    places: tuple[str, ...] = ()
    fault: str = ""

    @property
    def place(self) -> str:
        """Return where it is, as people read it."""
        return " ".join([self.host, *self.places[:1]])

    @property
    def named(self) -> str:
        """Return it as people read it: kind, serial number or model, place."""
        return f"{self.kind} {self.serial or self.model or 'without serial number'} in {self.place}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What became of one ordered part (or of some alike without serial numbers)."""

    ordered: Ordered
    status: Status
    because: str  # "" where it is as ordered
    hosts: tuple[str, ...]  # whose evidence says so

    @property
    def text(self) -> str:
        """Return the status, and the reason where it is not as ordered."""
        return f"{self.status}: {self.because}" if self.because else str(self.status)


@dataclasses.dataclass(frozen=True, slots=True)
class Compared:
    """Every judged part of the bill, and what was found beyond it, by host.

    ``unsure`` says of a host why more could be there than it told of.
    """

    lines: tuple[Line, ...]
    surplus: Mapping[str, tuple[Found, ...]]
    unsure: Mapping[str, str]


Told = Mapping[tuple[str, str], str]
"""(host, kind) → "" where the host told of all its parts of that kind, else why it could not."""


def compare(bom: Bom, found: Iterable[Found], told: Told, hosts: Iterable[str]) -> Compared:
    """Return what became of each part of `bom` among what was `found` on `hosts`.

    A part without serial number is matched by kind, model and place, and by count. Surplus is
    what is of a kind that the bill lists, in a host that it names (in any, where it names none),
    and was ordered nowhere.
    """
    return _Comparison(bom, found, told, hosts).done()


class _Comparison:
    """One comparison: parts are taken from what was found as they are matched.

    1. Match serial numbers. 2. Match lines without serial numbers by kind, model and place.
    3. Explain what is left of the bill by what is left of the parts. 4. The rest is surplus.
    """

    def __init__(self, bom: Bom, found: Iterable[Found], told: Told, hosts: Iterable[str]) -> None:
        self.bom = bom
        self.hosts = sorted(hosts)
        self.told = told
        self.found = sorted(_merged(sorted(found, key=_content)), key=_content)
        self.taken: set[int] = set()
        self.explained: set[int] = set()  # surplus that explains an absence already
        self.lines: dict[int, Line] = {}

    def done(self) -> Compared:
        """Return what became of every part."""
        ordered = self.bom.judged()
        by_serial: dict[tuple[str, str], list[int]] = {}
        for at, part in enumerate(self.found):
            if part.serial:
                by_serial.setdefault((part.kind, part.serial), []).append(at)
        for number, each in enumerate(ordered):  # 1
            if each.serial and (same := by_serial.get((each.kind, each.serial))):
                at = next((at for at in same if _there(each, self.found[at])), same[0])
                self.taken.add(at)
                self.lines[number] = self._by_serial(each, self.found[at])
        rest = [number for number in range(len(ordered)) if number not in self.lines]
        for number in [n for n in rest if not ordered[n].serial]:  # 2
            self.lines[number] = self._by_count(ordered[number])
        for number in [n for n in rest if ordered[n].serial]:  # 3
            self.lines[number] = self._absent(ordered[number])
        lines = tuple(self.lines[number] for number in range(len(ordered)))
        return Compared(lines, self._surplus(), self._unsure())  # 4

    def _by_serial(self, each: Ordered, found: Found) -> Line:
        if found.fault:
            status, why = Status.DOA, f"{found.place}: {found.fault}"
        elif wrong := _other_model(each, found):
            status, why = Status.WRONG_MODEL, wrong
        elif not _there(each, found):
            status = Status.SWAPPED
            why = f"it is in {found.place}, ordered for {each.place}"
        else:
            status, why = Status.AS_ORDERED, ""
        return Line(ordered=each, status=status, because=why, hosts=(found.host,))

    def _by_count(self, each: Ordered) -> Line:
        """Match `each.count` parts alike; what is short is missing, or not known."""
        hosts = self._asked(each)
        fit = [
            at
            for at, found in enumerate(self.found)
            if at not in self.taken
            and found.kind == each.kind
            and found.host in hosts
            and _there(each, found)
            and not _other_model(each, found)
        ][: each.count]
        self.taken.update(fit)
        dead = [self.found[at] for at in fit if self.found[at].fault]
        if len(fit) < each.count:
            why = f"{len(fit)} of {each.count} are there"
            return self._short(each, why)
        if dead:
            why = "; ".join(f"{part.place}: {part.fault}" for part in dead[:NAMED])
            return Line(ordered=each, status=Status.DOA, because=why, hosts=hosts)
        return Line(ordered=each, status=Status.AS_ORDERED, because="", hosts=hosts)

    def _short(self, each: Ordered, why: str) -> Line:
        hosts = self._asked(each)
        if unknown := self._unknown(each.kind, hosts):
            return Line(ordered=each, status=Status.NOT_KNOWN, because=unknown, hosts=hosts)
        others = [
            found
            for at, found in enumerate(self.found)
            if at not in self.taken
            and found.kind == each.kind
            and found.host in hosts
            and _there(each, found)
        ]
        if others and each.host:
            models = ", ".join(sorted({found.model or found.part_number for found in others})[:3])
            why = f"{why}; also there: {models or 'a part that tells no model'}"
            return Line(ordered=each, status=Status.WRONG_MODEL, because=why, hosts=hosts)
        return Line(ordered=each, status=Status.MISSING, because=why, hosts=hosts)

    def _absent(self, each: Ordered) -> Line:
        """Explain a serial number that nobody reports."""
        hosts = self._asked(each)
        if unknown := self._unknown(each.kind, hosts):
            return Line(ordered=each, status=Status.NOT_KNOWN, because=unknown, hosts=hosts)
        at = self._stands_in(each, hosts)
        if at is None:
            why = f"no {each.kind} with serial number {each.serial} is in {_list(hosts)}"
            return Line(ordered=each, status=Status.MISSING, because=why, hosts=hosts)
        part = self.found[at]
        if part.fault:
            self.taken.add(at)
            status, why = Status.DOA, f"{part.place}: {part.fault}"
        elif part.serial:
            self.explained.add(at)
            status, why = Status.SERIAL_UNKNOWN, f"{part.named} is not on the list"
        elif wrong := _other_model(each, part):
            self.taken.add(at)
            status, why = Status.WRONG_MODEL, wrong
        else:
            self.taken.add(at)
            status, why = Status.NOT_KNOWN, f"{part.named} does not tell its serial number"
        return Line(ordered=each, status=status, because=why, hosts=hosts)

    def _stands_in(self, each: Ordered, hosts: Sequence[str]) -> int | None:
        """Return the part that is where `each` should be: in its slot, else any left there."""
        left = [
            at
            for at, found in enumerate(self.found)
            if at not in self.taken | self.explained
            and found.kind == each.kind
            and found.host in hosts
        ]
        if each.slot or each.port:
            in_slot = [at for at in left if _there(each, self.found[at])]
            return in_slot[0] if in_slot else None
        if not each.host:
            return next((at for at in left if not self.found[at].serial), None)
        dead_first = sorted(left, key=lambda at: (not self.found[at].fault, at))
        return dead_first[0] if dead_first else None

    def _asked(self, each: Ordered) -> tuple[str, ...]:
        return (each.host,) if each.host else tuple(self.hosts)

    def _unknown(self, kind: str, hosts: Sequence[str]) -> str:
        """Return why it can't be said that a part of `kind` is not on one of `hosts`.

        Of several hosts those count that have a word on that kind at all (a switch has none on
        drives).
        """
        asked = [host for host in hosts if (host, kind) in self.told] or hosts
        reasons: dict[str, list[str]] = {}
        for host in asked:
            why = self.told.get((host, kind), f"nothing there tells of parts of kind {kind}")
            if why:
                reasons.setdefault(why, []).append(host)
        return "; ".join(f"{_list(at)}: {why}" for why, at in reasons.items())

    def _surplus(self) -> dict[str, tuple[Found, ...]]:
        kinds = {each.kind for each in self.bom.judged()}
        left = [found for at, found in enumerate(self.found) if at not in self.taken]
        return {
            host: tuple(each for each in left if each.host == host and each.kind in kinds)
            for host in self._spoken_of()
        }

    def _spoken_of(self) -> list[str]:
        """Return the hosts that the bill names, all where it names none."""
        named = {each.host for each in self.bom.ordered() if each.host} or set(self.hosts)
        return [host for host in self.hosts if host in named]

    def _unsure(self) -> dict[str, str]:
        kinds: dict[str, set[str]] = {}
        for each in self.bom.judged():
            for host in self._asked(each):
                kinds.setdefault(host, set()).add(each.kind)
        unsure = {}
        for host in self._spoken_of():
            asked = kinds.get(host, set())
            reasons = [self.told.get((host, kind), "") for kind in sorted(asked)]
            if any(reasons):
                unsure[host] = "; ".join(dict.fromkeys(filter(None, reasons)))
        return unsure


def _content(part: Found) -> tuple[object, ...]:
    """Return what parts are sorted by: the order in which they were told changes nothing."""
    return (
        part.host,
        part.kind,
        part.serial,
        part.places,
        part.model,
        part.part_number,
        part.fault,
    )


def _merged(found: Iterable[Found]) -> list[Found]:
    """Return the parts, one that two tell of (a host and its BMC) once."""
    by_serial: dict[tuple[str, str, str], Found] = {}
    rest = []
    for each in found:
        if not each.serial:
            rest.append(each)
            continue
        key = (each.host, each.kind, each.serial)
        first = by_serial.setdefault(key, each)
        if first is not each:
            by_serial[key] = dataclasses.replace(
                first,
                model=first.model or each.model,
                part_number=first.part_number or each.part_number,
                places=tuple(dict.fromkeys((*first.places, *each.places))),
                fault=first.fault or each.fault,
            )
    taken = {(each.host, each.kind, place) for each in by_serial.values() for place in each.places}
    unplaced = [e for e in rest if not any((e.host, e.kind, p) in taken for p in e.places)]
    return [*by_serial.values(), *unplaced]


def _there(each: Ordered, found: Found) -> bool:
    """Tell whether `found` is where `each` should be, as far as that is said."""
    if each.host and each.host != found.host:
        return False
    names = {text_key(place) for place in found.places}
    return all(text_key(want) in names for want in (each.slot, each.port) if want)


def _other_model(each: Ordered, found: Found) -> str:
    """Return how the model found is another than ordered; "" where it is not, or is not told.

    Suppliers and firmware call one thing by its model or by its part number: either may match.
    """
    ordered = {text_key(name): name for name in (each.model, each.part_number) if name}
    told = {text_key(name): name for name in (found.model, found.part_number) if name}
    if not ordered or not told or ordered.keys() & told.keys():
        return ""
    if any(_words(want) in _words(have) for want in ordered.values() for have in told.values()):
        return ""  # "MI308X" of "AMD Instinct MI308X": whole words, never a piece of one
    return f"{found.place} has {' / '.join(told.values())}, ordered: {' / '.join(ordered.values())}"


def _words(name: str) -> str:
    """Return `name` in small letters with one blank around each word."""
    return f" {' '.join(name.casefold().split())} "


def _list(parts: Sequence[str]) -> str:
    more = len(parts) - NAMED
    return ", ".join(parts[:NAMED]) + (f" and {more} more" if more > 0 else "")
