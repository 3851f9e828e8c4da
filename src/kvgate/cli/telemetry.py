"""The verb telemetry: what a run recorded of its hosts, as text, JSON or CSV."""

from __future__ import annotations

import argparse
import collections
import csv
import datetime
import fnmatch
import io
import itertools
import json
import sys
from collections.abc import Iterator, Sequence

from kvgate.cli.places import run_of, write_new
from kvgate.errors import UsageError
from kvgate.telemetry.archive import Archive, Gap, Line, Series, has_telemetry
from kvgate.untrusted import plain

_MOST_GAPS = 20


def telemetry_verb(arguments: argparse.Namespace, _command: list[str]) -> int:
    """List a run's telemetry, or print series or events; 2: parts of it could not be used."""
    path = run_of(arguments, arguments.run)
    if not has_telemetry(path):
        raise UsageError(
            f"{path}: has no telemetry in series",
            hint="runs record it where a suite or a soak does; older ones have telemetry.jsonl",
        )
    archive = Archive(path)
    if arguments.series is not None:
        text = _lines(arguments, _chosen(archive, arguments))
    elif arguments.events is not None:
        text = _events(arguments, archive)
    else:
        text = _overview(arguments, archive)
    if arguments.out:
        write_new(arguments.out, text.encode())
    else:
        print(text, end="")
    for note in archive.notes:
        print(plain(f"  {note}"), file=sys.stderr)
    return 2 if archive.notes else 0


