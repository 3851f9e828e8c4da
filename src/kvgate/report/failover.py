"""Draws each fault under load: what every path was when, I/Os beside it, and the longest gap."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from kvgate.errors import KvgateError
from kvgate.model.record import Evidence, Measurement
from kvgate.report import svg
from kvgate.report.series import significant
from kvgate.report.sources import Sources
from kvgate.report.views import Chart
from kvgate.telemetry import paths_script
from kvgate.telemetry.paths_seen import Follower, Moment, PathId
from kvgate.workloads import failover
from kvgate.workloads.fio_logs import FETCH

MOMENTS = "failover.moments"
"""The measure whose text says when a fault was begun, proven, undone and proven repaired."""

_WIDTH, _LEFT, _RIGHT, _TOP, _LANE, _PLOT = 960.0, 60.0, 168.0, 66.0, 40.0, 120.0
_LABEL_ROWS = 4
_MARKS = (
    ("begun", "fault-edge"),
    ("proven", "grid"),
    ("undone", "fault-edge"),
    ("repaired", "grid"),
)
_MOST = 24  # charts of one gate
_ROWS = 60
_TIME = re.compile(r"(begun|proven|undone|repaired) ([0-9]{1,10}\.[0-9]{2}) s", re.ASCII)
_ACK = re.compile(rb"^A \d{1,12} \d{1,12} (\d{1,10}\.\d{3}) (\d{1,7}\.\d{6})$", re.MULTILINE)
_ERROR = re.compile(rb"^E \d{1,12} \d{1,12} (\d{1,10}\.\d{3}) \d{1,5}$", re.MULTILINE)
_NOTE = (
    "0 s is when the fault's command was begun, by the initiator's uptime. Thick: live and "
    "optimized; thin, with its state: not."
)


@dataclasses.dataclass(frozen=True, slots=True)
class Told:
    """What was kept of one fault: the paths, when what happened, and (time, latency) of I/Os."""

    fault: str
    kind: str
    times: dict[str, float]
    moments: tuple[Moment, ...]
    ios: tuple[tuple[float, float], ...]  # seconds of uptime, longest latency in ms since then
    gap: tuple[float, float] | None  # the longest time without an I/O: from when to when
    error: float | None = None  # when the first I/O error ended a writer


def charts(gate: str, taken: Iterable[Measurement], sources: Sources) -> Iterator[Chart]:
    """Yield a timeline for each fault that was proven in `gate`, in the order they were done."""
    found = [each for each in taken if each.name == MOMENTS and isinstance(each.value, str)]
    for number, each in enumerate(found[:_MOST], 1):
        told = _told(each, sources)
        title = f"Fault {told.fault} ({told.kind.replace('_', ' ')})"
        name = f"{gate.lower()}-fault-{number}"
        if len(told.moments) < 2 or "begun" not in told.times:
            yield Chart(name, title, "Nothing to draw: its evidence can't be read.", None)
        else:
            yield draw(name, title, told)


def _told(each: Measurement, sources: Sources) -> Told:
    times = {name: float(at) for name, at in _TIME.findall(str(each.value))}
    moments: tuple[Moment, ...] = ()
    ios: tuple[tuple[float, float], ...] = ()
    gap, error = None, None
    pieces = tuple(_pieces(each, sources))
    for piece in pieces:
        if paths_script.BEGIN in piece.command and not moments:
            moments = tuple(_moments(piece.stdout))
    for piece in pieces:
        if FETCH in piece.command and moments:
            ios, gap = _fio(piece.stdout, moments[0], times.get("begun", 0.0))
        elif acks := _ACK.findall(piece.stdout):
            error = min(map(float, _ERROR.findall(piece.stdout)), default=None)
            ios, gap = _acks(acks, error, times.get("begun", 0.0))
    kind = each.labels.get("kind", "")
    return Told(each.labels.get("fault", "?"), kind, times, moments, ios, gap, error)


def _pieces(each: Measurement, sources: Sources) -> Iterator[Evidence]:
    """Yield the evidence that can be read, the latest first."""
    for ref in reversed(each.evidence):
        try:
            yield sources.run.evidence(ref)
        except KvgateError:
            continue


def _moments(output: bytes) -> Iterator[Moment]:
    follower = Follower()
    for line in output.split(b"\n"):
        try:
            yield follower.moment(line)
        except KvgateError:
            continue  # the last line may be cut; the verdict never rests on this picture


def _fio(
    text: bytes, first: Moment, begun: float
) -> tuple[tuple[tuple[float, float], ...], tuple[float, float] | None]:
    """Return the windows of fio's log by uptime, and the longest gap since `begun`."""
    try:
        course = failover.course_of(text)
    except KvgateError:
        return (), None
    ahead_s = first.clock_s - first.uptime_s
    ios = tuple(
        (window.begin_ms / 1000 - ahead_s, max(f.most for f in window.figures.values()) / 1e6)
        for window in course.windows
    )
    gaps = [
        (gap.begin_ms / 1000 - ahead_s, gap.end_ms / 1000 - ahead_s) for gap in course.gaps["all"]
    ]
    return ios, _longest(gaps, begun)


