from __future__ import annotations

import ast
import contextlib
import datetime
import http.server
import json
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kvgate.errors import CommandError
from kvgate.spec.inventory import Inventory
from kvgate.telemetry import channel, source
from kvgate.telemetry.archive import Archive
from kvgate.telemetry.channel import Channel, Settings
from kvgate.telemetry.hostclock import ControllerClock, Reckoned, Reckoning
from kvgate.telemetry.watching import Watching
from kvgate.transport.base import CommandResult
from kvgate.transport.connect import Connections
from kvgate.transport.local import LocalTransport
from kvgate.transport.sshd import PrivateSshd


def until(met: Callable[[], Any], within_s: float = 60.0) -> None:
    end = time.monotonic() + within_s
    while not met():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.02)


def test_the_sampler_is_one_file_of_python_3_8() -> None:
    tree = ast.parse(source.text(), feature_version=(3, 8))
    imported = {
        (node.module or "") if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert not any(name.startswith("kvgate") for name in imported)
    with pytest.raises(ValueError, match="too often"):
        source.command(every_ms=50)


@contextlib.contextmanager
def engine() -> Iterator[str]:
    class Metrics(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"# TYPE answered counter\nanswered 5\n"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metrics)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/metrics"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: Any) -> tuple[Path, list[str], dict[str, int]]:
    """Return a run in which this machine was sampled by Python and by the shell."""
    path, notes = tmp_path_factory.mktemp("run"), []
    ways = [LocalTransport("python"), LocalTransport("shell")]

    def journal(kind: str, **fields: Any) -> None:
        if kind == "note":
            notes.append(fields["text"])

    with engine() as url:
        tool = ("tool.x", ("echo", '{"degrees": 41}'), "json")
        with Watching(
            path,
            ways,
            journal=journal,
            settings=Settings(every_s=0.2, metrics={"near": url}, tools=[tool]),
            settings_of={"shell": Settings(every_s=0.2, shell_only=True)},
        ) as watching:
            watching.scrape("python", "far", url)
            until(lambda: min(watching.counts().values()) >= 8)
            until(lambda: all(each._boot for each in watching.channels))
            time.sleep(
                1.2
            )  # a look at the channels has passed: the shell's host was asked its date
    counts = watching.counts()
    for way in ways:
        way.close()
    return path, notes, counts


def test_this_machine_is_sampled_by_python_and_by_the_shell_alike(sampled: Any) -> None:
    path, notes, counts = sampled
    archive = Archive(path)
    names = {
        host: {s.name for s in archive.series() if s.host == host and s.group == "fast"}
        for host in counts
    }
    assert names["python"] - names["shell"] <= {"sampler.cpu_us"}
    assert {"cpu.busy_pct", "mem.available_bytes", "load.1min"} <= names["shell"]
    for host in counts:
        memory = archive.line(host, "mem.total_bytes").points
        assert {point.mean for point in memory} == {memory[0].mean}
        assert memory[0].mean > 2**27
    assert not [note for note in notes if "sampler: " in note], notes


def test_both_hosts_clocks_were_compared_with_ours(sampled: Any) -> None:
    archive = Archive(sampled[0])
    for host in ("python", "shell"):
        offset = archive.line(host, "clock.offset_us").points[0].mean
        trip = archive.line(host, "clock.round_trip_us").points[0].mean
        assert abs(offset) <= trip / 2 + 2000  # it is one clock; the shell's date starts a process


def test_engines_and_slow_tools_are_series_too(sampled: Any) -> None:
    archive = Archive(sampled[0])
    groups = {(s.group, s.name) for s in archive.series() if s.host == "python"}
    assert {("engine:near", "engine.answered"), ("engine:far", "engine.answered")} <= groups
    assert ("slow", "tool.x.degrees") in groups
    assert archive.line("python", "tool.x.degrees").points[0].mean == 41
    said = [event["text"] for event in archive.events("sampler")]
    assert any("sampled by Python" in text for text in said)
    assert any("the shell" in text for text in said)


@pytest.mark.sshd
def test_over_ssh_there_is_one_channel_and_nothing_is_left(
    tmp_path: Path, sshd: PrivateSshd
) -> None:
    entry = {"roles": ["serving"], **sshd.host_entry()}
    inventory = Inventory.model_validate({"inventory": "i", "hosts": {"here": entry}})
    with Connections(inventory) as ways:
        transport = ways.to(inventory.hosts["here"])
        with Watching(
            tmp_path,
            [transport],
            journal=lambda kind, **fields: kind != "note" or pytest.fail(fields["text"]),
            settings=Settings(every_s=0.2),
        ) as watching:
            (keeps,) = watching.channels
            until(lambda: keeps.count >= 3)
            until(lambda: ("here", "clock") in watching._recorder._streams)
            pid = keeps._process.pid  # type: ignore[union-attr]
        until(lambda: not Path(f"/proc/{pid}").exists())
    trip = Archive(tmp_path).line("here", "clock.round_trip_us").points[0].mean
    offset = Archive(tmp_path).line("here", "clock.offset_us").points[0].mean
    assert abs(offset) <= trip / 2 + 100


class Process:
    """A sampler that says what a test lets it say."""

    pid = 1

    def __init__(self, say: Callable[[bytes], None]) -> None:
        self.tell, self.ended, self.stops = say, False, 0

    def poll(self) -> bool:
        return self.ended

    def stop(self, grace_s: float = 5.0) -> CommandResult:
        self.stops += 1
        self.ended = True
        when = datetime.datetime(2026, 5, 12, tzinfo=datetime.UTC)
        return CommandResult(
            host="h",
            argv=("sh",),
            exit_status=None,
            stdout=b"",
            stderr=b"",
            started_at=when,
            elapsed_s=1,
        )


class Host:
    """A transport that starts such samplers."""

    name = "ini1"

    def __init__(self) -> None:
        self.started: list[Process] = []
        self.refuse = False

    def start(self, argv: Any, *, deadline_s: float, on_stdout: Any, **_: Any) -> Any:
        if self.refuse:
            raise CommandError("ini1", "no channel")
        self.started.append(Process(on_stdout))
        return self.started[-1]


HELLO = b'H {"sampler": 2, "python": "3.9.2", "boot": "%s", "absent": {}}\n'
NAMES = b'S fast 1 [["a.x", "c"]]\n'


def test_a_sampler_that_ends_or_falls_silent_is_started_anew(
    told: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "STARTS_IN_S", 0.5)
    host, gaps = Host(), []
    with told.recording() as record:
        keeps = Channel(host, record, ControllerClock(), Settings(every_s=0.1), gaps.append)  # type: ignore[arg-type]
        with keeps:
            host.started[0].tell(HELLO % b"b1" + NAMES + b"V fast 1 1000 1 5\nV fast 1")
            host.started[0].ended = True
            until(lambda: keeps.watch() or len(host.started) == 2)
            host.started[1].tell(HELLO % b"b1" + NAMES + b"V fast 1 2000 1 9\nnonsense\n")
            until(lambda: keeps.watch() or len(host.started) == 3)  # silent
            host.refuse = True
            until(lambda: keeps.watch() or any("no channel" in gap for gap in gaps))
    assert keeps.count == 2
    assert [each.stops for each in host.started] == [1, 1, 1]
    assert "ini1: the sampler ended" in gaps[0]
    assert any("is silent" in gap for gap in gaps)
    assert any("'nonsense' is no line" in gap for gap in gaps)
    (point,) = Archive(told.path).line("ini1", "a.x").points
    assert (point.mean, point.count) == (4.0, 1)  # counted on over the break, in a second


def test_a_host_that_was_started_anew_has_counters_that_begin_again(told: Any) -> None:
    host = Host()
    with told.recording() as record:
        keeps = Channel(host, record, ControllerClock(), Settings(), lambda _: None)  # type: ignore[arg-type]
        with keeps:
            host.started[0].tell(HELLO % b"b1" + NAMES + b"V fast 1 900000 1 5\n")
            keeps._stop()
            keeps._start()
            host.started[1].tell(HELLO % b"b2" + NAMES + b"V fast 1 1000 1 900\n")
            host.started[1].tell(b"V fast 1 2000 1 901\n")
    assert told.troubles == []
    points = Archive(told.path).line("ini1", "a.x").points
    assert [point.mean for point in points] == [1.0]
    assert [event["text"] for event in Archive(told.path).events("restart")] == [
        "the host restarted"
    ]


def test_the_next_sampler_is_told_where_the_kernel_log_was_left(told: Any) -> None:
    host, asked = Host(), []
    start = host.start
    host.start = lambda argv, **rest: (
        asked.append(json.loads(argv[5])["kernel"]) or start(argv, **rest)
    )  # type: ignore[method-assign]
    event = b'E {"kind": "kernel", "text": "x", "seq": 41, "us": 5, "level": 3}\n'
    with told.recording() as record:
        keeps = Channel(host, record, ControllerClock(), Settings(), lambda _: None)  # type: ignore[arg-type]
        with keeps:
            host.started[0].tell(HELLO % b"b1" + NAMES + b"V fast 1 1000 1 5\n")
            keeps._stop()
            keeps._start()
            host.started[1].tell(HELLO % b"b1" + event + NAMES + b"V fast 1 2000 1 5\n")
            keeps._stop()
            keeps._start()
            host.started[2].tell(HELLO % b"b2")
            keeps._stop()
            keeps._start()
    assert asked == [
        {},
        {"boot": "b1", "us": 1_000_000},
        {"boot": "b1", "us": 1_000_000, "seq": 41},
        {"boot": "b2"},
    ]


def test_a_flood_of_nonsense_is_told_once_and_counted(told: Any) -> None:
    host, gaps = Host(), []
    with told.recording() as record:
        keeps = Channel(host, record, ControllerClock(), Settings(), gaps.append)  # type: ignore[arg-type]
        with keeps:
            host.started[0].tell(b"x\n" * 500)
    assert len(gaps) == channel.MOST_TROUBLES + 1
    assert gaps[-1] == "ini1: 480 more of the kind"


def test_a_host_that_talks_without_end_is_ended_and_asked_again_ever_more_seldom(
    told: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flood by bytes, by nonsense and by names; memory stays, each time is told once."""
    waits: list[float] = []
    gaps: list[str] = []
    host = Host()
    named = b"".join(b'S fast %d [["a%d", "c"]]\n' % (n, n) for n in range(1000))
    floods = [b"x" * 65536, b"x\n" * 4096, named, b"V fast 1 1000 1 5\n" * 3000]
    with told.recording() as record:
        keeps = Channel(host, record, ControllerClock(), Settings(), gaps.append)  # type: ignore[arg-type]
        with keeps:
            tracemalloc.start()
            for n in range(12):
                process = host.started[n]
                process.tell(HELLO % b"b1" + NAMES)
                for _ in range(300 if n < len(floods) else 0):
                    process.tell(floods[n % len(floods)])
                process.ended = n >= len(floods)
                keeps._heard -= 2.0  # a second passed
                keeps.watch()
                waits.append(keeps._wait_s)
                if keeps._due is not None:
                    assert process.stops == 1
                    keeps.watch()
                    assert len(host.started) == n + 1  # not before its time
                    keeps._due = 0.0
                    keeps.watch()
            used = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert used < 30 * 2**20
            assert waits[:6] == [0.5, 1.5, 3.5, 7.5, 15.5, 30.0]
            assert set(waits[6:]) == {30.0}
            keeps._began -= channel.WELL_S
            host.started[-1].ended = True
            keeps._heard -= 2.0
            keeps.watch()
            assert (keeps._wait_s, keeps._due) == (0.0, None)  # it had run well
    assert len([gap for gap in gaps if "it floods" in gap]) == len(floods)
    assert len(gaps) < 150


def test_the_quickest_of_several_questions_counts() -> None:
    asked: list[str] = []
    found: list[Reckoned] = []
    clock = ControllerClock()
    reckoning = Reckoning(clock, asked.append, found.append)
    reckoning.tend()
    for number in range(6):
        time.sleep(0.03 if number != 3 else 0.0)
        now_ns = round(clock.ms() * 1e6)
        reckoning.answered(int(asked[-1].split()[1]), 10**9, now_ns + 5 * 10**9)
        reckoning.answered(999, 1, 1)  # to nobody's question
    assert asked == [f"q {n}" for n in range(1, 7)]
    (best,) = found
    assert best.round_trip_us < 30_000
    assert abs(best.offset_us - 5 * 10**6) <= best.round_trip_us
    reckoning.tend()
    assert len(asked) == 6  # not before its time
