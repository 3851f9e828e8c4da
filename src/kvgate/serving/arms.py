"""The arms of a comparison, and an engine started for one of them on a host, on a leash.

Ids everywhere: ``recompute`` (no KV tier), ``local`` (tier on the host's own disk), ``device``
(tier on the device under test). Only the path differs between the last two.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import http.client
import json
import threading
import time
from collections.abc import Iterator

from kvgate.errors import CommandError, HarnessError, NotRunError, ParseError
from kvgate.model.record import Evidence, EvidenceRef
from kvgate.serving import metrics
from kvgate.spec.workload import ArmId
from kvgate.transport.base import CommandResult, HostProcess
from kvgate.witness import Witness, as_evidence

POLL_S = 0.02
READY_WITHIN_S = 60.0
STOP_GRACE_S = 10.0
"""How long an engine may take to publish its waiting chunks."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ArmSetup:
    """How an arm's engine is run: the embedded model, its seed, and where its KV lies."""

    arm: ArmId
    seed: int
    kv_path: str | None = None
    model: str = "tiny"

    def __post_init__(self) -> None:
        """Refuse a recompute arm with a tier, and any other without one."""
        if (self.arm == "recompute") != (self.kv_path is None):
            raise ValueError(f"arm {self.arm} with kv_path {self.kv_path!r}")

    def argv(self, address: str, port: int) -> list[str]:
        """Return the engine's command; its first word is the host's tool ``python``."""
        tier = ["--no-tier"] if self.kv_path is None else ["--kv-path", self.kv_path]
        return [
            "-m",
            "kvgate.serving",
            "--host",
            address,
            "--port",
            str(port),
            "--model",
            self.model,
            "--seed",
            str(self.seed),
            *tier,
        ]


class _Ready:
    """Collects an engine's stdout, from the transport's thread, up to the ready line."""

    def __init__(self) -> None:
        self._bytes = b""
        self._came = threading.Condition()

    def take(self, piece: bytes) -> None:
        with self._came:
            if b"\n" not in self._bytes:
                self._bytes += piece
                self._came.notify_all()

    def line(self, wait_s: float) -> bytes | None:
        """Return the first line, waiting up to `wait_s` for it."""
        with self._came:
            self._came.wait_for(lambda: b"\n" in self._bytes, wait_s)
            line, newline, _ = self._bytes.partition(b"\n")
            return line if newline else None