def _acks(
    acks: Sequence[tuple[bytes, bytes]], error: float | None, begun: float
) -> tuple[tuple[tuple[float, float], ...], tuple[float, float] | None]:
    """Return the longest acknowledged write of each half second, and the longest gap.

    An error ends the silence before it.
    """
    most: dict[int, float] = {}
    for at, took in acks:
        half = int(2 * float(at))
        most[half] = max(most.get(half, 0.0), 1000 * float(took))
    times = sorted([*(float(at) for at, _ in acks), *([] if error is None else [error])])
    return tuple((half / 2, ms) for half, ms in sorted(most.items())), _longest(
        list(itertools.pairwise(times)), begun
    )


def _longest(gaps: list[tuple[float, float]], begun: float) -> tuple[float, float] | None:
    since = [gap for gap in gaps if gap[1] > begun]
    return max(since, key=lambda gap: gap[1] - gap[0], default=None)


def draw(name: str, title: str, told: Told) -> Chart:
    """Return the timeline of one fault."""
    zero = told.times["begun"]
    paths = sorted({path for each in told.moments for path in each.paths})
    spans = {path: tuple(_spans(told.moments, path)) for path in paths}
    bottom = _TOP + _LANE * len(paths) + _PLOT + 24
    board = svg.Drawing(name, _WIDTH, bottom + 30, title=title, description=_said(told, spans))
    begin, end = told.moments[0].uptime_s - zero, told.moments[-1].uptime_s - zero
    across = svg.Scale(begin, end, _LEFT, _WIDTH - _RIGHT)
    _marks(board, across, told, bottom)
    for row, path in enumerate(paths):
        _lane(board, across, spans[path], path, _TOP + _LANE * row, zero)
    _ios(board, across, told, _TOP + _LANE * len(paths) + 16)
    for tick in across.ticks(10):
        board.line(across(tick), bottom, across(tick), bottom + 4, "axis")
        board.text(across(tick), bottom + 18, svg.number(tick), "tick", "middle")
    board.text(_WIDTH - _RIGHT + 10, bottom + 18, "s since its begin", "unit")
    return Chart(
        name,
        title,
        _NOTE + _gap_note(told),
        board.markup(),
        wide=True,
        columns=("Path", "From (s)", "State"),
        rows=tuple(_rows(spans, zero)),
    )


Span = tuple[float, float, str, bool]
"""From when to when a path was in a state, and whether that was live and optimized."""


def _spans(moments: Sequence[Moment], path: PathId) -> Iterator[Span]:
    """Yield the states of a path one after the other."""
    told = [
        (each.uptime_s, state.told if state else "gone", bool(state and state.best))
        for each in moments
        for state in [each.paths.get(path)]
    ]
    begun, text, best = told[0]
    for at, now, now_best in told[1:]:
        if now != text:
            yield begun, at, text, best
            begun, text, best = at, now, now_best
    yield begun, told[-1][0], text, best


