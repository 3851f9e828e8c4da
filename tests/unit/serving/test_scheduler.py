import threading
import time

import pytest

from kvgate.serving.decoder import Decoder
from kvgate.serving.metrics import Metrics
from kvgate.serving.scheduler import Scheduler
from kvgate.serving.sequence import Generation, Step


class Listener:
    """Collects the steps of one generation and tells when the last has come."""

    def __init__(self, log: list[str], name: str) -> None:
        self.steps: list[Step] = []
        self.over = threading.Event()
        self._log, self._name = log, name

    def __call__(self, step: Step) -> None:
        self.steps.append(step)
        self._log.append(self._name)
        if step.last:
            self.over.set()


def wait_until(condition) -> None:
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.001)
    assert condition()


@pytest.fixture
def scheduling(decoder: Decoder):
    made = []

    def make(threads: int) -> tuple[Scheduler, Metrics]:
        metrics = Metrics("pico")
        made.append(Scheduler(decoder, None, metrics, threads=threads))
        return made[-1], metrics

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("threads", [1, 3])
def test_many_at_once_are_answered_as_alone(scheduling, threads: int) -> None:
    scheduler, metrics = scheduling(threads)
    log: list[str] = []
    answers: dict[str, set[str]] = {}
    waiting = []
    for name in ["a", "b", "c"] * 4:
        listener = Listener(log, name)
        generation = Generation(tuple(name.encode()) * 50, 5, listener)
        scheduler.submit(generation)
        waiting.append((name, generation, listener))
    for name, generation, listener in waiting:
        assert listener.over.wait(20)
        assert len(listener.steps) == 5
        answers.setdefault(name, set()).add(generation.logits_digest())
    assert [len(each) for each in answers.values()] == [1, 1, 1]
    assert len(set().union(*answers.values())) == 3
    assert metrics.count("vllm:request_success_total") == 12
    assert metrics.count("vllm:generation_tokens_total") == 60
    assert set(scheduler.gauges().values()) == {0}


def test_an_answer_under_way_and_a_new_prompt_take_turns(scheduling) -> None:
    scheduler, _ = scheduling(1)
    log: list[str] = []
    first, second = Listener(log, "first"), Listener(log, "second")
    begun = threading.Event()
    go_on = threading.Event()

    def hold(step: Step) -> None:
        first(step)
        begun.set()
        go_on.wait(10)

    scheduler.submit(Generation((1,), 20, hold))
    assert begun.wait(10)
    scheduler.submit(Generation((2,) * 16 * 5, 1, second))  # five chunks
    wait_until(lambda: len(scheduler._ready) == 1)
    go_on.set()
    assert first.over.wait(10)
    assert second.over.wait(10)
    assert log.index("second") in (5, 6)


def test_prompts_are_computed_in_order_of_arrival(scheduling) -> None:
    scheduler, _ = scheduling(1)
    log: list[str] = []
    held = Listener(log, "held")
    go_on = threading.Event()

    def hold(step: Step) -> None:
        go_on.wait(10)
        held(step)

    scheduler.submit(Generation((1,), 1, hold))
    waiting = [Listener(log, str(number)) for number in range(5)]
    for number, listener in enumerate(waiting):
        scheduler.submit(Generation((2,) * 100, 1, listener))
        wait_until(lambda number=number: len(scheduler._ready) == number + 1)
    go_on.set()
    assert all(listener.over.wait(10) for listener in waiting)
    assert log == ["held", "0", "1", "2", "3", "4"]


def test_a_cancelled_one_is_not_computed_on(scheduling) -> None:
    scheduler, metrics = scheduling(1)
    listener = Listener([], "x")
    begun = threading.Event()

    def cancel(step: Step) -> None:
        listener(step)
        generation.cancelled = True
        begun.set()

    generation = Generation((1,), 500, cancel)
    scheduler.submit(generation)
    assert begun.wait(10)
    after = Listener([], "y")
    scheduler.submit(Generation((2,), 1, after))
    assert after.over.wait(10)
    assert len(listener.steps) == 1
    assert metrics.count("kvgate:requests_cancelled_total") == 1


def test_what_breaks_is_told_and_harms_no_other(scheduling) -> None:
    scheduler, metrics = scheduling(1)
    broken, fine = Listener([], "x"), Listener([], "y")
    scheduler.submit(Generation((10**9,), 1, broken))  # no such token
    scheduler.submit(Generation((1,), 2, fine))
    assert broken.over.wait(10)
    assert fine.over.wait(10)
    assert broken.steps[0].error.startswith("IndexError")
    assert metrics.count("kvgate:requests_refused_total") == 1


def test_a_slot_is_free_again_when_its_holder_is_gone(decoder: Decoder) -> None:
    metrics = Metrics("pico")
    scheduler = Scheduler(decoder, None, metrics, threads=1, slots=1)
    try:
        begun, first = threading.Event(), Listener([], "first")

        def hold(step: Step) -> None:
            first(step)
            begun.set()

        holder = Generation((1,), 900, hold)
        gone = Generation((2,), 5, Listener([], "gone"))
        last = Listener([], "last")
        scheduler.submit(holder)
        assert begun.wait(10)
        scheduler.submit(gone)
        scheduler.submit(Generation((3,), 2, last))
        gauges = scheduler.gauges()
        assert (gauges["vllm:num_requests_running"], gauges["vllm:num_requests_waiting"]) == (1, 2)
        assert gauges["vllm:kv_cache_usage_perc"] > 0.5
        gone.cancelled = holder.cancelled = True
        assert last.over.wait(20)
        assert len(first.steps) < 900
        assert metrics.count("kvgate:requests_cancelled_total") == 2
        wait_until(lambda: set(scheduler.gauges().values()) == {0})
    finally:
        scheduler.close()