def _moment(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError as err:
        raise UsageError(f"'{text}' is no time", hint="UTC, as in 2026-11-30T23:00:00") from err
    return (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp()


def _utc(at: float) -> str:
    moment = datetime.datetime.fromtimestamp(at, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def _chosen(archive: Archive, arguments: argparse.Namespace) -> list[Line]:
    begin, end = _moment(arguments.begin), _moment(arguments.end)
    wanted: dict[tuple[str, str], None] = {}
    for each in archive.series():
        of_host = arguments.host in (None, each.host)
        if of_host and (
            each.name == arguments.series or fnmatch.fnmatchcase(each.name, arguments.series)
        ):
            wanted[each.host, each.name] = None
    if not wanted:
        raise UsageError(
            f"no series '{arguments.series}'" + (f" of {arguments.host}" if arguments.host else ""),
            hint="`kvgate telemetry RUN --names` lists them",
        )
    return [archive.line(host, name, begin, end, at_most=arguments.points) for host, name in wanted]


def _lines(arguments: argparse.Namespace, lines: Sequence[Line]) -> str:
    if arguments.format == "json":
        return json.dumps([_as_json(line) for line in lines], indent=2) + "\n"
    if arguments.format == "csv":
        table = io.StringIO()
        writer = csv.writer(table, lineterminator="\n")
        writer.writerow(("host", "series", "utc", "covers_s", "low", "mean", "high", "samples"))
        for line in lines:
            for p in line.points:
                where = (line.series.host, line.series.name, _utc(p.at), line.width_s)
                writer.writerow((*where, p.low, p.mean, p.high, p.count))
        return table.getvalue()
    return "".join(f"{plain(text)}\n" for line in lines for text in _as_text(line))


def _as_json(line: Line) -> dict[str, object]:
    return {
        "host": line.series.host,
        "series": line.series.name,
        "per_second": line.series.counter,
        "covers_s": line.width_s,
        "points": [
            {"utc": _utc(p.at), "low": p.low, "mean": p.mean, "high": p.high, "samples": p.count}
            for p in line.points
        ],
        "gaps": [{"from": _utc(gap.begin), "to": _utc(gap.end)} for gap in line.gaps],
    }


def _as_text(line: Line) -> Iterator[str]:
    of_what = f"each of {line.width_s:g} s: least, mean, greatest" if line.width_s else "samples"
    unit = ", a second" if line.series.counter else ""
    yield f"{line.series.host}  {line.series.name}  ({of_what}{unit})"
    gaps = list(line.gaps)
    for p in line.points:
        while gaps and gaps[0].end <= p.at + 1e-9:
            yield f"  {_gap(gaps.pop(0))}"
        ends = f"{p.low:>18.6g}{p.mean:>18.6g}{p.high:>18.6g}" if line.width_s else f"{p.mean:.6g}"
        yield f"  {_utc(p.at)}  {ends}"
    if not line.points:
        yield "  no sample between these times"


def _gap(gap: Gap) -> str:
    return f"gap: {_utc(gap.begin)} to {_utc(gap.end)}, {gap.end - gap.begin:.1f} s"


def _events(arguments: argparse.Namespace, archive: Archive) -> str:
    if arguments.format == "csv":
        raise UsageError("events are text or JSON")
    kinds = (arguments.events,) if arguments.events else ()
    begin, end = _moment(arguments.begin), _moment(arguments.end)
    found = [
        event
        for event in archive.events(*kinds)
        if arguments.host in (None, event["host"])
        and (begin is None or event["t"] >= 1000 * begin)
        and (end is None or event["t"] < 1000 * end)
    ]
    if arguments.format == "json":
        return json.dumps(found, indent=2) + "\n"
    rows = (f"{_utc(e['t'] / 1000)}  {e['host']}  {e['kind']}: {e['text']}" for e in found)
    return "".join(f"{plain(row)}\n" for row in rows) or "nothing of that kind happened\n"


def _overview(arguments: argparse.Namespace, archive: Archive) -> str:
    if arguments.format == "csv":
        raise UsageError("a list is text or JSON", hint="--series NAME --format csv")
    series = [each for each in archive.series() if arguments.host in (None, each.host)]
    gaps = archive.gaps(arguments.host)
    if arguments.format == "json":
        return json.dumps(_overview_json(series, gaps), indent=2) + "\n"
    rows: list[str] = []
    if span := archive.span():
        rows.append(f"{_utc(span[0])} to {_utc(span[1])}, {span[1] - span[0]:.0f} s")
    kinds: dict[str, collections.Counter[str]] = {}
    for event in archive.events():
        kinds.setdefault(str(event["host"]), collections.Counter())[str(event["kind"])] += 1
    for host, found in itertools.groupby(series, lambda each: each.host):
        of_host = list(found)
        rows += _of_host(archive, host, of_host, gaps)
        if counts := kinds.get(host):
            told = ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items()))
            rows.append(f"  events: {told}")
        if arguments.names:
            rows += [f"  {_named(each)}" for each in of_host]
    return "".join(f"{plain(row)}\n" for row in rows)


def _of_host(
    archive: Archive, host: str, series: Sequence[Series], gaps: dict[str, tuple[Gap, ...]]
) -> Iterator[str]:
    groups = collections.Counter(each.group for each in series)
    told = ", ".join(f"{group} {count}" for group, count in sorted(groups.items()))
    yield f"{host}: {len(series)} series ({told})"
    if "clock" in groups:
        offsets = archive.line(host, "clock.offset_us", at_most=10**6).points
        trips = archive.line(host, "clock.round_trip_us", at_most=10**6).points
        if offsets and trips:
            low, high = min(p.low for p in offsets) / 1000, max(p.high for p in offsets) / 1000
            half = max(p.high for p in trips) / 2000
            yield f"  clock less the controller's: {low:+.3f} to {high:+.3f} ms, ± {half:.3f} ms"
    else:
        yield "  clock: not asked"
    known = gaps.get(host, ())
    yield f"  gaps: {len(known) or 'none'}"
    for gap in known[:_MOST_GAPS]:
        yield f"    {_gap(gap)}"
    if len(known) > _MOST_GAPS:
        yield f"    and {len(known) - _MOST_GAPS} more (--format json)"


def _named(each: Series) -> str:
    kind = "a second" if each.counter else "level"
    return (
        f"{each.name}  ({kind}, {f'every {each.every_s:g} s' if each.every_s else 'as it comes'})"
    )


def _overview_json(series: Sequence[Series], gaps: dict[str, tuple[Gap, ...]]) -> dict[str, object]:
    return {
        "series": [
            {
                "host": each.host,
                "name": each.name,
                "group": each.group,
                "per_second": each.counter,
                "every_s": each.every_s,
            }
            for each in series
        ],
        "gaps": {
            host: [{"from": _utc(gap.begin), "to": _utc(gap.end)} for gap in found]
            for host, found in gaps.items()
        },
    }
