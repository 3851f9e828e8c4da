"""Works on several generations at once: a few threads, each advancing some of them by one step.

A step is one chunk of prefill, or one decoded token of each of several answers, which share the
GEMMs of weights. Where both wait they take turns, so that answers under way keep flowing and a
restored prompt, one chunk short, is not held up by them; answers go round in turn, prompts in
order of arrival. A generation holds a slot from its start to its end; the others wait, in order.
Reading chunks has threads of its own, so that it overlaps with computing. A generation is never
in two steps at once.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import heapq
import itertools
import logging
import threading
import time

from kvgate.serving.decoder import Decoder
from kvgate.serving.metrics import Metrics
from kvgate.serving.seating import Seating
from kvgate.serving.sequence import Generation, Step
from kvgate.serving.tier import Tier

log = logging.getLogger(__name__)
RESTORE_THREADS = 4
SLOTS = 64
"""How many generations are under way at once; each holds the KV of its prompt and answer."""


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

    def take(self, most: int, seating: Seating) -> list[tuple[int, Generation]]:
        """Return the next ones: of the other kind than the last, where there is a choice.

        One prompt, or up to `most` answers that have a seat beside each other.
        """
        self._answered_last = bool(self._answers) and not (self._answered_last and self._prompts)
        if not self._answered_last:
            return [heapq.heappop(self._prompts)]
        taken: list[tuple[int, Generation]] = []
        left: list[tuple[int, Generation]] = []
        while self._answers and len(taken) < most:
            each = self._answers.popleft()
            seated = seating.take(each[1].position) is not None
            (taken if seated else left).append(each)
        self._answers.extendleft(reversed(left))
        return taken

    @property
    def answers(self) -> int:
        return len(self._answers)


class Scheduler:
    """Takes generations, restores and computes them, and tells their listeners each token."""

    def __init__(
        self,
        decoder: Decoder,
        tier: Tier | None,
        metrics: Metrics,
        *,
        threads: int,
        slots: int = SLOTS,
    ) -> None:
        self._decoder = decoder
        self._tier = tier
        self._metrics = metrics
        self._slots = slots
        self._ready = _Ready()
        self._arrivals = itertools.count()
        self._changed = threading.Condition()
        self._closing = False
        self._waiting: collections.deque[Generation] = collections.deque()
        self._running: set[Generation] = set()
        self._restorers = concurrent.futures.ThreadPoolExecutor(RESTORE_THREADS, "restore")
        self._threads = [
            threading.Thread(target=self._work, name=f"compute-{index}", daemon=True)
            for index in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, generation: Generation) -> None:
        """Begin a generation when there is a slot; its listener is called from other threads."""
        with self._changed:
            self._waiting.append(generation)
            self._fill_slots()

    def _fill_slots(self) -> None:
        """Give free slots to those that wait; the lock is held."""
        while self._waiting and len(self._running) < self._slots and not self._closing:
            generation = self._waiting.popleft()
            if generation.cancelled:
                self._metrics.add("kvgate:requests_cancelled_total")
                continue
            self._running.add(generation)
            waited_s = time.monotonic() - generation.arrived
            self._metrics.observe("vllm:request_queue_time_seconds", waited_s)
            self._restorers.submit(self._restore, generation, next(self._arrivals))

    def gauges(self) -> dict[str, float]:
        """Return what is under way, under vLLM's names."""
        with self._changed:
            running, waiting = len(self._running), len(self._waiting)
            held = sum(generation.cache_bytes for generation in self._running)
        config = self._decoder.config
        most = self._slots * -(-config.max_tokens // config.block) * config.block_bytes
        gauges: dict[str, float] = {
            "vllm:num_requests_running": running,
            "vllm:num_requests_waiting": waiting,
            "vllm:kv_cache_usage_perc": held / most,
        }
        if self._tier is not None:
            gauges["kvgate:tier_pending_chunks"] = self._tier.pending
            gauges["kvgate:tier_direct_io"] = self._tier.direct
            with contextlib.suppress(OSError):  # its folder is gone: not told, and no 0
                gauges["kvgate:tier_used_bytes"] = self._tier.pool.ledger.used_bytes
            gauges["kvgate:hot_used_bytes"] = self._tier.hot.used_bytes
        return gauges

    def close(self) -> None:
        """End the threads after the steps they are in; what was not finished stays so."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        self._restorers.shutdown()

    def _restore(self, generation: Generation, order: int) -> None:
        try:
            if not generation.cancelled:  # else the next step sees it
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
                batch = self._ready.take(self._share(), self._decoder.seating())
            goes_on = self._advance([generation for _, generation in batch])
            for order, generation in batch:
                if generation in goes_on:
                    self._put(order, generation)

    def _share(self) -> int:
        """Return how many answers this thread takes, so that all have some to do."""
        return -(-self._ready.answers // len(self._threads))

    def _advance(self, batch: list[Generation]) -> set[Generation]:
        """Do one step of each and tell of its token; returns those that have more to do."""
        for generation in (gone := [each for each in batch if each.cancelled]):
            self._end(generation, "kvgate:requests_cancelled_total")
        left = [generation for generation in batch if generation not in gone]
        if len(left) > 1:
            try:
                logits = self._decoder.forward_rows([each.row() for each in left])
                steps = [each.took(self._tier, one) for each, one in zip(left, logits, strict=True)]
            except Exception as err:  # noqa: BLE001  as below; none is alone to blame
                for generation in left:
                    self._break_off(generation, err)
                return set()
            told = zip(left, steps, strict=True)
            return {generation for generation, step in told if self._tell(generation, step)}
        return {generation for generation in left if self._advance_alone(generation)}

    def _advance_alone(self, generation: Generation) -> bool:
        try:
            step = generation.advance(self._decoder, self._tier)
        except Exception as err:  # noqa: BLE001  the request must learn of it, whatever it is
            self._break_off(generation, err)
            return False
        return step is None or self._tell(generation, step)

    def _tell(self, generation: Generation, step: Step) -> bool:
        """Count a token and tell of it; tells whether there is more to do."""
        now = time.monotonic()
        what = "time_to_first_token" if generation.answered == 1 else "inter_token_latency"
        self._metrics.observe(f"vllm:{what}_seconds", now - generation.last_step)
        generation.last_step = now
        self._metrics.add("vllm:generation_tokens_total")
        if step.last:
            self._metrics.observe("vllm:e2e_request_latency_seconds", now - generation.arrived)
            self._metrics.add("vllm:prompt_tokens_total", generation.prompt_tokens)
            self._end(generation, "vllm:request_success_total")
        try:
            generation.on_step(step)
        except RuntimeError:  # the event loop has been closed meanwhile
            return False
        return not step.last

    def _break_off(self, generation: Generation, err: Exception) -> None:
        log.error("a generation broke off", exc_info=err)
        self._end(generation, "kvgate:requests_refused_total")
        generation.on_step(Step(-1, last=True, error=f"{type(err).__name__}: {err}"))

    def _end(self, generation: Generation, counter: str) -> None:
        """Free a generation's slot for the next one."""
        self._metrics.add(counter)
        with self._changed:
            self._running.discard(generation)
            self._fill_slots()