class RunningEngine:
    """A serving engine on a host: where it answers, what it counts, how it is ended and begun.

    After `restart` it has another `pid` and the same address. ``evidence`` holds what every
    process of it put out, and every scrape that was kept.
    """

    def __init__(self, witness: Witness, setup: ArmSetup, deadline_s: float) -> None:
        self.setup = setup
        self.evidence: list[EvidenceRef] = []
        self.pid = 0
        self.port = 0
        self.direct_io: bool | None = None
        self._witness = witness
        self._deadline = time.monotonic() + deadline_s
        local = witness.host.transport == "local"
        self.address = "127.0.0.1" if local else witness.host.address or "127.0.0.1"
        self._process: HostProcess | None = None
        self._start(READY_WITHIN_S)

    @property
    def model(self) -> str:
        """Return the name it serves its model under."""
        return self.setup.model

    @property
    def host(self) -> str:
        """Return the name of the host it runs on."""
        return self._witness.host.name

    @property
    def base_url(self) -> str:
        """Return the URL before ``/v1/…``."""
        address = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{address}:{self.port}"

    def get(self, path: str, *, timeout_s: float = 10) -> bytes:
        """Return the body of a 200 answer to GET `path`; raises CommandError for any other."""
        return self._request("GET", path, b"", timeout_s)

    def metrics(self, *, keep: bool = False) -> dict[str, float]:
        """Return its counters (`serving.metrics.parse`); `keep` makes the scrape evidence."""
        body = self.get("/metrics")
        if keep:
            self.evidence.append(self._witness.keep(self._seen("GET /metrics", body)))
        return metrics.parse(body.decode())

    def answers(self, *, timeout_s: float = 10) -> bool:
        """Tell whether it answers a request for one token."""
        body = {"model": self.model, "prompt": [1, 2, 3], "max_tokens": 1, "temperature": 0}
        try:
            got = self._request("POST", "/v1/completions", json.dumps(body).encode(), timeout_s)
            return int(json.loads(got)["usage"]["completion_tokens"]) == 1
        except (CommandError, ValueError, KeyError, TypeError):
            return False

    def wait_stored(self, within_s: float) -> None:
        """Wait until every chunk is published; raises HarnessError after `within_s`."""
        deadline = time.monotonic() + within_s
        while (left := self.metrics()["kvgate:tier_pending_chunks"]) > 0:
            if time.monotonic() > deadline:
                raise HarnessError(f"{self.host}: {left:.0f} chunks not published in {within_s} s")
            time.sleep(POLL_S)

    def ended(self, within_s: float) -> CommandResult:
        """Return how its process ended, as evidence too; raises CommandError if it still runs."""
        result = self._running().wait(within_s)
        self._keep_end(result)
        return result

    def stop(self) -> CommandResult:
        """End its process (TERM first) and return how it ended, as evidence too."""
        result = self._running().stop(STOP_GRACE_S)
        self._keep_end(result)
        return result

    def restart(self, *, within_s: float = READY_WITHIN_S) -> None:
        """Start it again at the same address, once it has ended; it is ready on return."""
        if self._process is not None:
            raise HarnessError(f"{self.host}: engine {self.pid} has not ended: no second one")
        self._start(within_s)

    def close(self) -> None:
        """Stop it if it runs; raises CommandError where it had ended by itself."""
        if self._process is None:
            return
        by_itself = self._process.poll()
        result = self.stop()
        if by_itself:
            raise CommandError(self.host, f"the engine ended by itself: {result.describe()}")

    def _running(self) -> HostProcess:
        if self._process is None:
            raise HarnessError(f"{self.host}: the engine is not running")
        return self._process

    def _keep_end(self, result: CommandResult) -> None:
        self.evidence.append(self._witness.keep(as_evidence(result)))
        self._process = None

    def _start(self, within_s: float) -> None:
        """Start the process, read its ready line, and wait until it says it is healthy."""
        ready = _Ready()
        python = self._witness.host.tools.get("python", "python3")
        begun = time.monotonic()
        self._process = self._witness.transport.start(
            [python, *self.setup.argv(self.address, self.port)],
            deadline_s=max(1.0, self._deadline - begun),
            on_stdout=ready.take,
        )
        try:
            line = self._ready_line(ready, begun + within_s)
            facts = json.loads(line)
            self.pid, self.port = int(facts["pid"]), int(facts["port"])
            self.direct_io = facts["direct_io"]
            self.get("/health", timeout_s=max(1.0, begun + within_s - time.monotonic()))
        except (ValueError, KeyError, TypeError) as err:
            self.stop()
            raise ParseError(f"{self.host}: engine: no ready line: {line[:200]!r}") from err
        except BaseException:
            if self._process is not None:
                self.stop()
            raise

    def _ready_line(self, ready: _Ready, deadline: float) -> bytes:
        while (line := ready.line(POLL_S)) is None:
            if self._running().poll():
                raise self._not_started(self.ended(STOP_GRACE_S))
            if time.monotonic() > deadline:
                raise CommandError(self.host, "the engine was not ready in time")
        return line

    def _not_started(self, result: CommandResult) -> NotRunError | CommandError:
        """Return what it means that the engine ended before it was ready."""
        complaint = result.stderr.decode("utf-8", "replace")
        missing = [line for line in complaint.splitlines() if "No module named" in line]
        if missing:
            python = self._witness.host.tools.get("python", "python3")
            return NotRunError(
                (f"{self.host}: {python} can't run the embedded engine: {missing[-1]}",),
                hint="name a Python that has kvgate under the host's tools: {python: …}",
            )
        return CommandError(
            self.host,
            f"the engine did not start: {result.describe()}",
            hint=complaint.strip()[-500:],
        )

    def _request(self, method: str, path: str, body: bytes, timeout_s: float) -> bytes:
        link = http.client.HTTPConnection(self.address, self.port, timeout=timeout_s)
        try:
            link.request(method, path, body or None, {"Content-Type": "application/json"})
            answer = link.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as err:
            raise CommandError(self.host, f"{method} {self.base_url}{path}: {err}") from err
        finally:
            link.close()
        if answer.status != 200:
            raise CommandError(
                self.host,
                f"{method} {self.base_url}{path}: HTTP {answer.status}: "
                f"{content[:200].decode('utf-8', 'replace')}",
            )
        return content

    def _seen(self, command: str, body: bytes) -> Evidence:
        now = datetime.datetime.now(datetime.UTC)
        return Evidence(
            host=self.host,
            command=(f"{command} {self.base_url}",),
            exit_status=0,
            stdout=body,
            stderr=b"",
            started_at=now,
            ended_at=now,
        )


@contextlib.contextmanager
def start_engine(
    witness: Witness, setup: ArmSetup, *, deadline_s: float = 3600
) -> Iterator[RunningEngine]:
    """Run the arm's engine for the block, ready to answer; stopped by its own process handle.

    Raises NotRunError where the host's Python has no kvgate, CommandError where it does not
    start, or had ended by itself before the block did. On a recorded host it is the recorded one.
    """
    kind = RunningEngine
    if witness.host.transport == "recorded":
        from kvgate.serving.replayed import ReplayedEngine

        kind = ReplayedEngine
    engine = kind(witness, setup, deadline_s)
    try:
        yield engine
    except BaseException:
        with contextlib.suppress(CommandError):
            engine.close()
        raise
    engine.close()
