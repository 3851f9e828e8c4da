"""The fleet: several processes that share the work of asking many hosts, for one controller.

SSH costs some 5 ms of CPU a connection, and Python gives a process one core. Each host belongs to
one worker, which keeps its connection; hosts behind the same jump host share it there. The
controller alone writes the run: workers only send what hosts answered.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import pickle
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import BinaryIO, cast

from kvgate.errors import AskerLostError
from kvgate.spec.inventory import Host, Inventory
from kvgate.transport import alarm, frames
from kvgate.transport.base import OUTPUT_CAP_BYTES, CommandResult
from kvgate.transport.ssh import SshTransport

_LOSSES = 3  # times that a worker may be lost before its hosts are given up
_SLACK_S = 120.0
_CLOSE_S = 15.0


class Fleet:
    """The workers of one controller; begun at once, ended by `close`; thread-safe."""

    def __init__(self, inventory: Inventory, *, processes: int, at_once: int) -> None:
        self._begin = pickle.dumps(inventory)
        self._hosts = inventory.hosts
        self._at_once = at_once
        self._lock = threading.Lock()
        self._of: dict[str, int] = {}
        self._next = itertools.count()
        self._losses = 0
        self._closed = False
        self._workers = [self._started() for _ in range(processes)]

    def _started(self) -> _Worker:
        return _Worker(self._begin, self._at_once)

    @property
    def pids(self) -> tuple[int, ...]:
        """Return the processes."""
        with self._lock:
            return tuple(worker.pid for worker in self._workers)

    def ask(
        self,
        host: Host,
        argv: Sequence[str],
        *,
        timeout_s: float,
        stdin: bytes,
        env: Mapping[str, str] | None,
        cap_bytes: int,
    ) -> CommandResult:
        """Return how `argv` ended on `host`; raises as `Transport.run`.

        AskerLostError where the worker ended meanwhile: whether it ran is not known.
        """
        words = tuple(argv)
        request = {
            "host": host.name,
            "argv": words,
            "timeout_s": timeout_s,
            "env": dict(env) if env is not None else None,
            "cap_bytes": cap_bytes,
        }
        worker = self._for(host)
        # Deadlines are the worker's. One that is far beyond them all is no worker any more.
        limit = timeout_s + self._way_s(host) + _SLACK_S
        with alarm.after(limit, worker.kill):
            header, body = worker.ask(host.name, request, stdin)
        if "error" in header:
            raise frames.error_of(header, host.name)
        return frames.result_of(header, body, host.name, words)

    def _way_s(self, host: Host) -> float:
        seconds, hop = 0.0, host
        for _ in self._hosts:
            seconds += hop.connect_timeout.to("s")
            if hop.jump is None:
                break
            hop = self._hosts[hop.jump]
        return seconds

    def _for(self, host: Host) -> _Worker:
        """Return the worker of `host`, a new one where it was lost."""
        key, hop = host.name, host
        for _ in self._hosts:
            if hop.jump is None or hop.jump not in self._hosts:
                break
            key, hop = hop.jump, self._hosts[hop.jump]
        with self._lock:
            if key not in self._of:
                self._of[key] = next(self._next) % len(self._workers)
            place = self._of[key]
            if self._workers[place].lost and not self._closed:
                self._losses += 1
                if self._losses > _LOSSES * len(self._workers):
                    raise AskerLostError(
                        host.name, "the processes that ask hosts end again and again"
                    )
                self._workers[place].close()
                self._workers[place] = self._started()
            return self._workers[place]

    def close(self) -> None:
        """End the workers, and with them all they started; who still waits learns it is lost."""
        with self._lock:
            self._closed = True
            workers = tuple(self._workers)
        for worker in workers:
            worker.hang_up()
        for worker in workers:
            worker.close()


class _Worker:
    """One worker process: what was asked of it, by number, and the thread that hears it."""

    def __init__(self, begin: bytes, at_once: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "kvgate.transport.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.pid = self._process.pid
        self.lost = False
        self._requests = frames.Sender(cast(BinaryIO, self._process.stdin))
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, concurrent.futures.Future[tuple[frames.Header, bytes]]] = {}
        with contextlib.suppress(OSError):  # it has ended already: the first to ask is told
            self._requests.send({"at_once": at_once}, begin)
        self._hearing = threading.Thread(target=self._hear, name=f"worker {self.pid}", daemon=True)
        self._hearing.start()

    def ask(self, host: str, request: frames.Header, stdin: bytes) -> tuple[frames.Header, bytes]:
        """Return the frame that answers `request`; raises AskerLostError."""
        answer: concurrent.futures.Future[tuple[frames.Header, bytes]] = concurrent.futures.Future()
        with self._lock:
            number = next(self._numbers)
            self._waiting[number] = answer
            lost = self.lost
        if lost:
            raise self._error(host)
        try:
            self._requests.send({"id": number, **request}, stdin)
            return answer.result()
        except (OSError, ValueError, concurrent.futures.CancelledError) as err:
            raise self._error(host) from err

    def _hear(self) -> None:
        for header, body in frames.received(cast(BinaryIO, self._process.stdout)):
            with self._lock:
                answer = self._waiting.pop(header["id"], None)
            if answer is not None:
                answer.set_result((header, body))
        with self._lock:
            self.lost = True
            left, self._waiting = list(self._waiting.values()), {}
        for each in left:
            each.cancel()

    def _error(self, host: str) -> AskerLostError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        status = self._process.returncode
        how = f"was ended by signal {-status}" if status and status < 0 else "has ended"
        return AskerLostError(
            host,
            f"the process of kvgate that asked it (pid {self.pid}) {how}",
            hint="see whether this machine is short of memory (dmesg); --resume goes on",
        )

    def kill(self) -> None:
        """End it at once; all that was asked of it is lost."""
        self._process.kill()

    def hang_up(self) -> None:
        """Close its standard input, upon which it ends what it started, and itself."""
        with contextlib.suppress(OSError):
            cast(BinaryIO, self._process.stdin).close()

    def close(self) -> None:
        """Return when it has ended, killed if it takes too long."""
        self.hang_up()
        try:
            self._process.wait(_CLOSE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._hearing.join(_CLOSE_S)
        cast(BinaryIO, self._process.stdout).close()


class FleetTransport(SshTransport):
    """An SshTransport whose commands a worker runs; long processes run from here."""

    def __init__(self, host: Host, fleet: Fleet, via: SshTransport | None = None) -> None:
        super().__init__(host, via)
        self._fleet = fleet

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        cap_bytes: int = OUTPUT_CAP_BYTES,
    ) -> CommandResult:
        """Run `argv` from the host's worker and return how it ended."""
        return self._fleet.ask(
            self._host, argv, timeout_s=timeout_s, stdin=stdin, env=env, cap_bytes=cap_bytes
        )
