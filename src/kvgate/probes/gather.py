"""One round trip a host: what many probes will ask, asked at once and split into answers."""

from __future__ import annotations

import dataclasses
import datetime
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence

from kvgate.errors import HostUnreachableError, ParseError
from kvgate.probes import gather_script
from kvgate.probes.base import PLAIN, Command, Probe
from kvgate.spec.inventory import Host
from kvgate.transport.answered import AnsweredTransport
from kvgate.transport.base import OUTPUT_CAP_BYTES, CommandResult, Transport

STOP_S = 60.0
"""After so many seconds on a host nothing new is begun: what is left is asked one by one."""

Answers = Mapping[tuple[str, ...], CommandResult]
"""A command as it ran (its tool's path in place of its name) → its answer."""

_HEADER = re.compile(
    rb"([0-9]{1,6}) ([0-9]{1,4}) ([0-9]{1,3}|-) ([0-9]{1,12}\.[0-9]{2}) ([0-9]{1,12}\.[0-9]{2})"
    rb" ([01]) ([0-9]{1,12}) ([0-9]{1,12})"
)
_BEGIN = re.compile(rb"begin ([0-9]{1,12}\.[0-9]{2})")
_END = re.compile(rb"end ([0-9]{1,6})")
_LONGEST_HEADER = 200


@dataclasses.dataclass(frozen=True, slots=True)
class Gathering:
    """What a host answered. ``whole``: every command that was to be asked has an answer."""

    answers: Answers
    whole: bool


def commands_of(probes: Iterable[Probe], host: Host) -> tuple[Command, ...]:
    """Return what `probes` will ask of `host`, each command once, as it will run there."""
    found: dict[tuple[tuple[str, ...], tuple[str, ...]], Command] = {}
    for probe in probes:
        for command in probe.commands(host):
            tool, *rest = command.argv
            argv = (host.tools.get(tool, tool), *rest)
            asked = dataclasses.replace(
                command, argv=argv, timeout_s=command.timeout_s + host.slack_s
            )
            found.setdefault((argv, command.each), asked)
    return tuple(found.values())


def gather(transport: Transport, commands: Sequence[Command]) -> Gathering:
    """Ask all `commands` in one channel and return their answers.

    A host that breaks off in between has answered what came whole; one that says a secret answers
    nothing here, so that each answer is masked by itself. Raises TransportError where it can't be
    asked at all, CommandError where the script could not run, ParseError where what came
    is not its answer.
    """
    if not commands:
        return Gathering({}, whole=True)
    token = f"kvgate{secrets.token_hex(16)}"
    longest = max(command.timeout_s for command in commands)
    result = transport.run(
        ["/bin/sh", "-s"],
        stdin=gather_script.script(commands, token, stop_s=STOP_S),
        timeout_s=STOP_S + longest + 10,
        env=PLAIN,
        cap_bytes=OUTPUT_CAP_BYTES,
    )
    if result.masked:  # the lengths it tells are not those of what is here any more
        return Gathering({}, whole=False)
    begun = f"{token} begin".encode() in result.stdout[:65536]
    if not begun and result.timed_out:
        raise HostUnreachableError(result.host, f"the host hangs: {result.describe()}"[:600])
    if not begun:
        raise ParseError(f"{result.host}: the fact script told nothing: {result.describe()}")
    return split(result, commands, token)


def split(result: CommandResult, commands: Sequence[Command], token: str) -> Gathering:
    """Return the answers in the script's output; what is cut is left out, and not ``whole``.

    Times are the host's, counted from the moment at which its script was sent off. Raises
    ParseError where a frame is not as the script makes it.
    """
    told, mark = result.stdout, f"{token} ".encode()
    at = told.find(mark)  # what a login's profile prints comes before
    begin, at = _line(told, at, mark)
    opened = _BEGIN.fullmatch(begin)
    if not opened:
        raise ParseError(f"{result.host}: the fact script does not say when it began")
    zero = float(opened[1])
    answers: dict[tuple[str, ...], CommandResult] = {}
    while at < len(told):
        header, at = _line(told, at, mark)
        if end := _END.fullmatch(header):
            return Gathering(answers, whole=int(end[1]) == len(answers))
        match = _HEADER.fullmatch(header)
        if not match or int(match[1]) >= len(commands):
            break
        parts, at = _parts(told, at, [int(match[group]) for group in (2, 7, 8)])
        if not parts:
            break
        answer = _answer(result, commands[int(match[1])], match, zero, parts)
        answers[answer.argv] = answer
    return Gathering(answers, whole=False)


