"""Work on many hosts at once, each piece recorded as it ends, or in turn; none stops another."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from kvgate.errors import HarnessError, KvgateError, NotRunError
from kvgate.spec.inventory import Host
from kvgate.suite.bench import Bench
from kvgate.suite.blocks import Block
from kvgate.witness import Answer

Part = tuple[Host, Block]
Work = Callable[[Host, Block, threading.Event], Answer]
"""Does a block's work on a host and returns its answer; ends soon once the event is set."""

_MOST_LANES = 256
_Each = TypeVar("_Each")


def side_by_side(bench: Bench, lanes: Sequence[Sequence[Part]], work: Work, *, phase: str) -> None:
    """Do `work` for every block: lanes at once, a lane's blocks in their order.

    A block is recorded, with its labels, as soon as its work is done; what fails stops no other.
    When this is interrupted, work is told by its event, and waited for. Raises NotRunError with
    every reason where nothing else went wrong, else the first other error.
    """
    lanes = [lane for lane in lanes if lane]
    if not lanes:
        return
    ended: queue.SimpleQueue[tuple[Host, Block, Answer | KvgateError]] = queue.SimpleQueue()
    cancel = threading.Event()

    def walk(lane: Sequence[Part]) -> None:
        for host, block in lane:
            if not cancel.is_set():
                bench.asks_for(block)
                ended.put((host, block, _done(work, host, block, cancel)))

    errors: list[KvgateError] = []
    with ThreadPoolExecutor(min(_MOST_LANES, len(lanes))) as pool:
        for lane in lanes:
            pool.submit(walk, lane)
        try:
            for _ in range(sum(map(len, lanes))):
                host, block, found = ended.get()
                if isinstance(found, KvgateError):
                    errors.append(found)
                    continue
                with block:
                    labels = {k: v for k, v in block.labels.items() if k not in ("host", "item")}
                    bench.record(found, host=host, phase=phase, **labels)
        except BaseException:
            cancel.set()
            raise
    _raise(errors)


def one_by_one(all_of: Iterable[_Each], act: Callable[[_Each], object]) -> None:
    """Do `act` for each in turn; one that fails stops no other. Raises as `side_by_side` does."""
    errors: list[KvgateError] = []
    for each in all_of:
        try:
            act(each)
        except KvgateError as err:
            errors.append(err)
    _raise(errors)


def _done(work: Work, host: Host, block: Block, cancel: threading.Event) -> Answer | KvgateError:
    try:
        return work(host, block, cancel)
    except KvgateError as err:
        return err
    except Exception as err:  # noqa: BLE001  raised where it is waited for, or it waits for ever
        broken = HarnessError(f"{host.name}: kvgate broke: {type(err).__name__}: {err}")
        broken.__cause__ = err
        return broken


def _raise(errors: Sequence[KvgateError]) -> None:
    """Raise what `errors` come to, if there are any."""
    if len(errors) == 1:
        raise errors[0]
    unmet = [err for err in errors if isinstance(err, NotRunError)]
    if errors and len(unmet) == len(errors):
        reasons = dict.fromkeys(reason for err in unmet for reason in err.reasons)
        raise NotRunError(tuple(reasons), hint=errors[0].hint)
    if errors:
        raise next(err for err in errors if err not in unmet)
