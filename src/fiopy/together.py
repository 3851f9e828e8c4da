"""Several initiators at once (`fio --server`, `fio --client`), and whether they began together.

A fio server takes jobs from anyone who reaches its port, without a password: it listens on the
one address it is given, for this run only, and is ended with its jobs on every way out.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

from fiopy import jobfile, listening
from fiopy.courses import course
from fiopy.driver import carry_out, job_path
from fiopy.errors import FioApart, FioFailed, FioJobError, FioOutputError
from fiopy.found import missing
from fiopy.job import Job
from fiopy.result import JobResult
from fiopy.runner import Finished, Runner, Running
from fiopy.verdict import Run, judge

PORT = 8765
"""fio's own."""

LOG_EVERY_MS = 100
"""The window of the logs that tell when each began: the finest that an offset is known to."""

_LISTEN_S = 20.0
_LOOK_EVERY_S = 0.05
_SLACK_S = 30.0
_ADDRESS = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}", re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Initiator:
    """One machine that works: how to run commands there, and the address its server listens on.

    ``clock_ahead_ms`` is how far its clock is ahead of the others', where that was measured.
    """

    name: str
    runner: Runner
    address: str
    port: int = PORT
    clock_ahead_ms: float = 0.0

    def __post_init__(self) -> None:
        """Refuse an address that would make the server listen everywhere, or nowhere."""
        good = _ADDRESS.fullmatch(self.address) and all(
            int(part) < 256 for part in self.address.split(".")
        )
        if not good or self.address.startswith("0."):
            raise FioJobError(
                f"initiator '{self.name}': {self.address!r} is no address to listen on",
                hint="the IPv4 address of the one port that the initiators are reached by",
            )
        if not 1 <= self.port <= 65535:
            raise FioJobError(f"initiator '{self.name}': {self.port} is no port")
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]{0,63}", self.name, re.ASCII):
            raise FioJobError(f"initiator {self.name!r}: letters, digits, '.' and '-', please")

    @property
    def client(self) -> str:
        """Return how fio's results name it."""
        return f"{self.address}:{self.port}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """A run on several initiators. ``run.output.jobs`` has all jobs, ``by_initiator`` each its own.

    ``began_ms`` is when each began (ms since 1970, by its clock less ``clock_ahead_ms``).
    """

    run: Run
    by_initiator: Mapping[str, tuple[JobResult, ...]]
    began_ms: Mapping[str, float]

    @property
    def apart_ms(self) -> float:
        """Return how much later the last began than the first; known to about 100 ms."""
        return max(self.began_ms.values()) - min(self.began_ms.values())


def run_together(
    jobs: Mapping[str, Sequence[Job]],
    initiators: Sequence[Initiator],
    client: Runner,
    *,
    folder: str,
    deadline_s: float,
    most_apart_ms: float = 1000,
    fio: str = "fio",
    cancel: threading.Event | None = None,
) -> Together:
    """Run the jobs of each initiator (by its name) at once and return what they measured.

    1. a server on each initiator, on its address alone; 2. `fio --client` by the runner `client`,
    with job files in its `folder`, each logging when it begins; 3. every server is ended with all
    that it started; 4. the results by initiator. fio's client prints no progress as JSON.

    Raises FioApart where they began more than `most_apart_ms` apart, or where that is not known;
    FioFailed where a server does not listen; else what `run` raises.
    """
    _check(jobs, initiators)
    logged = {each.name: _logging(jobs[each.name], folder, each.name) for each in initiators}
    files = {
        job_path(folder, f"together-{name}"): jobfile.to_text(given)
        for name, given in logged.items()
    }
    argv = [fio, "--output-format=json", *_clients(initiators, list(files))]
    try:
        with contextlib.ExitStack() as servers:
            for each in initiators:  # 1.
                servers.enter_context(_serving(each, fio, deadline_s + _SLACK_S))
            ended = carry_out(argv, files, client, deadline_s=deadline_s, cancel=cancel)  # 2.
        run = _judged("\n".join(files.values()), *ended, initiators)  # 4.
        began = {each.name: _began(each, logged[each.name], client, run) for each in initiators}
    finally:
        for path in (log for each in initiators for log in _logs(each, logged[each.name])):
            client.remove_file(path)
    return _settled(run, initiators, began, most_apart_ms)


def _clients(initiators: Sequence[Initiator], paths: Sequence[str]) -> list[str]:
    """Return the words that give each initiator its job file."""
    return [
        word
        for each, path in zip(initiators, paths, strict=True)
        for word in (f"--client={each.address},{each.port}", path)
    ]


def _check(jobs: Mapping[str, Sequence[Job]], initiators: Sequence[Initiator]) -> None:
    names = [each.name for each in initiators]
    if len(set(names)) != len(names) or set(names) != set(jobs) or not names:
        raise FioJobError(f"jobs are given for {sorted(jobs)}, initiators are {names}")
    if len({each.client for each in initiators}) != len(names):
        raise FioJobError("two initiators have the same address and port")
    for name, given in jobs.items():
        if not given:
            raise FioJobError(f"initiator '{name}' has no jobs")
        for job in given:
            if job.bandwidth_log or job.log_every_ms or job.wait_for_earlier:
                raise FioJobError(
                    f"initiator '{name}', job '{job.name}': bandwidth_log, log_every_ms and "
                    "wait_for_earlier are not for runs together",
                    job=job.name,
                )


def _logging(jobs: Sequence[Job], folder: str, name: str) -> list[Job]:
    prefix = f"{folder.rstrip('/')}/began-{name}"
    return [
        dataclasses.replace(
            job,
            bandwidth_log=prefix,
            log_every_ms=LOG_EVERY_MS,
            log_since_1970=True,
            log_each_job=True,
        )
        for job in jobs
    ]


@contextlib.contextmanager
def _serving(initiator: Initiator, fio: str, deadline_s: float) -> Iterator[None]:
    """Keep a server on the initiator for the block; raises FioFailed if it does not listen."""
    if listening.on(initiator.runner, initiator.address, initiator.port):
        raise FioFailed(
            f"initiator '{initiator.name}': something listens on {initiator.client} already",
            hint="a fio server of an earlier run? end it, or take another port",
        )
    argv = [fio, f"--server=ip:{initiator.address},{initiator.port}"]
    server = initiator.runner.start(argv, deadline_s=deadline_s)
    try:
        _await_listening(initiator, server)
        yield
    finally:
        server.stop()


def _await_listening(initiator: Initiator, server: Running) -> None:
    give_up = time.monotonic() + _LISTEN_S
    while time.monotonic() < give_up:
        ended = server.wait(_LOOK_EVERY_S)
        if ended is not None:
            missing(ended)
            said = (ended.stderr + ended.stdout).decode("utf-8", "replace").strip()[:300]
            raise FioFailed(
                f"initiator '{initiator.name}': fio's server ended at once: {said}",
                hint=f"is {initiator.address} an address of that host, and the port free?",
            )
        if listening.on(initiator.runner, initiator.address, initiator.port):
            return
    raise FioFailed(
        f"initiator '{initiator.name}': fio's server does not listen on {initiator.client} "
        f"after {_LISTEN_S:.0f} s"
    )


def _logs(initiator: Initiator, jobs: Sequence[Job]) -> list[str]:
    """Return the logs that the client writes: fio adds the server's address to their names."""
    count = sum(job.jobs or 1 for job in jobs)
    prefix = jobs[0].bandwidth_log
    return [f"{prefix}_bw.{n}.log.{initiator.address}" for n in range(1, count + 1)]


