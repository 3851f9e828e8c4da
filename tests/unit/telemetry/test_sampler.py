from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from kvgate.errors import CommandError, StoreError
from kvgate.telemetry.sampler import Sampler
from kvgate.transport.base import CommandResult, HostProcess

WHEN = datetime.datetime(2026, 5, 12, tzinfo=datetime.UTC)
TEXT = """#kvgate-sample {cs} 1764522741.250000000
/sys/block/vda
cpu  {cs} 0 0 {cs} 0 0 0 0 0 0
0.60 0.50 0.40 1/120 4242
MemTotal:       24683656 kB
MemAvailable:   24260252 kB
#kvgate-end
"""


class Process:
    pid = 1

    def __init__(self) -> None:
        self.ended = False
        self.stops = 0

    def poll(self) -> bool:
        return self.ended

    def wait(self, timeout_s: float) -> CommandResult:
        raise NotImplementedError

    def stop(self, grace_s: float = 5.0) -> CommandResult:
        self.stops += 1
        self.ended = True
        return CommandResult(
            host="ini1",
            argv=("sh",),
            exit_status=None,
            stdout=b"",
            stderr=b"",
            started_at=WHEN,
            elapsed_s=1,
        )

    def kill(self) -> None:
        raise NotImplementedError


class Host:
    """A transport that starts fake samplers; `say` makes the youngest one speak."""

    name = "ini1"

    def __init__(self) -> None:
        self.started: list[Process] = []
        self.listeners: list[Callable[[bytes], None]] = []
        self.refuse = False

    def start(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float,
        on_stdout: Callable[[bytes], None] | None = None,
        env: Mapping[str, str] | None = None,
        cap_bytes: int = 0,
    ) -> HostProcess:
        if self.refuse:
            raise CommandError("ini1", "no channel")
        assert argv[0] == "sh"
        assert on_stdout is not None
        self.listeners.append(on_stdout)
        self.started.append(Process())
        return self.started[-1]

    def say(self, cs: int, listener: int = -1) -> None:
        self.listeners[listener](TEXT.format(cs=cs).encode())

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


class Told:
    def __init__(self, every_s: float = 1.0) -> None:
        self.host = Host()
        self.samples: list[Mapping[str, Any]] = []
        self.gaps: list[str] = []
        self.sampler = Sampler(
            self.host,  # type: ignore[arg-type]  # only what a sampler uses
            every_s=every_s,
            deadline_s=60,
            sink=self.samples.append,
            on_gap=self.gaps.append,
        )


def test_samples_reach_the_sink_and_the_process_is_stopped() -> None:
    told = Told()
    with told.sampler as sampler:
        told.host.say(1000)
        told.host.say(1100)
        sampler.watch()
    assert [sample["uptime_s"] for sample in told.samples] == [10, 11]
    assert told.samples[1]["cpu_busy_pct"] == 50.0
    assert (sampler.count, told.gaps) == (2, [])
    assert [process.stops for process in told.host.started] == [1]


def test_a_silent_sampler_is_noticed_and_started_anew() -> None:
    told = Told(every_s=0.1)
    with told.sampler as sampler:
        told.host.say(1000)
        time.sleep(0.55)
        sampler.watch()
        assert len(told.host.started) == 2
        assert told.host.started[0].stops == 1
        assert "ini1: the sampler is silent; no sample for 0." in told.gaps[0]
        sampler.watch()
        assert len(told.host.started) == 2
        told.host.say(1700)
    assert told.samples[-1]["notes"] == ["gap: 7.00 s since the sample before"]


def test_a_sampler_that_ended_is_started_anew() -> None:
    told = Told(every_s=0.1)
    with told.sampler as sampler:
        told.host.started[0].ended = True
        sampler.watch()
        assert len(told.host.started) == 1
        time.sleep(0.12)
        sampler.watch()
        assert len(told.host.started) == 2
    assert "the sampler ended" in told.gaps[0]


def test_late_bytes_of_an_older_sampler_do_not_mix_in() -> None:
    told = Told(every_s=0.1)
    with told.sampler as sampler:
        told.host.listeners[0](TEXT.format(cs=1000).encode()[:50])
        time.sleep(0.55)
        sampler.watch()
        told.host.say(1100)
    assert [sample["uptime_s"] for sample in told.samples] == [11]


def test_nonsense_is_told_and_sampling_goes_on() -> None:
    told = Told()
    with told.sampler as sampler:
        told.host.listeners[0](b"cpu?\n#kvgate-end\n")
        told.host.say(1000)
        sampler.watch()
    assert len(told.gaps) == 1
    assert "ini1: sampler: " in told.gaps[0]
    assert sampler.count == 1


def test_a_host_that_cannot_be_sampled_does_not_stop_the_work() -> None:
    told = Told(every_s=0.1)
    told.host.refuse = True
    with told.sampler as sampler:
        time.sleep(0.12)
        sampler.watch()
        told.host.refuse = False
        time.sleep(0.12)
        sampler.watch()
        assert len(told.host.started) == 1
    assert "ini1: the sampler can't be started: ini1: no channel" in told.gaps


def test_a_sink_that_breaks_is_told_not_raised_in_the_transports_thread() -> None:
    told = Told()

    def broken(sample: Mapping[str, Any]) -> None:
        raise StoreError("the disk is full")

    sampler = Sampler(told.host, every_s=1, deadline_s=9, sink=broken, on_gap=told.gaps.append)  # type: ignore[arg-type]
    with sampler:
        told.host.say(1000)
    assert (told.gaps, sampler.count) == (["ini1: the disk is full"], 0)


def test_an_error_of_the_work_passes_and_the_sampler_is_stopped() -> None:
    told = Told()
    with pytest.raises(RuntimeError, match="the work"), told.sampler:
        raise RuntimeError("the work")
    assert told.host.started[0].stops == 1
