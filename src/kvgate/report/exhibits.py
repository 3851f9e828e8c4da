"""The evidence a report cites: numbered by digest, each piece with its command and first lines."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterable

from kvgate.errors import KvgateError
from kvgate.model.finding import Finding
from kvgate.model.record import Evidence, EvidenceRef
from kvgate.model.verdict import Verdict
from kvgate.report import crowd, show
from kvgate.report.sources import Sources
from kvgate.report.text import excerpt
from kvgate.report.views import EvidenceLink, EvidenceView

SHORT = 10
"""Hex digits of a digest that stand for it on the page; the evidence section has all 64."""

LINKED = 4
"""Links in one cell; the evidence section says by which criteria each piece is cited."""

_STDOUT_LINES, _STDERR_LINES = 14, 6


@dataclasses.dataclass(slots=True)
class Exhibits:
    """Collects which criteria cite which pieces, in the order in which they are first cited."""

    cited: dict[EvidenceRef, list[str]] = dataclasses.field(default_factory=dict)
    disputed: set[EvidenceRef] = dataclasses.field(default_factory=set)

    def cite(self, finding: Finding) -> None:
        """Take in everything that `finding` and its hosts cite: of very many, what is linked."""
        rows, _ = crowd.shown(finding.hosts)
        many = len(rows) < len(finding.hosts)
        parts = [(finding.evidence[:LINKED] if many else finding.evidence, finding.verdict)]
        parts += [(row.first.evidence, row.first.verdict) for row in rows]
        for refs, verdict in parts:
            for ref in refs:
                by = self.cited.setdefault(ref, [])
                if finding.criterion not in by:
                    by.append(finding.criterion)
                if verdict is not Verdict.PASS:
                    self.disputed.add(ref)

    def views(self, sources: Sources) -> tuple[EvidenceView, ...]:
        """Return every cited piece; one that can't be read says so, and the report goes on."""
        return tuple(self._view(sources, ref) for ref in self.cited)

    def _view(self, sources: Sources, ref: EvidenceRef) -> EvidenceView:
        try:
            piece = sources.run.evidence(ref)
        except KvgateError as err:
            return self._made(ref, unreadable=err.message)
        stdout, stdout_cut = excerpt(piece.stdout, lines=_STDOUT_LINES)
        stderr, stderr_cut = excerpt(piece.stderr, lines=_STDERR_LINES)
        return self._made(
            ref,
            host=piece.host,
            command=shlex.join(piece.command),
            ended=_ended(piece),
            when=show.clock(piece.started_at),
            notes=piece.notes,
            stdout=stdout,
            stdout_note=_length("stdout", piece.stdout, stdout_cut),
            stderr=stderr,
            stderr_note=_length("stderr", piece.stderr, stderr_cut),
        )

    def _made(
        self,
        ref: EvidenceRef,
        *,
        host: str = "",
        command: str = "",
        ended: str = "",
        when: str = "",
        notes: tuple[str, ...] = (),
        stdout: tuple[str, ...] = (),
        stdout_note: str = "",
        stderr: tuple[str, ...] = (),
        stderr_note: str = "",
        unreadable: str = "",
    ) -> EvidenceView:
        return EvidenceView(
            sha256=ref,
            short=ref[:SHORT],
            anchor=anchor(ref),
            host=host,
            command=command,
            ended=ended,
            when=when,
            notes=notes,
            stdout=stdout,
            stdout_note=stdout_note,
            stderr=stderr,
            stderr_note=stderr_note,
            cited_by=tuple(self.cited[ref]),
            disputed=ref in self.disputed,
            unreadable=unreadable,
        )


def links(refs: Iterable[EvidenceRef]) -> tuple[EvidenceLink, ...]:
    """Return the links to the first few of `refs`."""
    some = tuple(dict.fromkeys(refs))[:LINKED]
    return tuple(EvidenceLink(ref[:SHORT], anchor(ref), ref) for ref in some)


def anchor(ref: EvidenceRef) -> str:
    """Return the page-wide name under which a piece of evidence stands."""
    return f"evidence-{ref[:16]}"


def _ended(piece: Evidence) -> str:
    seconds = (piece.ended_at - piece.started_at).total_seconds()
    how = "no exit status" if piece.exit_status is None else f"exit status {piece.exit_status}"
    return f"{how}, {show.duration(max(seconds, 0.0))}"


def _length(stream: str, data: bytes, cut: bool) -> str:
    if not data:
        return f"{stream}: empty"
    size = f"{len(data)} byte" + ("s" if len(data) != 1 else "")
    return f"{stream}: beginning of {size}" if cut else f"{stream}: {size}"