def _began(initiator: Initiator, jobs: Sequence[Job], client: Runner, run: Run) -> float | None:
    """Return when the first job of an initiator began by its clock; None where nothing tells."""
    own = run.output.jobs if run.output else ()
    told = [
        job.started_at_ms
        for job in own
        if job.client == initiator.client and job.started_at_ms is not None
    ]
    if told:
        return min(told) - initiator.clock_ahead_ms
    first: list[int] = []
    for path in _logs(initiator, jobs):
        answer = client.run(["cat", path], timeout_s=60)
        try:
            if answer.exit_status == 0 and answer.stdout:
                first.append(course([[answer.stdout]], kind="bw").begin_ms)
        except FioOutputError:
            return None
    return min(first) - LOG_EVERY_MS - initiator.clock_ahead_ms if first else None


def _judged(text: str, finished: Finished, cancelled: bool, initiators: Sequence[Initiator]) -> Run:
    """Return the run, with a result of every initiator; a lost one is named before all else."""
    try:
        run = judge(text, finished, cancelled)
    except FioFailed as err:
        if type(err) is FioFailed and err.run and err.run.output and err.run.output.jobs:
            _expect_all(err.run, initiators)
        raise
    _expect_all(run, initiators)
    return run


def _expect_all(run: Run, initiators: Sequence[Initiator]) -> None:
    """Raise FioFailed if a server gave no result: fio's client may exit 0 when it loses one."""
    there = {job.client for job in (run.output.jobs if run.output else ())}
    lost = [each.name for each in initiators if each.client not in there]
    if lost:
        raise FioFailed(
            f"no result came from {', '.join(lost)}: the server ended, or the link to it was lost",
            run=run,
            hint="see that host's kernel log, and whether the initiators reach each other",
        )


def _settled(
    run: Run,
    initiators: Sequence[Initiator],
    began: Mapping[str, float | None],
    most_apart_ms: float,
) -> Together:
    known = {name: at for name, at in began.items() if at is not None}
    if len(known) != len(began):
        unknown = sorted(set(began) - set(known))
        raise FioApart(
            f"it is not known when {unknown} began: no log came back",
            run=run,
            hint="run longer than a second, so that each job logs its first window",
        )
    jobs = run.output.jobs if run.output else ()
    found = Together(
        run=run,
        by_initiator={
            each.name: tuple(job for job in jobs if job.client == each.client)
            for each in initiators
        },
        began_ms=known,
    )
    if found.apart_ms > most_apart_ms:
        raise FioApart(
            f"the initiators began {found.apart_ms:.0f} ms apart, at most {most_apart_ms:.0f} ms "
            "is agreed",
            run=run,
            hint="see that the hosts' clocks are in step; lay files out before, not in this run",
        )
    return found
