"""Keeps a sampler on one host over one channel, and hands what it says to the recorder."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Self

from kvgate.errors import KvgateError, ParseError
from kvgate.spec.inventory import Host
from kvgate.telemetry import source
from kvgate.telemetry.hostclock import AGAIN_S, ControllerClock, Reckoned, Reckoning
from kvgate.telemetry.recorder import Recorder
from kvgate.telemetry.wire import Answered, Heard, Hello, Listener, Names, Said, Sample
from kvgate.transport.base import HostProcess, Transport
from kvgate.transport.leashed import Leashed, Process

SILENT_AFTER = 5.0
"""Intervals without a sample after which a sampler is silent: said once, then started anew."""

STARTS_IN_S = 30.0
"""How long a host, busy as it may be, has until the first sample of a sampler it starts."""

MOST_TROUBLES = 20
"""Lines that are none of which each is told; of more only how many, until the next look."""

MOST_BYTES, MOST_BYTES_A_S = 2**23, 2**20
"""Between two looks, and a second of that time; a host that says more floods, and is ended."""

MOST_WORK = 20_000
"""What a host may say between two looks, in samples and events; names cost 100, nonsense 10."""

WELL_S = 60.0
LONGEST_WAIT_S = 30.0
"""A sampler that did not run for `WELL_S` is started again later each time, up to this."""

CLOCK = (("clock.offset_us", "l"), ("clock.round_trip_us", "l"))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How hosts are sampled: how often, the slow tools how often, and until when at the latest.

    ``metrics`` maps an engine's name to its /metrics as the host itself reaches it; ``tools`` are
    more slow tools (`source.command`). With ``gpu`` amd-smi its monitor is kept running there.
    """

    every_s: float = 1.0
    slow_s: float = 60.0
    deadline_s: float = 7 * 86400.0
    metrics: Mapping[str, str] = dataclasses.field(default_factory=dict)
    tools: Sequence[tuple[str, Sequence[str], str]] = ()
    gpu: str = "sysfs"
    sudo: bool = False
    shell_only: bool = False

    def of(self, host: Host) -> Settings:
        """Return these settings with what the inventory says of `host`."""
        told = host.telemetry
        return dataclasses.replace(
            self,
            slow_s=told.slow_every.to("s"),
            metrics=told.metrics,
            tools=tuple((f"tool.{each.name}", each.command, each.form) for each in told.tools),
            gpu=told.gpu,
            sudo=host.sudo == "passwordless",
        )


