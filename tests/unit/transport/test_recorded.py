from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable

import hypothesis.strategies as st
import pytest
from hypothesis import given

from kvgate.errors import CommandError, HostUnreachableError, SpecError
from kvgate.spec.inventory import Inventory
from kvgate.transport.base import CommandResult
from kvgate.transport.connect import Connections
from kvgate.transport.recorded import RecordedTransport
from kvgate.transport.recording import Answered, Recording, of_bytes, to_bytes

NOON = datetime.datetime(2026, 5, 12, 12, 0, 0, 7, tzinfo=datetime.UTC)


def told(
    text: str | bytes, *argv: str, scope: str = "", status: int | None = 0, **more: object
) -> Answered:
    fields: dict[str, object] = {
        "host": "ini1",
        "argv": argv,
        "exit_status": status,
        "stdout": text.encode() if isinstance(text, str) else text,
        "stderr": b"",
        "started_at": NOON,
        "elapsed_s": 0.25,
    }
    return Answered(result=CommandResult(**{**fields, **more}), scope=scope)  # type: ignore[arg-type]


def way(
    *answers: Answered, scope: Callable[[], str] = lambda: "", timing: bool = False
) -> RecordedTransport:
    recording = Recording(
        host="ini1", source="run-7", answers=answers, unreachable={"G2": "connection refused"}
    )
    return RecordedTransport("ini1", recording, scope=scope, timing=timing)


def test_the_nth_same_command_gets_the_nth_answer() -> None:
    host = way(told("1", "date"), told("x", "uname"), told("2", "date"))
    assert [host.run(["date"], timeout_s=1).stdout for _ in range(2)] == [b"1", b"2"]
    assert host.run(["uname"], timeout_s=1).started_at == NOON
    with pytest.raises(CommandError, match=r"ini1: `date` was answered 2 times .* of run-7"):
        host.run(["date"], timeout_s=1)


def test_an_unrecorded_command_is_named_never_answered() -> None:
    host = way(told("1", "date"))
    for ask in (
        lambda: host.run(["date", "-u"], timeout_s=1),
        lambda: host.start(["date", "-u"], deadline_s=1),
    ):
        with pytest.raises(CommandError, match="`date -u` is not in the recording of run-7"):
            ask()


def test_each_scope_has_its_own_answers_from_its_first_on() -> None:
    scope = ["G1/a"]
    answers = [told(f"{s}{n}", "date", scope=s) for s in ("G1/a", "G1/b") for n in (1, 2)]
    for _ in range(2):  # a process that was killed and began again meets the same
        host = way(*answers, scope=lambda: scope[0])
        scope[0] = "G1/b"
        assert host.run(["date"], timeout_s=1).stdout == b"G1/b1"
        scope[0] = "G1/a"
        assert host.run(["date"], timeout_s=1).stdout == b"G1/a1"
        assert host.run(["date"], timeout_s=1).stdout == b"G1/a2"
    scope[0] = "G1/c"
    with pytest.raises(CommandError, match=r"was not asked in G1/c .*, only in G1/a"):
        host.run(["date"], timeout_s=1)
    scope[0] = ""
    assert host.run(["date"], timeout_s=1).stdout == b"G1/a1"  # whoever names no scope: in order


def test_a_host_that_was_out_of_reach_is_so_again() -> None:
    host = way(told("1", "date", scope="G1"), scope=lambda: "G2/survey")
    with pytest.raises(HostUnreachableError, match="ini1: connection refused"):
        host.run(["date"], timeout_s=1)


def test_output_is_capped_as_the_caller_asks() -> None:
    host = way(told("12345", "cat", "x", stdout_dropped=2))
    result = host.run(["cat", "x"], timeout_s=1, cap_bytes=3)
    assert (result.stdout, result.stdout_dropped, result.ok) == (b"123", 4, False)


def test_a_process_hands_over_its_output_and_ends_as_it_did() -> None:
    host = way(told("ready\n", "fio"), told("up", "guard", status=None, signal=9))
    said: list[bytes] = []
    fio = host.start(["fio"], deadline_s=1, on_stdout=said.append)
    assert (said, fio.poll(), fio.wait(0).exit_status) == ([b"ready\n"], True, 0)
    guard = host.start(["guard"], deadline_s=1)
    assert not guard.poll()  # it was ended by someone, so it runs until someone does
    guard.kill()
    assert guard.poll()
    assert guard.wait(1).signal == 9


def test_an_error_of_the_reader_is_raised_by_wait() -> None:
    def odd(_: bytes) -> None:
        raise ValueError("odd")

    process = way(told("x", "fio")).start(["fio"], deadline_s=1, on_stdout=odd)
    with pytest.raises(ValueError, match="odd"):
        process.wait(1)


