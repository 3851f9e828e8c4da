"""What a probe is: a named question that declares what it measures and which commands it asks."""

from __future__ import annotations

import dataclasses
import decimal
import functools
from collections.abc import Callable, Iterable
from typing import Literal, TypeVar

from kvgate.errors import ParseError
from kvgate.model.quantity import Quantity
from kvgate.model.record import Reading, Value
from kvgate.spec.inventory import Host
from kvgate.witness import Answer, Testimony, Witness

Ask = Callable[[Witness], Answer]
ItemKind = Literal["", "disk", "nvme", "nic", "pcie", "gpu", "subsystem", "path", "link"]

ReadItem = Callable[[bytes, str], Iterable[Reading]]
"""Reads the answer of a tool that was asked about one item alone; raises ParseError."""

PLAIN = {"LC_ALL": "C"}
"""The environment of every tool whose words are parsed."""

T = TypeVar("T")

SHORT_S = 20.0
"""Deadline of a question that reads sysfs or asks a tool for what the kernel knows."""

SHORT_BYTES = 8 * 2**20
"""The most that is gathered of one command's stdout, and of its stderr."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command that a probe will ask, so that it can be gathered with others in one round trip.

    With `each` (globs of the host's files, constants of a probe) it stands for one command a file
    that is there: ``{}`` in a word is the file's name without its folder.
    """

    argv: tuple[str, ...]
    each: tuple[str, ...] = ()
    timeout_s: float = SHORT_S
    cap_bytes: int = SHORT_BYTES


def nothing_fixed(_: Host) -> tuple[Command, ...]:
    """Return no command: what such a probe asks can't be known before, or must be timed alone."""
    return ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One question. ``measures`` covers every reading's name that ``ask`` returns.

    ``ask`` answers for the host, or for each item of kind ``items`` that the inventory declares;
    it raises TransportError where the host can't be asked or a tool fails, ParseError where the
    answer is not known. ``tools`` are the commands it runs beyond sh, cat and grep. ``commands``
    tells what ``ask`` will ask of a host, as far as that is known before.
    """

    name: str
    measures: tuple[str, ...]
    ask: Ask
    commands: Callable[[Host], tuple[Command, ...]] = nothing_fixed
    tools: tuple[str, ...] = ()
    items: ItemKind = ""

    def unanswered(self, host: Host, because: str) -> tuple[Reading, ...]:
        """Return a reading without value for everything this probe should have told of `host`."""
        items = host.items(self.items) if self.items else ("",)
        return tuple(
            Reading(name=name, value=None, item=item, problem=because)
            for item in items
            for name in self.measures
        )


def reading(name: str, value: Value | None, problem: str = "", *, item: str = "") -> Reading:
    """Return a reading; `problem` counts only where there is no value (and must be given then)."""
    return Reading(name=name, value=value, item=item, problem="" if value is not None else problem)


def shifted(number: int, places: int, unit: str) -> Quantity:
    """Return `number` / 10**`places` in `unit`, exact, as people read it (``7.68 TB``)."""
    with decimal.localcontext(prec=80):  # holds 128-bit counters of drives
        return Quantity(decimal.Decimal(number).scaleb(-places).normalize(), unit)


def answer(readings: Iterable[Reading], *asked: Testimony) -> Answer:
    """Return the answer that `readings` are, read from what was asked."""
    return Answer(tuple(readings), tuple(each.ref for each in asked))


def once(parser: Callable[[bytes], T]) -> Callable[[bytes], T]:
    """Return `parser`, which reads an answer that several probes share only once.

    The latest answers are kept; what is returned must not be changed by who gets it.
    """
    return functools.lru_cache(maxsize=_KEPT)(parser)


def class_argv(folder: str, *files: str) -> tuple[str, ...]:
    """Return the command that reads `files` (patterns below the sysfs folder `folder`) in one go.

    Its answer is what `parse.sysfs` expects. Files that are absent or can't be read are left out
    (grep exits 2 then); a folder that is absent makes the command fail. Both texts are constants
    of a probe, never a host's words.
    """
    script = f'cd {folder} && {{ grep -asH "" {" ".join(files)}; test $? -le 2; }}'
    return ("sh", "-c", script)


def asks(*argvs: tuple[str, ...]) -> Callable[[Host], tuple[Command, ...]]:
    """Return the `Probe.commands` of a probe that asks the same of every host."""
    fixed = tuple(Command(argv=argv) for argv in argvs)
    return lambda _: fixed


def if_declared(
    kind: ItemKind, of: Callable[[Host], tuple[Command, ...]]
) -> Callable[[Host], tuple[Command, ...]]:
    """Return the `Probe.commands` of a probe that asks a host only where it has items of `kind`."""
    return lambda host: of(host) if host.items(kind) else ()


def untold(measures: Iterable[str], because: str, items: Iterable[str] = ("",)) -> list[Reading]:
    """Return a reading without value for each of `measures` on each of `items`."""
    return [reading(name, None, because, item=item) for item in items for name in measures]


def read_or_untold(
    told: Testimony,
    measures: Iterable[str],
    item: str,
    read: ReadItem,
    package: str,
    *,
    ends_with_findings: bool = False,
) -> list[Reading]:
    """Return what `read` finds for `item` in a tool's answer, else why `measures` are not told.

    One item's odd answer does not hide the others'. With `ends_with_findings` a tool that ended
    with another status than 0 answered all the same, if it ended and printed something.
    """
    result = told.result
    ended = result.exit_status not in (None, NOT_FOUND) and bool(result.stdout.strip())
    if not result.ok and not (ended and ends_with_findings):
        return untold(measures, refusal(told, package), [item])
    try:
        return list(read(result.stdout, item))
    except ParseError as err:
        return untold(measures, err.message, [item])


def refusal(told: Testimony, package: str) -> str:
    """Return why a tool told nothing, and what helps: missing, not permitted, or its own words."""
    complaint = told.result.stderr + told.result.stdout[:1000]
    if told.result.exit_status == NOT_FOUND or b"command not found" in complaint:
        words = told.result.argv
        tool = words[2] if words[:2] == ("sudo", "-n") else words[0]
        return (
            f"'{tool}' is not there: install the package '{package}', or set its path under tools"
        )
    if any(each in complaint.lower() for each in _FORBIDDEN):
        return (
            f"{told.result.argv[0]}: not permitted: log in as root, or allow it by 'sudo -n' and "
            "set 'sudo: passwordless' for this host"
        )
    return told.result.describe()


NOT_FOUND = 127
"""The exit status by which sh, and every transport, says that a command is not there."""

_KEPT = 8  # hosts are asked side by side; one that was forgotten is read again

_FORBIDDEN = (b"permission denied", b"a password is required", b"operation not permitted")
