"""Drafts a bill of materials from what hosts report, for people to correct by hand."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import yaml

from kvgate.engine.bom import NAMES, Reported, reported
from kvgate.errors import CommandError, KvgateError, ParseError
from kvgate.judge.bom import Found
from kvgate.model.record import Measurement
from kvgate.probes import devices, gather, parts
from kvgate.probes.base import Probe
from kvgate.spec.inventory import Inventory
from kvgate.untrusted import plain
from kvgate.witness import Witness

_SERIAL = re.compile(r"[!-~]([ -~]{0,62}[!-~])?", re.ASCII)
_HOSTS_AT_ONCE = 64
_NEVER = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)  # a draft proves nothing, so no times

_HEAD = """\
# Drafted from what the hosts report. Correct it by hand against the order and the packing list:
# add part numbers, take out what was not ordered, add what is missing. Then name it in the
# inventory ('bom: FILE') and check both: kvgate check --inventory FILE
"""


def ask(witness: Witness, inventory: Inventory) -> Reported:
    """Return what the host or device behind `witness` tells of its parts.

    Raises TransportError where it can't be asked at all.
    """
    if witness.host.is_device:
        probes = devices.OF_ROLE[witness.host.role.value]
        telling = [probe for probe in probes if NAMES.intersection(probe.measures)]
        return _reported(witness, telling, inventory)
    with contextlib.suppress(ParseError, CommandError):  # asked one by one then
        answered = gather.Facts(witness.host, witness.transport, ()).answered(parts.PROBES)
        witness = dataclasses.replace(witness, transport=answered)
    return _reported(witness, parts.PROBES, inventory)


def _reported(witness: Witness, probes: Iterable[Probe], inventory: Inventory) -> Reported:
    taken = [
        Measurement(
            name=each.name,
            value=each.value,
            host=witness.host.name,
            phase="draft",
            taken_at=_NEVER,
            item=each.item,
            problem=each.problem,
        )
        for probe in probes
        for each in probe.ask(witness).readings
    ]
    return reported(taken, inventory)


def ask_all(
    witnesses: Iterable[Witness], inventory: Inventory
) -> tuple[Reported, Mapping[str, str]]:
    """Return what all hosts tell of their parts, and host → why it could not be asked."""
    asked = list(witnesses)

    def one(witness: Witness) -> tuple[Reported | None, str]:
        try:
            return ask(witness, inventory), ""
        except KvgateError as err:
            return None, err.message

    with ThreadPoolExecutor(min(_HOSTS_AT_ONCE, max(1, len(asked)))) as pool:
        answers = list(pool.map(one, asked))
    found: dict[tuple[str, str, str], Found] = {}
    told: dict[tuple[str, str], str] = {}
    for answer in (answer for answer, _ in answers if answer):
        for part in answer.found:  # what a host and its BMC tell is one part
            found.setdefault((part.host, part.kind, part.serial or f"@{len(found)}"), part)
        for key, why in answer.told.items():  # one who can tell is enough
            told[key] = why if told.get(key, why) else ""
    lost = {w.host.name: why for w, (_, why) in zip(asked, answers, strict=True) if why}
    return Reported(tuple(found.values()), told, {}), lost


def text_of(name: str, told: Reported, *, date: str = "") -> str:
    """Return the bill of materials of everything that was told, with remarks as comments.

    Empty where nothing has a serial number: such a bill would identify nothing.
    """
    if not any(part.serial for part in told.found):
        return ""
    lines = [_HEAD + f"bom: {_flow(name)}", "title: Drafted from what the hosts report"]
    lines += [f"date: {_flow(date)}"] if date else []
    lines += ["lines:"]
    groups: dict[tuple[str, str, str, str, bool], list[Found]] = {}
    for part in told.found:
        known = bool(_SERIAL.fullmatch(part.serial))
        key = (part.host, part.kind, _one_line(part.model), _one_line(part.part_number), known)
        groups.setdefault(key, []).append(part)
    for key in sorted(groups):
        lines += _line(key, groups[key])
    lines += [
        f"# {host} does not tell of parts of kind {kind}: {_comment(why)}"
        for (host, kind), why in sorted(told.told.items())
        if why
    ]
    return "\n".join(lines) + "\n"


def _line(key: tuple[str, str, str, str, bool], group: list[Found]) -> Iterator[str]:
    host, kind, model, part_number, known = key
    yield f"  - kind: {kind}"
    if model:
        yield f"    model: {_flow(model)}"
    if part_number:
        yield f"    part_number: {_flow(part_number)}"
    if not model and not part_number:
        yield f"    description: {_flow(f'{kind} that tells no model')}"
    yield f"    quantity: {len(group)}"
    yield f"    where: {_flow({'host': host})}"
    if known:
        yield "    units:"
    for part in sorted(group, key=lambda each: (each.places, each.serial)):
        fault = f"  # at drafting: {_comment(part.fault)}" if part.fault else ""
        unit: dict[str, Any] = {"serial": part.serial}
        if part.places and _one_line(part.places[0]):
            unit["slot"] = _one_line(part.places[0])
        if known:
            yield f"      - {_flow(unit)}{fault}"
        elif fault:
            yield f"    {fault.strip()} ({_comment(part.place)})"


def _flow(value: Any) -> str:
    return yaml.safe_dump(
        [value], default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**9
    ).strip()[1:-1]


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _comment(text: str) -> str:
    """Return a host's words as part of a comment: one line, nothing that acts."""
    return " ".join(plain(text).split())[:300]
