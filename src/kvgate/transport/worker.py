"""A worker: asks hosts in a process of its own, for a controller whose one is not enough.

``python -m kvgate.transport.worker``, started by `transport.fleet` only. Requests come by standard
input as frames, results go back by standard output as they come. It ends, with all it started,
when standard input does: the controller has closed it, or is no more.
"""

from __future__ import annotations

import concurrent.futures
import os
import pickle
import signal
import sys

from kvgate.spec.inventory import Inventory
from kvgate.transport import frames
from kvgate.transport.connect import Connections

SWITCH_S = 0.05
"""How long a thread may hold the interpreter while others wait: those ask for it that often.

Each of a hundred threads has less than 1 ms to do before it waits for its host again; at Python's
5 ms they spend more CPU on asking for their turn than on SSH."""


class _Worker:
    """The connections of this process and the threads that ask."""

    def __init__(self, inventory: Inventory, at_once: int, replies: frames.Sender) -> None:
        self._hosts = inventory.hosts
        self._replies = replies
        # A host rests after each command here: those that are being asked must all stay open.
        self.connections = Connections(inventory, kept_open=at_once + at_once // 4)
        self.pool = concurrent.futures.ThreadPoolExecutor(at_once)

    def ask(self, request: frames.Header, stdin: bytes) -> None:
        """Run one command and send how it ended, or why it could not be run."""
        try:
            header, body = self._answer(request, stdin)
        except Exception as err:  # noqa: BLE001  told to who asked, where it costs one answer
            header, body = frames.failed(err), ()
        try:
            self._replies.send({"id": request["id"], **header}, *body)
        except OSError:
            os._exit(1)  # nobody is there to hear anything more

    def _answer(
        self, request: frames.Header, stdin: bytes
    ) -> tuple[frames.Header, tuple[bytes, ...]]:
        host = self._hosts[request["host"]]
        argv = request["argv"]
        try:
            result = self.connections.to(host).run(
                argv,
                timeout_s=request["timeout_s"],
                stdin=stdin,
                env=request["env"],
                cap_bytes=request["cap_bytes"],
            )
        finally:
            self.connections.rest(host)
        return frames.told(result, argv), (result.stdout, result.stderr)


def main() -> None:
    """Serve until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C: the controller ends us
    sys.setswitchinterval(SWITCH_S)
    replies = frames.Sender(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)  # what a library prints is no frame
    requests = frames.received(sys.stdin.buffer)
    first = next(requests, None)
    if first is None:
        return
    header, body = first
    # From our own parent, which reads the inventory; what hosts say never comes this way.
    inventory = pickle.loads(body)  # noqa: S301
    worker = _Worker(inventory, header["at_once"], replies)
    for request, stdin in requests:
        worker.pool.submit(worker.ask, request, stdin)
    worker.pool.shutdown(wait=False, cancel_futures=True)
    worker.connections.close()
    os._exit(0)  # threads that still wait for a host wait for nobody


if __name__ == "__main__":
    main()