def test_timing_takes_as_long_and_ends_with_the_connection() -> None:
    host = way(told("1", "a"), told("2", "b", elapsed_s=60.0), told("3", "c"), timing=True)
    begun = time.monotonic()
    assert host.run(["a"], timeout_s=1).stdout == b"1"
    assert 0.25 <= time.monotonic() - begun < 5
    process = host.start(["c"], deadline_s=1)
    with pytest.raises(CommandError, match="still runs"):
        process.wait(0)
    assert process.wait(5).stdout == b"3"
    threading.Timer(0.1, host.close).start()
    with pytest.raises(HostUnreachableError, match="the replay was ended"):
        host.run(["b"], timeout_s=1)


def test_only_files_that_commands_named_can_be_written() -> None:
    host = way(told("", "fio", "/x/a.fio"), told("there", "head", "-c", "101", "/etc/hosts"))
    host.write_file("/x/a.fio", b"[job]")
    assert host.read_file("/x/a.fio") == b"[job]"
    assert host.read_file("/etc/hosts", cap_bytes=100) == b"there"
    with pytest.raises(CommandError, match=r"/x/b.fio: the recording of run-7 knows of no such"):
        host.write_file("/x/b.fio", b"")


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@given(
    st.lists(
        st.builds(
            lambda out, err, argv, scope, status, us, dropped: told(
                out,
                *argv,
                scope=scope,
                status=status,
                stderr=err,
                elapsed_s=us / 10**6,
                timed_out=status is None,
                stdout_dropped=dropped,
            ),
            st.binary(max_size=20),
            st.binary(max_size=20),
            st.lists(texts, min_size=1, max_size=3),
            texts,
            st.none() | st.integers(0, 255),
            st.integers(0, 10**10),
            st.integers(0, 10**9),
        ),
        max_size=5,
    )
)
def test_a_recording_reads_back_as_it_was(answers: list[Answered]) -> None:
    made = Recording(host="ini1", source="r", answers=tuple(answers), unreachable={"G1": "no"})
    assert of_bytes(to_bytes(made), "x") == made
    lines = to_bytes(made).splitlines(keepends=True)
    if answers:
        with pytest.raises(SpecError, match=rf"x:{len(lines) - 1}: ends after"):
            of_bytes(b"".join(lines[:-1]), "x")


@given(st.binary(max_size=200))
def test_what_is_no_recording_is_refused(data: bytes) -> None:
    with pytest.raises(SpecError, match="x:1: "):
        of_bytes(data, "x")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("command", [1]),
        ("elapsed_us", "7"),
        ("exit_status", True),
        ("stdout", {"base64": "?"}),
        ("stdout", 7),
        ("started_at", "2026-05-12T12:00:00"),
        ("scope", None),
    ],
)
def test_an_odd_answer_is_refused_with_its_line(field: str, value: object) -> None:
    import json

    made = Recording(host="ini1", source="r", answers=(told("1", "date"),))
    head, line = to_bytes(made).splitlines()
    odd = json.dumps({**json.loads(line), field: value}).encode()
    with pytest.raises(SpecError, match="x:2: is no answer of a recording"):
        of_bytes(head + b"\n" + odd, "x")


def test_connections_hand_out_recordings_by_host() -> None:
    entry = {"roles": ["serving"], "transport": "recorded", "recording": "hosts"}
    site = Inventory.model_validate({"inventory": "s", "hosts": {"ini1": entry, "ini2": entry}})
    data = to_bytes(Recording(host="ini1", source="r", answers=(told("1", "date"),)))
    with Connections(site, {"ini1": data, "ini2": data}) as ways:
        assert ways.to(site.hosts["ini1"]).run(["date"], timeout_s=1).stdout == b"1"
        with pytest.raises(SpecError, match="is a recording of 'ini1', not of 'ini2'"):
            ways.to(site.hosts["ini2"])
    with Connections(site) as ways, pytest.raises(SpecError, match="'hosts' was not loaded"):
        ways.to(site.hosts["ini1"])


@pytest.mark.parametrize(
    "change",
    [
        {"recording": "../x"},
        {"recording": "/x"},
        {"recording": None},
        {"transport": "local"},
    ],
)
def test_an_inventory_names_recordings_beside_it_only(change: dict[str, object]) -> None:
    entry = {"roles": ["serving"], "transport": "recorded", "recording": "hosts", **change}
    with pytest.raises(ValueError, match=r"recording|transport"):
        Inventory.model_validate({"inventory": "s", "hosts": {"ini1": entry}})


def test_a_survey_gives_two_probes_the_same_answer() -> None:
    survey, block = "G1/survey/host=h/probes=a+b", "G1/other/host=h"
    answers = (told("one", "uname", scope=survey), told("two", "uname", scope=block))
    scope = [survey]
    host = way(*answers, scope=lambda: scope[0])
    assert [host.run(["uname"], timeout_s=1).stdout for _ in range(3)] == [b"one"] * 3
    scope[0] = block
    assert host.run(["uname"], timeout_s=1).stdout == b"two"
    with pytest.raises(CommandError, match="not once more"):
        host.run(["uname"], timeout_s=1)
