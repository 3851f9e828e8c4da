"""Works on several generations at once: a few threads, each advancing one by one step.

A step is one chunk of prefill or one decoded token. Where both wait they take turns, so that
answers under way keep flowing and a restored prompt, one chunk short, is not held up by them;
answers go round in turn, prompts in order of arrival. Reading chunks has threads of its own, so
that it overlaps with computing. A generation is never in two steps at once.
"""

from __future__ import annotations

import collections
import concurrent.futures
import heapq
import itertools
import logging
import threading
import time

from kvgate.serving.decoder import Decoder
from kvgate.serving.metrics import Metrics
from kvgate.serving.sequence import Generation, Step
from kvgate.serving.tier import Tier

log = logging.getLogger(__name__)
RESTORE_THREADS = 4


class _Ready:
    """The generations whose next step may be taken; not thread-safe by itself."""

    def __init__(self) -> None:
        self._prompts: list[tuple[int, Generation]] = []  # by arrival
        self._answers: collections.deque[tuple[int, Generation]] = collections.deque()
        self._answered_last = False

    def __len__(self) -> int:
        return len(self._prompts) + len(self._answers)

    def put(self, order: int, generation: Generation) -> None:
        if generation.answered:
            self._answers.append((order, generation))
        else:
            heapq.heappush(self._prompts, (order, generation))

    def take(self) -> tuple[int, Generation]:
        """Return the next one: of the other kind than the last, where there is a choice."""
        self._answered_last = bool(self._answers) and not (self._answered_last and self._prompts)
        return self._answers.popleft() if self._answered_last else heapq.heappop(self._prompts)


class Scheduler:
    """Takes generations, restores and computes them, and tells their listeners each token."""

    def __init__(
        self, decoder: Decoder, tier: Tier | None, metrics: Metrics, *, threads: int
    ) -> None:
        self._decoder = decoder
        self._tier = tier
        self._metrics = metrics
        self._ready = _Ready()
        self._arrivals = itertools.count()
        self._changed = threading.Condition()
        self._closing = False
        self._live = 0
        self._running = 0
        self._restorers = concurrent.futures.ThreadPoolExecutor(RESTORE_THREADS, "restore")
        self._threads = [
            threading.Thread(target=self._work, name=f"compute-{index}", daemon=True)
            for index in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, generation: Generation) -> None:
        """Begin a generation; its listener is called from other threads."""
        with self._changed:
            self._live += 1
        self._restorers.submit(self._restore, generation, next(self._arrivals))

    def gauges(self) -> dict[str, float]:
        """Return what is under way, under vLLM's names."""
        with self._changed:
            running, live = self._running, self._live
        gauges: dict[str, float] = {
            "vllm:num_requests_running": running,
            "vllm:num_requests_waiting": live - running,
        }
        if self._tier is not None:
            gauges["kvgate:tier_pending_chunks"] = self._tier.pending
            gauges["kvgate:tier_direct_io"] = self._tier.direct
        return gauges

    def close(self) -> None:
        """End the threads after the steps they are in; what was not finished is told so."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        self._restorers.shutdown()

    def _restore(self, generation: Generation, order: int) -> None:
        try:
            if not generation.cancelled:
                generation.restore(self._decoder, self._tier, self._metrics)
        except Exception as err:  # noqa: BLE001  the request must learn of it, whatever it is
            self._break_off(generation, err)
        else:
            self._put(order, generation)

    def _put(self, order: int, generation: Generation) -> None:
        with self._changed:
            self._ready.put(order, generation)
            self._changed.notify()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ready or self._closing)
                if self._closing:
                    return
                order, generation = self._ready.take()
                self._running += 1
            goes_on = False
            try:
                goes_on = self._advance(generation)
            except Exception as err:  # noqa: BLE001  the request must learn of it, whatever it is
                self._break_off(generation, err)
            finally:
                with self._changed:
                    self._running -= 1
            if goes_on:
                self._put(order, generation)

    def _advance(self, generation: Generation) -> bool:
        """Do one step and tell of its token; tells whether there is more to do."""
        if generation.cancelled:
            self._end("kvgate:requests_cancelled_total")
            return False
        step = generation.advance(self._decoder, self._tier)
        if step is None:
            return True
        if generation.answered == 1:
            self._metrics.observe(
                "vllm:time_to_first_token_seconds", time.monotonic() - generation.arrived
            )
        self._metrics.add("vllm:generation_tokens_total")
        if step.last:
            self._metrics.add("vllm:prompt_tokens_total", generation.prompt_tokens)
            self._end("vllm:request_success_total")
        generation.on_step(step)
        return not step.last

    def _break_off(self, generation: Generation, err: Exception) -> None:
        log.error("a generation broke off", exc_info=err)
        self._end("kvgate:requests_refused_total")
        generation.on_step(Step(-1, last=True, error=f"{type(err).__name__}: {err}"))

    def _end(self, counter: str) -> None:
        self._metrics.add(counter)
        with self._changed:
            self._live -= 1