def _marks(board: svg.Drawing, across: svg.Scale, told: Told, bottom: float) -> None:
    """Shade the fault, and mark its four moments; labels that are near stand in several rows."""
    zero = told.times["begun"]
    undone = told.times.get("undone", told.moments[-1].uptime_s)
    left, right = across(0.0), across(undone - zero)
    board.rect(left, _TOP - 10, max(right - left, 2.0), bottom - _TOP + 10, "fault", "the fault")
    taken = [0.0] * _LABEL_ROWS  # up to where each row of labels is written
    for name, style in _MARKS:
        if name not in told.times:
            continue
        at, label = across(told.times[name] - zero), f"{name} {told.times[name] - zero:.1f} s"
        row = next((n for n, edge in enumerate(taken) if edge < at), _LABEL_ROWS - 1)
        taken[row] = at + 6.2 * len(label)
        y = _TOP - 16 - 13 * (_LABEL_ROWS - 1 - row)
        board.line(at, y, at, bottom, style)
        board.text(at + 3, y, label, "note")


def _lane(
    board: svg.Drawing,
    across: svg.Scale,
    spans: Sequence[Span],
    path: PathId,
    top: float,
    zero: float,
) -> None:
    board.text(_LEFT, top + 11, str(path), "label")
    for begin, end, text, best in spans:
        left, right = across(begin - zero), across(end - zero)
        tip = f"{text}, {begin - zero:.1f} s to {end - zero:.1f} s"
        if best:
            board.rect(left, top + 16, max(right - left, 1.0), 14, "bar", tip)
            continue
        board.rect(left, top + 21, max(right - left, 1.5), 4, "fault-edge", tip)
        if right - left > 6 * len(text):
            board.text(left + 4, top + 17, text, "note")
    away = sum(end - begin for begin, end, _, best in spans if not best)
    board.text(_WIDTH - _RIGHT + 10, top + 28, f"away {significant(away)} s", "value")


def _ios(board: svg.Drawing, across: svg.Scale, told: Told, top: float) -> None:
    """Draw the longest I/O of each half second, and the longest gap as a bracket below it."""
    zero = told.times["begun"]
    scale = svg.spread([ms for _, ms in told.ios if ms > 0], top + _PLOT, top + 18)
    board.text(_LEFT, top + 10, "longest I/O of each half second, ms", "label")
    for tick in scale.ticks(3):
        board.line(_LEFT, scale(tick), _WIDTH - _RIGHT, scale(tick), "grid")
        board.text(_LEFT - 7, scale(tick) + 4, svg.number(tick), "tick", "end")
    board.line(_LEFT, top + 18, _LEFT, top + _PLOT, "axis")
    board.line(_LEFT, top + _PLOT, _WIDTH - _RIGHT, top + _PLOT, "axis")
    low, high = across.low, across.high
    for at, ms in told.ios:
        if low <= at - zero <= high:
            tip = f"{at - zero:.1f} s: {ms:.3g} ms"
            board.point(across(at - zero), scale(ms), "circle", "s1", tip, 2.6)
    if told.error is not None:
        at = across(told.error - zero)
        board.line(at, top + 18, at, top + _PLOT, "fault-edge")
        board.text(at + 5, top + 30, f"I/O error {told.error - zero:.1f} s", "note")
    if told.gap:
        left, right = across(told.gap[0] - zero), across(told.gap[1] - zero)
        at = top + _PLOT - 8
        board.rect(left, at - 3, max(right - left, 1.5), 6, "heat heat5", "no I/O was completed")
        board.text(right + 5, at + 4, f"no I/O for {_gap_s(told)} s", "note")


def _gap_s(told: Told) -> str:
    return significant(told.gap[1] - told.gap[0]) if told.gap else "?"


def _gap_note(told: Told) -> str:
    if told.gap is None:
        return " No log of I/Os could be read." if not told.ios else ""
    until = "" if told.error is None else " The first I/O error ended the load."
    return f" The longest time without a completed I/O since then: {_gap_s(told)} s.{until}"


def _said(told: Told, spans: dict[PathId, tuple[Span, ...]]) -> str:
    zero = told.times["begun"]
    parts = [
        f"{path}: {', '.join(f'{text} from {begin - zero:.1f} s' for begin, _, text, _ in some)}"
        for path, some in spans.items()
    ]
    return "; ".join([*parts, _gap_note(told).strip()])


def _rows(spans: dict[PathId, tuple[Span, ...]], zero: float) -> Iterator[tuple[str, ...]]:
    rows = [
        (str(path), f"{begin - zero:.2f}", text)
        for path, some in spans.items()
        for begin, _, text, _ in some
    ]
    yield from rows[:_ROWS]