class Channel:
    """Samples one host from ``with`` to its end.

    `watch` is called now and then by whoever works meanwhile: it notices a sampler that ended or
    fell silent, tells `on_gap`, and starts it anew. No trouble with sampling ends the block: what
    is missing shows in ``count``, in gaps and in events.
    """

    def __init__(
        self,
        transport: Transport,
        recorder: Recorder,
        clock: ControllerClock,
        settings: Settings,
        on_gap: Callable[[str], None],
    ) -> None:
        self.host = transport.name
        self.count = 0  # samples of the fast group
        self._transport, self._recorder, self._clock = transport, recorder, clock
        self._settings, self._on_gap = settings, on_gap
        self._process: HostProcess | None = None
        self._reckoning: Reckoning | None = None
        self._lock = threading.Lock()
        self._heard = time.monotonic()
        self._spoke = False
        self._troubles: list[str] = []
        self._more_troubles = 0
        self._looked = self._began = time.monotonic()
        self._bytes = self._work = 0
        self._flooded = False
        self._wait_s = 0.0
        self._due: float | None = None  # when it is started again, while it is not
        self._boot = ""
        self._kernel: dict[str, str | int] = {}  # where the log was left, for the next sampler
        self._asked_date: float | None = None  # of a sampler that answers no questions
        self._boot_ms: float | None = None

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._tell()

    def watch(self) -> None:
        """Look after the sampler; costs next to nothing when it is well."""
        self._tell()
        now = time.monotonic()
        if self._due is not None:
            if now >= self._due:
                self._start()
            return
        if how := self._how_over(now):
            silent_s = now - self._heard
            self._on_gap(f"{self.host}: the sampler {how}; no sample for {silent_s:.1f} s")
            self._stop()
            well = now - self._began >= WELL_S
            self._wait_s = 0.0 if well else min(2 * self._wait_s + 0.5, LONGEST_WAIT_S)
            if self._wait_s > 1.0:
                self._due = now + self._wait_s
            else:
                self._start()
            return
        self._looked, self._bytes, self._work = now, 0, 0
        if self._asked_date is not None:
            if now > self._asked_date:
                self._asked_date = now + AGAIN_S
                self._ask_date()
        elif self._reckoning is not None:
            self._reckoning.tend()

    def _how_over(self, now: float) -> str:
        """Return what is wrong with the sampler; "" while it is well."""
        if self._flooded:
            return "says more than any sampler does: it floods"
        silent_s, every_s = now - self._heard, self._settings.every_s
        ended = self._process is None or self._process.poll()
        patience_s = SILENT_AFTER * every_s if self._spoke else STARTS_IN_S
        if silent_s >= patience_s or (ended and silent_s > every_s):
            return "ended" if ended else "is silent"
        return ""

    def _tell(self) -> None:
        with self._lock:
            troubles, self._troubles = self._troubles, []
            more, self._more_troubles = self._more_troubles, 0
        for text in troubles:
            self._on_gap(f"{self.host}: {text}")
        if more:
            self._on_gap(f"{self.host}: {more} more of the kind")

    def _start(self) -> None:
        self._heard = self._looked = self._began = time.monotonic()
        self._asked_date, self._spoke, self._due = None, False, None
        self._bytes, self._work, self._flooded = 0, 0, False
        listener = Listener()  # of its own: late bytes of the one before must not mix in
        settings = self._settings
        words = source.command(
            every_ms=round(settings.every_s * 1000),
            slow_ms=round(settings.slow_s * 1000),
            metrics=settings.metrics,
            tools=settings.tools,
            gpu=settings.gpu,
            sudo=settings.sudo,
            kernel=self._kernel,
            shell_only=settings.shell_only,
        )

        def take(piece: bytes) -> None:
            self._take(listener, piece)

        deadline_s = settings.deadline_s
        try:
            if isinstance(self._transport, Leashed):
                process = self._transport.start(
                    words, deadline_s=deadline_s, on_stdout=take, cap_bytes=4096, talks=True
                )
                self._process = process
                self._reckoning = Reckoning(self._clock, _asker(process), self._reckoned)
            else:
                self._process = self._transport.start(
                    words, deadline_s=deadline_s, on_stdout=take, cap_bytes=4096
                )
        except KvgateError as err:
            self._process = None
            self._trouble(f"the sampler can't be started: {err.message}")

    def _stop(self) -> None:
        self._reckoning = None
        if self._process is not None:
            with contextlib.suppress(KvgateError):  # gone already: the gap is told by `watch`
                self._process.stop(grace_s=1.0)
            self._process = None

    def _trouble(self, text: str) -> None:
        with self._lock:
            if len(self._troubles) < MOST_TROUBLES:
                self._troubles.append(text)
            else:
                self._more_troubles += 1

    def _take(self, listener: Listener, piece: bytes) -> None:
        """Take bytes as they come, in the transport's thread, which no error may leave."""
        self._bytes += len(piece)
        over_s = time.monotonic() - self._looked
        if self._bytes > MOST_BYTES + MOST_BYTES_A_S * over_s:
            self._flooded = True
        if self._flooded:
            return
        for heard in listener.feed(piece):
            self._work += 1
            if self._work > MOST_WORK:
                self._flooded = True
                return
            if isinstance(heard, ParseError):
                self._work += 10
                self._trouble(heard.message)
                continue
            try:
                self._hear(heard)
            except KvgateError as err:
                self._trouble(err.message)

    def _hear(self, heard: Heard) -> None:
        if isinstance(heard, Sample):
            self._heard, self._spoke = time.monotonic(), True
            if self._boot_ms is None:  # a first guess, until a question is answered
                self._boot_ms = self._clock.ms() - heard.uptime_ms
            t_ms = round(self._boot_ms + heard.uptime_ms)
            self._recorder.sample(self.host, heard.group, t_ms, heard.uptime_ms, heard.row)
            self.count += heard.group == "fast"
            if "seq" not in self._kernel:
                self._kernel["us"] = 1000 * heard.uptime_ms
        elif isinstance(heard, Names):
            self._work += 100
            self._recorder.names(self.host, heard.group, self._every_ms(heard.group), heard.series)
        elif isinstance(heard, Said):
            if heard.event["kind"] == "kernel" and "seq" in heard.event:
                self._kernel["seq"] = heard.event["seq"]
            self._recorder.event(self.host, round(self._clock.ms()), heard.event)
        elif isinstance(heard, Hello):
            self._hello(heard)
        elif isinstance(heard, Answered) and self._reckoning is not None:
            self._reckoning.answered(heard.number, heard.uptime_ns, heard.clock_ns)

    def _ask_date(self) -> None:
        """Reckon with `date` where the shell samples: less exact, by what starting it takes."""
        began = self._clock.ms()
        try:
            asked = self._transport.run(["date", "-u", "+%s.%N"], timeout_s=10).expect_ok()
            clock_us = round(float(asked.stdout) * 10**6)
        except (KvgateError, ValueError) as err:
            self._trouble(f"its clock can't be asked: {err}")
            return
        ended = self._clock.ms()
        boot_ms = self._boot_ms if self._boot_ms is not None else ended
        middle = (began + ended) / 2
        offset_us, trip_us = round(clock_us - middle * 1000), round((ended - began) * 1000)
        self._reckoned(Reckoned(offset_us, trip_us, boot_ms))

    def _every_ms(self, group: str) -> int:
        if group == "slow":
            return round(1000 * self._settings.slow_s)
        every_s = self._settings.every_s
        if group == "gpu":  # amd-smi counts whole seconds, and rests for them after its work
            every_s = 2.0 * max(1, round(every_s))
        return round(1000 * every_s)

    def _hello(self, hello: Hello) -> None:
        now = round(self._clock.ms())
        if self._boot and hello.boot != self._boot:
            self._recorder.restarted(self.host)
            self._boot_ms = None
            self._recorder.event(self.host, now, {"kind": "restart", "text": "the host restarted"})
        if hello.boot != self._boot:
            self._kernel = {"boot": hello.boot}
        self._boot = hello.boot
        if not hello.python:
            self._asked_date = 0.0
        by = f"Python {hello.python}" if hello.python else "the shell: no Python 3.8 there"
        absent = "; ".join(f"{name}: {why}" for name, why in sorted(hello.absent.items()))
        text = f"sampled by {by}" + (f"; not sampled: {absent}" if absent else "")
        self._recorder.event(self.host, now, {"kind": "sampler", "text": text})

    def _reckoned(self, found: Reckoned) -> None:
        self._boot_ms = found.boot_ms
        uptime = round(self._clock.ms() - found.boot_ms)
        self._recorder.names(self.host, "clock", 0, CLOCK)
        row = [found.offset_us, found.round_trip_us]
        self._recorder.numbers(self.host, "clock", round(self._clock.ms()), uptime, row)


def _asker(process: Process) -> Callable[[str], None]:
    def say(line: str) -> None:
        with contextlib.suppress(KvgateError, OSError):  # the link is lost: `watch` notices
            process.say(line)

    return say