def _line(told: bytes, at: int, mark: bytes) -> tuple[bytes, int]:
    """Return the header at `at` without the run's word, and where what follows it begins."""
    end = told.find(b"\n", at, at + _LONGEST_HEADER) if at >= 0 else -1
    if end < 0 or not told.startswith(mark, at):
        return b"", len(told)
    return told[at + len(mark) : end], end + 1


def _parts(told: bytes, at: int, lengths: Sequence[int]) -> tuple[list[bytes], int]:
    """Return the parts at `at`, each with a line's end behind it, and where they end; or none."""
    parts = []
    for length in lengths:
        end = at + length
        if told[end : end + 1] != b"\n":
            return [], len(told)
        parts.append(told[at:end])
        at = end + 1
    return parts, at


def _answer(
    whole: CommandResult,
    command: Command,
    header: re.Match[bytes],
    zero: float,
    parts: Sequence[bytes],
) -> CommandResult:
    """Return one command's result, as it would be had it been asked alone.

    No secret in the whole is none in a part of it that has lines of its own and is not cut.
    """
    value, out, err = parts
    argv = command.argv
    if command.each:
        name = value.decode("utf-8", "surrogateescape")
        argv = tuple(word.replace("{}", name) for word in argv)
    status = None if header[3] == b"-" else int(header[3])
    began, ended, late = float(header[4]), float(header[5]), header[6] == b"1"
    signal = status - 128 if status is not None and 128 < status <= 192 else None
    cap = command.cap_bytes
    return CommandResult(
        host=whole.host,
        argv=argv,
        exit_status=None if late or signal else status,
        stdout=out[:cap],
        stderr=err[:cap],
        started_at=whole.started_at + datetime.timedelta(seconds=began - zero),
        elapsed_s=round(ended - began, 2),
        timed_out=late,
        stdout_dropped=max(0, len(out) - cap),
        stderr_dropped=max(0, len(err) - cap),
        signal=signal,
        free_of=whole.free_of if max(len(out), len(err)) <= cap else None,
    )


class Facts:
    """What one host has told for a gate's probes: gathered once, asked again where asked twice.

    For one thread at a time.
    """

    def __init__(self, host: Host, transport: Transport, gate_probes: Sequence[Probe]) -> None:
        self._host = host
        self._real = transport
        self._gate_probes = gate_probes
        self._answers: dict[tuple[str, ...], CommandResult] = {}
        self._first = True
        self._gathered: set[str] = set()  # names of probes whose answers are here, not given yet

    def answered(self, probes: Sequence[Probe]) -> AnsweredTransport:
        """Return the way to the host with the answers of `probes` on it.

        1. Where all are here, nothing is asked. 2. Else they are gathered, at the first time with
        all that the gate's probes will ask. A probe that was answered before is asked anew: a
        second survey wants to know what has changed. Raises as `gather`.
        """
        names = {probe.name for probe in probes}
        if not names <= self._gathered:
            first, self._first = self._first, False
            wanted = {p.name: p for p in (*probes, *(self._gate_probes if first else ()))}
            fresh = [probe for name, probe in wanted.items() if name not in self._gathered]
            found = gather(self._real, commands_of(fresh, self._host))
            self._answers |= found.answers
            self._gathered |= set(wanted)
        self._gathered -= names
        return AnsweredTransport(self._real, self._answers, env=PLAIN)
