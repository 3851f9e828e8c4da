"""The engine of a recorded host: says what the engine said then, and answers no request."""

from __future__ import annotations

from kvgate.errors import CommandError
from kvgate.serving import metrics
from kvgate.serving.arms import RunningEngine
from kvgate.transport.base import CommandResult


class ReplayedEngine(RunningEngine):
    """A RunningEngine by a recording: its start, its kept counters and its end are the recorded.

    Its requests are those that were recorded too (`kvgate.load.replayed`); whatever else is asked
    of it is a CommandError.
    """

    def get(self, path: str, *, timeout_s: float = 10) -> bytes:  # noqa: ARG002  not asked
        """Return nothing for ``/health``; raises CommandError for what was not kept."""
        if path == "/health":
            return b""
        raise CommandError(
            self.host, f"{path} of a recorded engine was not kept: what it served is over"
        )

    def metrics(self, *, keep: bool = False) -> dict[str, float]:
        """Return the counters of the next scrape that was kept; raises CommandError for others."""
        if not keep:
            return metrics.parse(self.get("/metrics").decode())
        told = self._witness.ask([f"GET /metrics {self.base_url}"], timeout_s=10)
        self.evidence.append(told.ref)
        return metrics.parse(told.stdout.decode())

    def answers(self, *, timeout_s: float = 10) -> bool:  # noqa: ARG002  not asked
        """Raise CommandError: no request can be sent to a recording."""
        raise CommandError(self.host, "a recorded engine answers no request")

    def wait_stored(self, within_s: float) -> None:
        """Return at once: it was waited for then."""

    def stop(self) -> CommandResult:
        """Return how its process ended then, as evidence too."""
        result = self._running().stop()
        self._keep_end(result)
        return result

    def close(self) -> None:
        """Let it end as it ended then."""
        if self._process is not None:
            self.stop()
