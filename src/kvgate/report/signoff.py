"""What people did about a run, from what was frozen in its folder alone."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kvgate.engine import disposing
from kvgate.engine.scope_out import KEY
from kvgate.errors import StoreError
from kvgate.model.verdict import Disposition, Verdict
from kvgate.report import show
from kvgate.report.sources import Sources
from kvgate.report.views import DISPOSITIONS, MARKS
from kvgate.report.views_signoff import (
    AnswerRow,
    Disposed,
    DocumentRow,
    OpenItem,
    PartyRow,
    RetestRow,
    SignOff,
    WaiverRow,
)
from kvgate.spec.control import Control
from kvgate.store import attested
from kvgate.store.canonical import utc_time
from kvgate.store.layout import read_bytes
from kvgate.store.statement import (
    APPROVALS,
    PROTOCOL,
    RESULTS,
    SIGNATURES,
    Statement,
    read_statement,
)


def view(sources: Sources) -> SignOff | None:
    """Return people's acts; None where there are none: then the page is as it always was."""
    run = sources.run.path
    every = disposing.disposals(run)
    answers = tuple(_answers(run))
    retests = tuple(_retests(sources.run.manifest))
    control = sources.setup.plan.value.control
    if not (every or answers or retests or control):
        return None
    stored: Mapping[str, Any] = every[-1].stored["disposed"] if every else {}
    gates = stored.get("gates", ())
    return SignOff(
        disposition=_word(stored["disposition"]) if stored else "",
        as_of=f"as of {show.clock(every[-1].at)}, the time claimed" if every else "",
        gates=tuple(
            Disposed(
                each["gate"],
                MARKS[Verdict(each["verdict"])].word,
                _word(each["disposition"]),
                each["because"],
            )
            for each in gates
        ),
        conditions=tuple(_condition(each) for gate in gates for each in gate["conditions"]),
        blocking=tuple(_standing(each) for gate in gates for each in gate["blocking"]),
        remarks=tuple(_standing(each) for gate in gates for each in gate["remarks"]),
        waivers=tuple(_waiver(each) for each in stored.get("effects", ())),
        answers=answers,
        retests=retests,
        document=tuple(_document(control)) if control else (),
        parties=tuple(_parties(control, run)) if control else (),
    )


def _document(control: Control) -> Iterator[DocumentRow]:
    """Yield what the report is about, in the parties' own numbers."""
    document = control.document
    language = "" if document.language == "en" else "; this report is in English"
    yield from (
        DocumentRow(label, text)
        for label, text in (
            ("Document", f"{document.number}, revision {document.revision}"),
            ("Project", control.project),
            ("Contract", control.contract),
            ("Purchase order", control.purchase_order),
            ("Site", control.site),
            ("Language, time zone", f"{document.language}{language}, {document.time_zone}"),
            ("Journal to be countersigned by", _controller(control)),
        )
        if text
    )


def _controller(control: Control) -> str:
    key = control.controller_key
    return f"{key.principal}, unattended" if key else "no key of a controller; by hand, if at all"


def _parties(control: Control, run: Path) -> Iterator[PartyRow]:
    """Yield each party with what it has signed, as claimed: `kvgate verify` checks signatures."""
    approved, results = _statements(run / APPROVALS), _statements(run / SIGNATURES)
    for party in control.parties:
        yield PartyRow(
            role=party.role,
            name=party.name,
            people=", ".join(each.name for each in party.signatories) or "nobody named",
            criteria=_signed(party.name, approved, PROTOCOL) or "not approved before the run",
            results=_signed(party.name, results, RESULTS) or "not signed",
        )


def _statements(folder: Path) -> tuple[Statement, ...]:
    paths = sorted(folder.glob("*.json")) if folder.is_dir() else []
    found = []
    for path in paths:
        with contextlib.suppress(StoreError):  # what can't be read is named by `kvgate verify`
            found.append(read_statement(read_bytes(path)))
    return tuple(sorted(found, key=lambda each: each.claimed_at))


def _signed(party: str, every: Sequence[Statement], purpose: str) -> str:
    told = [
        f"{each.name}, claimed at {show.clock(each.at)}"
        if purpose == PROTOCOL
        else f"{str(each.of.get('decision')).replace('_', ' ')}: {each.name}, "
        f"claimed at {show.clock(each.at)}"
        for each in every
        if (each.party, each.purpose) == (party, purpose)
    ]
    return told[-1] if told else ""


def beside(signoff: SignOff | None) -> dict[str, str]:
    """Return criterion → what stands beside its failed verdict: its waivers in words."""
    found: dict[str, list[str]] = {}
    for each in signoff.waivers if signoff else ():
        told = f"{each.kind} {each.waiver} {each.effect}: {each.because}"
        found.setdefault(each.criterion, []).append(told)
    return {criterion: "; ".join(told) for criterion, told in found.items()}


def _word(disposition: str) -> str:
    return DISPOSITIONS[Disposition(disposition)]


def _condition(stored: Mapping[str, Any]) -> OpenItem:
    kind = str(stored["kind"]).replace("_", " ")
    under = f"{kind} {stored['waiver']}, {stored['owner']}, until {stored['until']}"
    return OpenItem(stored["criterion"], stored["what"], under)


def _standing(stored: Mapping[str, Any]) -> OpenItem:
    return OpenItem(stored["criterion"], stored["because"], "")


def _waiver(stored: Mapping[str, Any]) -> WaiverRow:
    signed = [
        f"{each['role']} {each['principal']}, claimed at {show.clock(utc_time(each['at']))}"
        for each in stored["signed"]
        if not each["problem"]
    ]
    return WaiverRow(
        waiver=stored["waiver"],
        kind=str(stored["kind"]).replace("_", " "),
        criterion=stored["criterion"],
        effect="holds" if stored["holds"] else "has no effect",
        because=f"{str(stored['because']).removeprefix('holds ')}; owner {stored['owner']}",
        places=", ".join(stored["places"]),
        signed="; ".join(signed) or ("nobody" if stored["kind"] != "open_item" else "not needed"),
    )


def _answers(run: Path) -> Iterator[AnswerRow]:
    for each in attested.answers(run):
        photos = [
            f"{photo.name} ({photo.sha256[:10]}{', metadata removed' if photo.stripped else ''})"
            for photo in each.photos
        ]
        yield AnswerRow(
            check=each.key,
            asked=each.asked,
            answer="yes" if each.ok else "no",
            note=each.note,
            by=each.by,
            when=show.clock(each.at),
            photos=", ".join(photos),
        )


def _retests(manifest: Mapping[str, Any]) -> Iterator[RetestRow]:
    told = manifest.get(KEY)
    if told:
        changed = f"; changed: {', '.join(told['changed'])}" if told["changed"] else ""
        yield RetestRow(
            run=str(manifest["run"]),
            what=f"repeats {', '.join(told['criteria'])} of run {told['of']}{changed}",
            reason=str(told["reason"]),
        )
