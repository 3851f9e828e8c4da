"""Faults of processes: an engine killed outright, and begun again."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

from kvgate.errors import HarnessError, KvgateError, RepairError, UsageError
from kvgate.faults.base import Engine, Fault, Injection, OnEvent, Target
from kvgate.witness import Witness

GONE_WITHIN_S = 10.0
POLL_S = 0.05


@contextlib.contextmanager
def engine_killed(
    witness: Witness, target: Target, back_within_s: float = 30, on_event: OnEvent | None = None
) -> Iterator[Injection]:
    """Hold the target's engine killed for the block, then prove that it answers again.

    1. see that its pid is the engine's, 2. kill -9, 3. prove it gone (its process ended, the pid
    is not there, the port refuses), 4. the block, 5. start it again, 6. prove it answers a
    request. Steps 5 and 6 together have `back_within_s`, and happen on every way out once 2 was
    tried. Raises HarnessError where 3 fails, RepairError where 5 or 6 does.
    """
    if target.engine is None:
        raise UsageError("engine_killed: there is no engine to kill")
    engine = target.engine
    injection = Injection(fault="engine_killed", host=witness.host.name, on_event=on_event)
    _see_it_is_an_engine(witness, engine.pid)  # 1
    injection.mark("begun")
    try:
        witness.ask(["kill", "-KILL", str(engine.pid)], timeout_s=10).result.expect_ok()  # 2
        _prove_gone(witness, engine)  # 3
        injection.mark("proven")
        yield injection  # 4
    finally:
        _repair(witness, engine, back_within_s)  # 5, 6
        injection.mark("repaired")


def _see_it_is_an_engine(witness: Witness, pid: int) -> None:
    """Raise HarnessError unless `pid` runs an embedded engine: pids are given anew."""
    command = witness.ask(["cat", f"/proc/{pid}/cmdline"], timeout_s=10).result
    if not command.ok or b"kvgate.serving" not in command.stdout:
        raise HarnessError(
            f"{witness.host.name}: process {pid} is not a serving engine: not killed"
        )


def _prove_gone(witness: Witness, engine: Engine) -> None:
    """Raise HarnessError unless process, pid and port are gone within GONE_WITHIN_S."""
    deadline = time.monotonic() + GONE_WITHIN_S
    engine.ended(GONE_WITHIN_S)
    left = f"process {engine.pid}"
    while time.monotonic() < deadline:
        there = witness.ask(["cat", f"/proc/{engine.pid}/stat"], timeout_s=10).result
        if not there.ok and _refuses(engine.address, engine.port):
            return
        left = f"process {engine.pid}" if there.ok else f"port {engine.port}"
        time.sleep(POLL_S)
    raise HarnessError(
        f"{witness.host.name}: engine killed: {left} is still there after "
        f"{GONE_WITHIN_S:g} s: the fault is not proven"
    )


def _refuses(address: str, port: int) -> bool:
    """Tell whether a connection is refused; a silent host proves nothing."""
    try:
        socket.create_connection((address, port), timeout=2).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


def _repair(witness: Witness, engine: Engine, within_s: float) -> None:
    """Start the engine again and have it answer; raises RepairError after `within_s`."""
    deadline = time.monotonic() + within_s
    where = witness.host.name
    if engine.answers(timeout_s=within_s):  # the kill itself went wrong: it never stopped
        return
    try:
        engine.restart(within_s=within_s)
    except KvgateError as err:
        raise RepairError(
            f"{where}: the engine did not start again after engine_killed: {err.message}",
            hint="the bench is not as we found it: stop the run and look at the engine's log",
        ) from err
    while not engine.answers(timeout_s=max(0.1, deadline - time.monotonic())):
        if time.monotonic() > deadline:
            raise RepairError(
                f"{where}: the engine answers no request {within_s:g} s after engine_killed",
                hint="the bench is not as we found it: stop the run and look at the engine's log",
            )
        time.sleep(POLL_S)


FAULTS = (
    Fault(
        name="engine_killed",
        text="The serving engine's process is killed (SIGKILL) and started again",
        inject=engine_killed,
    ),
)
