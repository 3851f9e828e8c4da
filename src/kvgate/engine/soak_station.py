"""Makes a host ready for the soak: fio's file laid out, an engine started, its KV tier warm."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Sequence

from kvgate.engine.soak_window import REQUEST_TIMEOUT_S, Station
from kvgate.errors import HarnessError, NotRunError
from kvgate.load.client import Endpoint
from kvgate.load.loop import closed_loop
from kvgate.load.rows import Request
from kvgate.load.workload import sessions
from kvgate.serving.arms import ArmSetup, RunningEngine, start_engine
from kvgate.serving.config import MODELS
from kvgate.spec.workload import FioWorkload, SoakWorkload
from kvgate.witness import Answer, Witness
from kvgate.workloads import fio
from kvgate.workloads.base import scratch_folder

MODEL = "tiny"
SESSIONS_A_USER = 2
"""Sessions for each request under way, which come round and round: stored once, then restored,
so that the load is the same in every window and the tier does not grow."""

READS_OF_FILE = 9
"""How often a window reads fio's file, at most: sustained, at the same rate in every window; of
the mix of nine reads to one write, a window then writes the file's size once."""

FIO_MARGIN_S = 2.0
"""What fio needs of a window beside its runtime: to start, to end, and to be read."""

_STORED_WITHIN_S = 120.0


def station(
    witness: Witness,
    load: SoakWorkload,
    *,
    seed: int,
    deadline_s: float,
    opened: contextlib.ExitStack,
    stop: threading.Event,
) -> Station:
    """Return `witness`'s host under soak; what was started is stopped and removed by `opened`.

    Raises NotRunError with every reason that it can't be done, HarnessError where the warm-up
    fails, TransportError where the host can't be asked.
    """
    reasons: list[str] = []
    if load.kv_arm == "device":
        reasons.append("this version can't say where the KV of arm 'device' lies")
    place = engine = None
    workload = _fio_workload(load, load.window.to("s") - FIO_MARGIN_S)
    try:
        place = opened.enter_context(fio.prepare(witness, workload, seed=seed % 2**31, cancel=stop))
    except NotRunError as err:
        reasons += err.reasons
    try:
        engine = _engine(witness, load, seed, deadline_s, opened) if not reasons else None
    except NotRunError as err:
        reasons += err.reasons
    if place is None or engine is None:
        raise NotRunError(tuple(reasons))
    requests = sessions(
        seed,
        SESSIONS_A_USER * load.concurrency,
        prompt_tokens=load.prompt_tokens,
        output_tokens=load.output_tokens,
        vocab=MODELS[MODEL].vocab,
    )
    _warm_up(engine, requests, load)
    one = functools.partial(_fio, witness, load, place, stop)
    one(3.0)  # what can't work at all is seen before the first window
    return Station(witness=witness, engine=engine, requests=requests, fio=one)


def _fio_workload(load: SoakWorkload, runtime_s: float) -> FioWorkload:
    return FioWorkload.model_validate(
        {
            "rounds": 1,
            "ramp": "0 s",
            "runtime": f"{max(1.0, runtime_s):.1f} s",
            "size": load.fio_size,
            "jobs": [load.fio_job],
        }
    )


def _fio(
    witness: Witness, load: SoakWorkload, place: fio.Place, stop: threading.Event, window_s: float
) -> Answer:
    """Run the soak's fio job for a window of `window_s`."""
    rate = round(READS_OF_FILE * load.fio_size.to("B") / load.window.to("s"))
    return fio.run(
        witness,
        load.fio_job,
        workload=_fio_workload(load, window_s - FIO_MARGIN_S),
        place=place,
        cancel=stop,
        sustained=True,
        rate_bytes_per_s=rate,
    )


def _engine(
    witness: Witness,
    load: SoakWorkload,
    seed: int,
    deadline_s: float,
    opened: contextlib.ExitStack,
) -> RunningEngine:
    """Return the arm's engine, started, with a folder of its own for its KV."""
    path = None
    if load.kv_arm != "recompute":
        model = MODELS[MODEL]
        each = -(-(load.prompt_tokens + load.output_tokens) // model.block) * model.block_bytes
        needs = 2 * SESSIONS_A_USER * load.concurrency * each
        folder = scratch_folder(witness, "soak-kv", needs_bytes=needs)
        path = opened.enter_context(folder).path
    setup = ArmSetup(arm=load.kv_arm, seed=seed % 2**64, kv_path=path, model=MODEL)
    return opened.enter_context(start_engine(witness, setup, deadline_s=deadline_s))


def _warm_up(engine: RunningEngine, requests: Sequence[Request], load: SoakWorkload) -> None:
    """Have every session answered once and stored, so that windows measure one thing."""
    endpoint = Endpoint(base_url=engine.base_url, model=engine.model, timeout_s=REQUEST_TIMEOUT_S)
    result = closed_loop(endpoint, requests, concurrency=load.concurrency)
    if result.failed:
        first = result.failed[0]
        raise HarnessError(
            f"{engine.host}: {len(result.failed)} of {len(result.rows)} requests of the warm-up "
            f"failed; the first: {first.failure}: {first.error}"
        )
    if load.kv_arm != "recompute":
        engine.wait_stored(_STORED_WITHIN_S)
